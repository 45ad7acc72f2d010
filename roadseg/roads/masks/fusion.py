"""Fusion: probabilities of several images of one place, joined in log-odds; their dates."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from rasterio.enums import Resampling
from rasterio.vrt import WarpedVRT

from roadseg.arrays import Bools, Bytes
from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.images import open_raster
from roadseg.raster.pixels import valid_pixels
from roadseg.raster.windows import CERTAIN, Window
from roadseg.system.text import one_line

IMAGES_TAG = "ROADSEG_IMAGES"
IMAGES = "images"  # Folder of the rasters of single images, beside the raster of their place.

_LEVELS = CERTAIN + 1
# Bytes stand for the middles of 256 equal steps, so that the log-odds of 0 and 255 are finite.
_MIDDLES = (np.arange(_LEVELS, dtype=np.float32) + 0.5) / _LEVELS
_LOG_ODDS = np.log(_MIDDLES / (1 - _MIDDLES))
_DATE_TAG = "ROADSEG_DATE"
_TIFF_TAG = "TIFFTAG_DATETIME"
_KEYS = ("datetime", "end_datetime", "start_datetime")  # Of a STAC item; the first with a day.
_DAY = 10  # Letters of a day, which times begin with.


@dataclass(frozen=True)
class FusedImage:
    """An image that a raster of probabilities was fused from.

    Attributes:
        shift_px: rows down and columns right, in pixels of the fused raster, by which the image
            shows the ground beside the place where the fused raster has it.
    """

    path: Path
    shift_px: tuple[float, float] = (0.0, 0.0)

    @contextmanager
    def opened(self, grid: Grid) -> Iterator["OpenImage"]:
        """Open its probabilities, moved back by the shift, on the pixels of a grid.

        Raises:
            DataError: if they are not there, or cannot be read, now or inside the block.
        """
        if not self.path.exists():
            raise DataError(
                f"{self.path} does not exist, but the raster of its place was fused from it; keep "
                f"the folder {IMAGES} beside that raster, or predict again"
            )
        there = grid.crop(*self.shift_px, grid.height, grid.width)
        with open_raster(self.path) as source:
            bands = tuple(range(1, source.count + 1))
            if source.shape == (grid.height, grid.width) and source.transform.almost_equals(
                there.transform, precision=1e-9 * abs(there.transform.a)
            ):
                yield OpenImage(source, bands)
                return
            with WarpedVRT(
                source,
                crs=there.crs.to_wkt(),
                transform=there.transform,
                height=there.height,
                width=there.width,
                resampling=Resampling.bilinear,
                add_alpha=True,
            ) as moved:
                yield OpenImage(moved, bands)


@dataclass(frozen=True)
class OpenImage:
    """The probabilities of an image on the pixels of another grid, open for many windows.

    Attributes:
        bands: numbers of its bands; the last one is any road.
    """

    source: Any
    bands: tuple[int, ...]

    def read_all(self, window: Window) -> tuple[Bytes, Bools]:
        """Return all bands, shape (band, row, col), and which pixels have data, (row, col)."""
        return self.source.read(self.bands, window=window.to_rasterio()), self._known(window)

    def read_road(self, window: Window) -> tuple[Bytes, Bools]:
        """Return the probability of any road, shape (row, col), and which pixels have data."""
        return self.source.read(self.bands[-1], window=window.to_rasterio()), self._known(window)

    def _known(self, window: Window) -> Bools:
        return valid_pixels(self.source, window.to_rasterio())


def fuse(images: Iterable[tuple[Bytes, Bools]]) -> tuple[Bytes, Bools]:
    """Join the probabilities of one window in several images.

    The log-odds of any road are averaged over the images that have data there. An image that is
    sure so weighs more than one that is not; one at 50 % has no say. The threshold of the network
    keeps its meaning, which it would not if the log-odds were added up. Speed bins share the fused
    probability as they share the mean one.

    Args:
        images: at least one: bands, shape (band, row, col), the last of any road, 255 for
            certain, and which pixels have data, shape (row, col).

    Returns:
        The same for all images together; pixels have data if they do in one of them.
    """
    images = iter(images)
    values, known = next(images)
    odds = np.where(known, _LOG_ODDS[values[-1]], np.float32(0))
    sums = np.where(known, values, np.uint8(0)).astype(np.float32)
    count = known.astype(np.float32)
    for values, known in images:
        odds += np.where(known, _LOG_ODDS[values[-1]], np.float32(0))
        sums += np.where(known, values, np.uint8(0))
        count += known
    any_known = count > 0
    mean = odds / np.maximum(count, 1)
    road = np.where(any_known, np.rint(_LEVELS / (1 + np.exp(-mean)) - 0.5), 0)
    scale = np.divide(road, sums[-1], out=np.zeros_like(road), where=sums[-1] > 0)
    bins = np.minimum(np.rint(sums[:-1] * scale), CERTAIN)
    return np.concatenate([bins, road[np.newaxis]]).astype(np.uint8), any_known


def images_tags(images: Sequence[FusedImage]) -> dict[str, str]:
    """Return the tag with which a fused raster names its images."""
    listed = [[image.path.stem, *(round(px, 3) for px in image.shift_px)] for image in images]
    return {IMAGES_TAG: json.dumps(listed)}


def images_of(path: Path, tags: Mapping[str, str]) -> tuple[FusedImage, ...]:
    """Return the images that a raster was fused from; none if it was not.

    Raises:
        DataError: if its tag says what cannot be.
    """
    text = tags.get(IMAGES_TAG)
    if text is None:
        return ()
    try:
        return tuple(_image(path, *one) for one in json.loads(text))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}: the tag {IMAGES_TAG} is {one_line(text)!r:.60}, expected a list of images "
            "with their shifts; predict it again, or remove the tag"
        ) from error


def image_path(folder: Path, name: str) -> Path:
    """Return the raster of an image alone, where those of its folder are fused."""
    return folder / IMAGES / f"{name}.tif"


def _image(path: Path, name: str, down: float, right: float) -> FusedImage:
    if Path(name).name != name or not (math.isfinite(down) and math.isfinite(right)):
        raise ValueError(name)
    return FusedImage(image_path(path.parent, name), (down, right))


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


def without_day(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a raster of which there are several images."""
    return {key: value for key, value in tags.items() if key != _DATE_TAG}


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
