"""A fetch of images: its request, its results, and the record of origin beside each image."""

import logging
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from roadseg.errors import ConfigError, OutputError
from roadseg.raster.grid import Grid
from roadseg.roads.labels.areas import Area
from roadseg.system.records import installed_version, key_of, parse_json, write_json
from roadseg.system.text import Summary, count, one_line, size_text
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys

_log = logging.getLogger(__name__)

FETCHED, THERE, WANTED = "fetched", "there already", "to be fetched"

_BOX = re.compile(r"[-+.,\deE\s]+")  # An area that is a box, not a file.
_SUFFIX = ".source.json"
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")
_ASKED = ("source", "layer", "area")  # Of a record: images that differ in these are others.
_LONGEST_NAME = 100  # Characters.
_MOST_LETTERS = 2000  # Of a text of a service that is kept.


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """How to fetch from a service.

    Attributes:
        headers: headers for the host of the source.
        hosts: further hosts to which the source may redirect.
    """

    zoom: int | None = None
    gsd_m: float | None = None
    layer: str | None = None
    asset: str | None = None
    limit_mb: float = 1000.0
    headers: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImageRequest(FetchOptions):
    """A request for images of an area.

    Attributes:
        source: address or template, with places for keys.
        area: vector file or box, see `read_area`.
        cache: folder for answers; None for that of the user.
        rate: largest number of requests per second.
    """

    source: str
    area: str
    output: Path
    cache: Path | None = None
    rate: float = 10.0


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
class ImageOrigin:
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


@dataclass(frozen=True)
class FetchedImage:
    """An image that was fetched, or would be.

    Attributes:
        state: FETCHED; THERE if it existed before; WANTED in a dry run.
        gsd_m: ground size of a pixel in its middle, metres.
        credit: attribution and licence that the service states.
    """

    image: Path
    state: str
    height: int
    width: int
    gsd_m: float
    crs: str
    credit: str
    remarks: list[str]

    @classmethod
    def on(cls, grid: Grid, image: Path, state: str, credit: Credit) -> "FetchedImage":
        """Return the description of an image on a grid."""
        return cls(
            image,
            state,
            grid.height,
            grid.width,
            round(math.sqrt(math.prod(grid.pixel_size_m)), 4),
            ":".join(grid.crs.to_authority() or [grid.crs.name]),
            credit.copyright,
            [],
        )


@dataclass(frozen=True)
class FetchSummary(Summary):
    """The images of an area.

    Attributes:
        expected: amount to fetch, in words.
        received_mb: megabytes that were received; 0 from buckets, which GDAL reads.
    """

    images: list[FetchedImage]
    expected: str
    received_mb: float

    def __str__(self) -> str:
        """Return lines for each image, with its warnings, and the total."""
        rows = []
        for each in self.images:
            size = f"{each.height} x {each.width} pixels of {each.gsd_m:.2f} m"
            rows.append(f"{each.image}: {each.state}, {size}, {each.crs}")
            rows += [f"  {remark}" for remark in each.remarks]
            rows.append(f"  credit: {each.credit or 'the service states none; look up its terms'}")
        received = f"; {size_text(self.received_mb)} received" if self.received_mb else ""
        return "\n".join([*rows, f"{count(len(self.images), 'image')}: {self.expected}{received}"])


@dataclass(frozen=True)
class Fetch:
    """A fetch of images in progress."""

    request: ImageRequest
    area: Area
    client: Client
    cache: Cache
    dry_run: bool

    def origin(
        self, service: str, credit: Credit, *, source: str = "", layer: str = "", level: str = ""
    ) -> ImageOrigin:
        """Return the origin of an image of this fetch, with the source of the request."""
        return ImageOrigin(
            source=source or without_keys(self.request.source),
            service=service,
            layer=layer,
            level=level,
            area=self.request.area,
            bounds=tuple(round(float(side), 7) for side in self.area.degrees.bounds),
            ground=sha256(self.area.degrees.wkb).hexdigest()[:16],
            credit=credit,
        )

    def path(self, *parts: str) -> Path:
        """Return the file of an image, named by service, level and area."""
        text = self.request.area
        ground = text if _BOX.fullmatch(text) else Path(text).stem
        name = "_".join(filter(None, map(slug, [*parts, ground])))
        return self.request.output / f"{name}.tif"

    def require_within_limit(self, size_mb: float, what: str) -> None:
        """Log the amount to fetch; refuse more than the limit.

        Raises:
            ConfigError: if it exceeds the limit.
        """
        if size_mb > self.request.limit_mb:
            raise ConfigError(
                f"{what}: more than --limit-mb {self.request.limit_mb:g}; choose a smaller area or "
                "larger pixels (--zoom, --gsd-m), or raise the limit"
            )
        _log.info("%s", what)


def slug(text: str) -> str:
    """Return a text as a part of a file name: letters, digits, - and _."""
    return _UNSAFE.sub("-", text).strip("-")[:_LONGEST_NAME]


def day_of(credit: Credit) -> str:
    """Return the day, or the first day, of images; empty if it is unknown."""
    return credit.date[:10] if _DAY.match(credit.date) else ""


def plain(text: str | None) -> str:
    """Return a text of a service in one short line without keys."""
    return without_keys(one_line(text or ""))[:_MOST_LETTERS]


def _record_path(image: Path) -> Path:
    """Return the path of the record of an image."""
    return image.with_name(image.stem + _SUFFIX)


def is_fetched(image: Path, origin: ImageOrigin) -> bool:
    """Return whether an image from this origin exists.

    Raises:
        OutputError: if a file of this name exists that was not fetched, or has another origin.
    """
    if not image.exists():
        return False
    asked = {name: getattr(origin, name) for name in _ASKED}
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = parse_json(_record_path(image))
        if asked == {name: record[name] for name in _ASKED}:
            return bool(record["key"] == origin.key and record["bytes"] == image.stat().st_size)
    raise OutputError(
        f"{image}: exists, and {_record_path(image).name} does not say that it was fetched from "
        f"{' '.join(filter(None, asked.values()))}; use another --output, or remove it"
    )


def tags_of(origin: ImageOrigin) -> dict[str, str]:
    """Return the tags of an image, which name its origin and stay with the file."""
    day = day_of(origin.credit).replace("-", ":")
    tags = {
        "TIFFTAG_COPYRIGHT": origin.credit.copyright,
        "TIFFTAG_IMAGEDESCRIPTION": " ".join(
            filter(None, (origin.source, origin.layer, origin.level))
        ),
        "TIFFTAG_DATETIME": f"{day} 00:00:00" if day else "",
        "TIFFTAG_SOFTWARE": f"roadseg {installed_version('roadseg') or ''}".strip(),
    }
    return {name: text for name, text in tags.items() if text}


def write_record(image: Path, origin: ImageOrigin, facts: dict[str, Any]) -> None:
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
    write_json(_record_path(image), {"image": image.name, **asdict(origin), **facts})


def joined_texts(texts: Sequence[str | None]) -> str:
    """Join different texts of a service."""
    return "; ".join(dict.fromkeys(filter(None, map(plain, texts))))
