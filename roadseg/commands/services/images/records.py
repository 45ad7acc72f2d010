"""Records of fetched images: where an image came from, whose it is, and of what day it is."""

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
    """What a service says of its images.

    Attributes:
        attribution: who is to be named; empty if the service does not say.
        licence: or its terms; empty if it does not say.
        date: of the images, such as 2024-05-17 or 2023-01-01/2023-12-31; empty if unknown.
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
    """Where an image is fetched from, and what decides about its pixels.

    Attributes:
        source: address as it was given, without keys.
        service: kind of service, such as "XYZ tiles".
        layer: of a WMTS or WMS, or asset of a STAC item; empty for none.
        level: zoom, or level of tiles; empty for none.
        area: the name of its file, or its bounds.
        bounds: of the area in degrees: west, south, east, north.
        ground: a digest of the polygons of the area.
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
        """A digest of what decides about the pixels."""
        settings = {k: v for k, v in asdict(self).items() if k not in {"area", "credit"}}
        return key_of(settings, {})


def slug(text: str) -> str:
    """Return a text as a part of a file name: letters, digits, - and _."""
    return _UNSAFE.sub("-", text).strip("-")[:_LONGEST_NAME]


def day_of(credit: Credit) -> str:
    """Return the day, or the first day, of images; empty if it is unknown."""
    return credit.date[:10] if _DAY.match(credit.date) else ""


def plain(text: str | None) -> str:
    """Return a text of a service as it is kept: one line, not endless, without keys."""
    return without_keys(one_line(text or ""))[:_MOST_LETTERS]


def record_path(image: Path) -> Path:
    """Return where the record of an image lies."""
    return image.with_name(image.stem + _SUFFIX)


def is_fetched(image: Path, origin: Origin) -> bool:
    """Return whether an image is there that came from this origin.

    Raises:
        OutputError: if there is another file of this name, not fetched or from elsewhere.
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
    """Return what an image says of itself in its tags, which stay with the file."""
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
        facts: of this fetch, such as how many tiles are missing.
    """
    facts = facts | {
        "bytes": image.stat().st_size,
        "fetched": datetime.now(UTC).isoformat(timespec="seconds"),
        "roadseg": installed_version("roadseg"),
        "key": origin.key,
    }
    write_json(record_path(image), {"image": image.name, **asdict(origin), **facts})


def joined_texts(texts: Sequence[str | None]) -> str:
    """Return different texts of a service as one."""
    return "; ".join(dict.fromkeys(filter(None, map(plain, texts))))
