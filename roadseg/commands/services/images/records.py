"""Records of fetched images: their origin, licence and date."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from roadseg.errors import OutputError
from roadseg.system.records import installed_version, key_of, parse_json, write_json
from roadseg.system.text import one_line
from roadseg.system.web.keys import without_keys

_SUFFIX = ".source.json"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
_ASKED = ("source", "layer", "area")  # Of a record: images that differ in these are others.
_LONGEST_NAME = 100  # Characters.
_MOST_LETTERS = 2000  # Of a text of a service that is kept.


@dataclass(frozen=True)
class Credit:
    """Attribution, licence and date of images, as stated by a service.

    Attributes:
        attribution: text that names the owner; empty if the service states none.
        licence: licence or terms of use; empty if the service states none.
        date: date of the images, such as 2024-05-17 or 2023-01-01/2023-12-31; empty if unknown.
    """

    attribution: str = ""
    licence: str = ""
    date: str = ""

    @property
    def copyright(self) -> str:
        """Attribution and licence in one line, as credits show it."""
        return ", ".join(filter(None, (self.attribution, self.licence)))


@dataclass(frozen=True)
class Origin:
    """The origin of an image, with everything that determines its pixels.

    Attributes:
        source: address as the user gave it, without keys.
        service: kind of service, such as "XYZ tiles".
        layer: layer of a WMTS or WMS, or asset of a STAC item; empty if there is none.
        level: zoom, or level of tiles; empty if there is none.
        area: name of the file with the area, or its bounds.
        bounds: bounds of the area in degrees: west, south, east, north.
        ground: digest of the polygons of the area.
    """

    source: str
    service: str
    layer: str
    level: str
    area: str
    bounds: tuple[float, ...]
    ground: str
    credit: Credit

    @property
    def key(self) -> str:
        """Digest of everything that determines the pixels."""
        settings = {k: v for k, v in asdict(self).items() if k not in {"area", "credit"}}
        return key_of(settings, {})


def slug(text: str) -> str:
    """Return a text as a part of a file name: letters, digits, - and _."""
    return _UNSAFE.sub("-", text).strip("-")[:_LONGEST_NAME]


def day_of(credit: Credit) -> str:
    """Return the day, or the first day, of images; empty if it is unknown."""
    return credit.date[:10] if _DAY.match(credit.date) else ""


def plain(text: str | None) -> str:
    """Return a text of a service in one short line without keys."""
    return without_keys(one_line(text or ""))[:_MOST_LETTERS]


def record_path(image: Path) -> Path:
    """Return the path of the record of an image."""
    return image.with_name(image.stem + _SUFFIX)


def is_fetched(image: Path, origin: Origin) -> bool:
    """Return whether an image from this origin exists.

    Raises:
        OutputError: if a file of this name exists that was not fetched, or has another origin.
    """
    if not image.exists():
        return False
    try:
        record = parse_json(record_path(image))
        before = {name: record[name] for name in _ASKED}
        is_same = record["key"] == origin.key and record["bytes"] == image.stat().st_size
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"{image}: exists and was not fetched (there is no {record_path(image).name} for it); "
            "choose another name with --name, or remove it"
        ) from error
    if before != {name: getattr(origin, name) for name in _ASKED}:
        raise OutputError(
            f"{image}: exists and was fetched from {before['source']} {before['layer']} for "
            f"{before['area']}; choose another name with --name, or remove it"
        )
    return bool(is_same)


def tags_of(origin: Origin) -> dict[str, str]:
    """Return the tags of an image, which name its origin and stay with the file."""
    day = day_of(origin.credit).replace("-", ":")
    return {
        name: text
        for name, text in {
            "TIFFTAG_COPYRIGHT": origin.credit.copyright,
            "TIFFTAG_IMAGEDESCRIPTION": " ".join(
                filter(None, (origin.source, origin.layer, origin.level))
            ),
            "TIFFTAG_DATETIME": f"{day} 00:00:00" if day else "",
            "TIFFTAG_SOFTWARE": f"roadseg {installed_version('roadseg') or ''}".strip(),
        }.items()
        if text
    }


def write_record(image: Path, origin: Origin, facts: dict[str, Any]) -> None:
    """Write the record beside an image.

    Args:
        facts: facts of this fetch, such as the number of missing tiles.
    """
    facts = facts | {
        "bytes": image.stat().st_size,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "roadseg": installed_version("roadseg"),
        "key": origin.key,
    }
    write_json(record_path(image), {"image": image.name, **asdict(origin), **facts})


def joined_texts(texts: Sequence[str | None]) -> str:
    """Join different texts of a service."""
    return "; ".join(dict.fromkeys(filter(None, map(plain, texts))))
