"""A fetch of images: its request, its folder, and its results."""

import logging
import math
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from roadseg.commands.services.images.records import Credit, Origin, slug
from roadseg.errors import ConfigError
from roadseg.raster.grid import Grid
from roadseg.roads.labels.areas import Area
from roadseg.system.text import Summary, count, size_text
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys

_log = logging.getLogger(__name__)

FETCHED, THERE, WANTED = "fetched", "there already", "to be fetched"

_BOX = re.compile(r"[-+.,\deE\s]+")  # An area that is a box, not a file.


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
    name: str | None = None
    cache: Path | None = None
    rate: float = 10.0


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
    ) -> Origin:
        """Return the origin of an image of this fetch, with the source of the request."""
        return Origin(
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
        """Return the file of an image, named by service, level and area unless a name is given."""
        text = self.request.area
        ground = text if _BOX.fullmatch(text) else Path(text).stem
        usual = "_".join(filter(None, map(slug, [*parts, ground])))
        name = (self.request.name or usual).removesuffix(".tif")
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
