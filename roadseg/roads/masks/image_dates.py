"""Dates of images, from the files beside them or their tags, kept in probability rasters."""

import json
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from roadseg.raster.images import open_raster

_DATE_TAG = "ROADSEG_DATE"
_TIFF_TAG = "TIFFTAG_DATETIME"
_KEYS = ("datetime", "end_datetime", "start_datetime")  # Of a STAC item; the first with a day.
_DAY = 10  # Letters of a day, which times begin with.


def day_taken(image: Path) -> str:
    """Return the day on which an image was taken as YYYY-MM-DD; "" if nothing says it.

    The STAC item of the same name beside the image (`city.json` for `city.tif`) goes before the
    tag TIFFTAG_DATETIME of the image.

    Raises:
        DataError: if the image cannot be read.
    """
    properties = _stac_properties(image.with_suffix(".json"))
    with open_raster(image) as source:
        texts = [*(properties.get(key) for key in _KEYS), source.tags().get(_TIFF_TAG)]
    return next(filter(None, map(_day, texts)), "")


def day_tags(day: str) -> dict[str, str]:
    """Return the tag with which a raster of probabilities says when its image was taken."""
    return {_DATE_TAG: day} if day else {}


def day_of(path: Path) -> str:
    """Return the day of the image of a raster of probabilities as YYYY-MM-DD; "" if not known.

    Raises:
        DataError: if the raster cannot be read.
    """
    with open_raster(path) as source:
        return _day(source.tags().get(_DATE_TAG))


def _day(text: object) -> str:
    """Return the day with which a time begins, as in ISO 8601 or TIFF; "" if there is none."""
    with suppress(ValueError):
        return date.fromisoformat(str(text)[:_DAY].replace(":", "-")).isoformat()
    return ""


def _stac_properties(path: Path) -> dict[str, Any]:
    """Return the properties of a STAC item; none if the file is not there, or something else."""
    try:
        item = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    properties = item.get("properties") if isinstance(item, dict) else None
    return properties if isinstance(properties, dict) and "stac_version" in item else {}
