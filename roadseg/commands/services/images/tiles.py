"""Tiles of a template or a service as one image, fetched by several threads and checked."""

import hashlib
import io
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from roadseg.commands.services.images.fetching import (
    FETCHED,
    THERE,
    WANTED,
    Credit,
    Fetch,
    FetchedImage,
    FetchSummary,
    ImageOrigin,
    day_of,
    is_fetched,
    slug,
    tags_of,
    write_record,
)
from roadseg.commands.services.images.levels import (
    Level,
    Place,
    TilePlan,
    choose_level,
    plan_tiles,
    with_tile_px,
    xyz_level,
)
from roadseg.errors import ConfigError, DataError
from roadseg.raster.pixels import CACHE_BYTES
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window
from roadseg.system.files import atomic_write
from roadseg.system.parallel import ahead_in_order
from roadseg.system.progress import Progress
from roadseg.system.text import count, size_text
from roadseg.system.web.answers import Answer, BadAnswerError, split_address
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys

Pixels = NDArray[np.uint8]

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_BANDS = 4  # Red, green, blue and alpha, to which every tile is brought.
_BLOCK_PX = 512  # Rows and columns of the blocks of the file.
_LARGEST_PX = 4096  # Rows or columns of a tile.
_FINEST_ZOOM = 24
_USUAL_BYTES = 25_000  # Of a tile, if those that are tried first are missing.
_TRIED = 5  # Tiles that are tried for one that tells the size of all.
_LOOKED_UP = 200_000  # Tiles; of more it is not looked up which are in the cache.
_PLACE = re.compile(r"\{(-?[A-Za-z]\w*)(?::([^{}]*))?\}")
_SUBDOMAINS = "a,b,c"
_KNOWN = {"z", "zoom", "x", "y", "-y", "q", "s", "switch", "env"}
_PROFILE = {
    "compress": "deflate",
    "photometric": "RGB",
    "alpha": "YES",
    "interleave": "pixel",
    "bigtiff": "IF_SAFER",
}


@dataclass(frozen=True)
class TileService:
    """A service of tiles, of which one level of one layer was chosen.

    Attributes:
        kind: such as "XYZ tiles".
        layer: empty if there is only one.
        address: of the tile at a row and column, with places for keys.
    """

    kind: str
    layer: str
    level: Level
    address: Callable[[int, int], str]
    credit: Credit = field(default_factory=Credit)


@dataclass(frozen=True)
class Tile:
    """A tile of a service: its pixels, shape (row, col, 4), and the bytes of its file."""

    pixels: Pixels
    body: bytes


class TileReader:
    """Reads tiles of a service, from the cache or from the web, and counts them.

    Attributes:
        counts: tiles that the service lacks, and that have the picture of another one.
    """

    def __init__(
        self, service: TileService, client: Client, cache: Cache, *, any_size: bool = False
    ) -> None:
        """Begin with all counts at 0; tiles have the size of the level, or any."""
        self.service, self.client, self.cache = service, client, cache
        self._tile_px = None if any_size else service.level.tile_px
        self.counts = {"missing": 0, "repeated": 0}
        self._pictures: set[bytes] = set()
        self._lock = threading.Lock()

    def read(self, place: Place) -> Pixels | None:
        """Return a tile, shape (row, col, 4); None if the service does not have it.

        Raises:
            DataError: if it cannot be fetched, or is not a picture of the right size.
        """
        found = self.find(place)
        with self._lock:
            if found is None:
                self.counts["missing"] += 1
                return None
            picture = hashlib.sha256(found.body).digest()
            self.counts["repeated"] += picture in self._pictures
            self._pictures.add(picture)
        return found.pixels

    def is_cached(self, place: Place) -> bool:
        """Return whether a tile has been fetched before."""
        return self.cache.path(self._asked(place)).is_file()

    def _asked(self, place: Place) -> str:
        return f"tile {without_keys(self.service.address(*place))}"

    def find(self, place: Place) -> Tile | None:
        """Return a tile from the cache or the service, without counting it.

        Raises:
            DataError: if it cannot be fetched, or is not a picture of the right size.
        """
        asked = self._asked(place)
        if (body := self.cache.read(asked)) is not None:
            try:
                return Tile(decode(body, self._tile_px), body)
            except BadAnswerError:
                self.cache.forget(asked)

        def read(answer: Answer) -> Tile:
            return Tile(decode(answer.body, self._tile_px, answer.description), answer.body)

        tile = self.client.find(self.service.address(*place), read)
        if tile is not None:
            self.cache.write(asked, tile.body)
        return tile


def decode(body: bytes, tile_px: tuple[int, int] | None, what: str = "a file") -> Pixels:
    """Return the pixels of a picture as red, green, blue and alpha, shape (row, col, 4).

    Args:
        body: PNG, JPEG, WebP or GIF.
        tile_px: rows and columns that it has to have; None takes any up to 4096.
        what: what it is if it is not a picture, for the error.

    Raises:
        BadAnswerError: if it is not a picture, a damaged one, or one of another size.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = Image.open(io.BytesIO(body), formats=_FORMATS)
            _require_tile(picture, tile_px)
            return np.asarray(picture.convert("RGBA"))
    except BadAnswerError:
        raise
    except UnidentifiedImageError as error:
        raise BadAnswerError(f"found {what}, expected an image") from error
    # Damaged files make Pillow's decoders raise errors of many kinds.
    except Exception as error:
        raise BadAnswerError(f"a damaged image ({error})") from error


def _require_tile(picture: Image.Image, tile_px: Place | None) -> None:
    """Check the size of a picture, and its type of pixels, before it is decoded."""
    size = (picture.height, picture.width)
    if tile_px and size != tile_px:
        raise BadAnswerError(
            f"found a tile of {size[0]} x {size[1]} pixels, expected {tile_px[0]} x {tile_px[1]} "
            "as of the others"
        )
    if max(size) > _LARGEST_PX:
        raise BadAnswerError(f"found {size[0]} x {size[1]} pixels, expected a tile")
    if picture.mode.startswith(("I", "F")):
        raise BadAnswerError(f"found pixels of type {picture.mode}, expected 8 bits a band")


def write_image(path: Path, plan: TilePlan, reader: TileReader, origin: ImageOrigin) -> None:
    """Fetch the tiles of a plan and write them as one GeoTIFF, holding few rows of tiles in memory.

    Tiles that the area does not touch, or that the service does not have, are transparent.

    Raises:
        DataError: if a tile cannot be fetched, or the service has none of them.
        OutputError: if the file cannot be written.
    """
    places, (high, wide) = list(plan.places()), plan.level.tile_px
    # GDAL holds two rows of blocks, so that none is compressed before it is full.
    held = 2 * _BLOCK_PX * (plan.window.width + _BLOCK_PX) * _BANDS
    profile = new_profile(plan.grid, count=_BANDS, dtype="uint8") | _PROFILE
    with (
        rasterio.Env(GDAL_CACHEMAX=max(CACHE_BYTES, held)),
        atomic_write(path) as partial,
        open_new(partial, profile) as target,
        Progress("fetch images", total=len(places), unit="tiles") as progress,
    ):
        target.update_tags(**tags_of(origin))
        tiles = zip(places, ahead_in_order(reader.read, places), strict=True)
        for row, of_row in groupby(tiles, key=lambda tile: tile[0][0]):
            top = row * high - plan.window.row
            first, last = max(top, 0), min(top + high, plan.window.height)
            strip = np.zeros((last - first, plan.window.width, _BANDS), dtype=np.uint8)
            for (_, col), pixels in of_row:
                if pixels is not None:
                    left = col * wide - plan.window.col
                    start, stop = max(left, 0), min(left + wide, plan.window.width)
                    strip[:, start:stop] = pixels[
                        first - top : last - top, start - left : stop - left
                    ]
                progress.add()
            # Colours of transparent pixels mean nothing, and compress badly.
            strip[strip[:, :, 3] == 0] = 0
            here = Window(first, 0, *strip.shape[:2]).to_rasterio()
            target.write(np.moveaxis(strip, 2, 0), window=here)
        if reader.counts["missing"] == len(places):
            raise DataError(
                f"{origin.source}: the service has none of the {count(len(places), 'tile')} of "
                f"level {plan.level.name} in this area; check the template, the level and the area"
            )


def template_service(fetch: Fetch) -> TileService:
    """Choose a zoom of the tiles of a template; tiles of 512 pixels show the same ground finer.

    Raises:
        ConfigError: if the template lacks a place, or the size of pixels has to be chosen.
        DataError: if its tiles have another size.
    """
    template = fetch.request.source
    check_template(template)
    levels = [xyz_level(zoom) for zoom in range(_FINEST_ZOOM + 1)]
    level = choose_level(levels, fetch)
    service = _service(template, level)
    plan = plan_tiles(level, fetch.area)
    sample = _sample(plan, TileReader(service, fetch.client, fetch.cache, any_size=True))
    rows, cols = level.tile_px if sample is None else sample.pixels.shape[:2]
    if (rows, cols) == level.tile_px:
        return service
    if rows != cols or rows % 128:
        raise DataError(
            f"{without_keys(service.address(*plan.middle()))}: found a tile of {rows} x {cols} "
            "pixels, expected 256 x 256 or 512 x 512"
        )
    return _service(template, choose_level([with_tile_px(each, rows) for each in levels], fetch))


def _service(template: str, level: Level) -> TileService:
    def address(row: int, col: int) -> str:
        return tile_address(template, int(level.name), row, col)

    return TileService("XYZ tiles", "", level, address)


def fetch_tiles(fetch: Fetch, address: str, service: TileService) -> FetchSummary:
    """Fetch the tiles of an area as one image.

    Args:
        address: of the service, which the image is named by.

    Raises:
        ConfigError: if it is more than the limit.
        DataError: if a tile cannot be fetched, or all are missing.
        OutputError: if the image cannot be written, or another one has its name.
    """
    plan, level = plan_tiles(service.level, fetch.area), service.level.name
    origin = fetch.origin(service.kind, service.credit, layer=service.layer, level=level)
    size = f"z{level}" if level.isdecimal() else level.replace(" ", "")
    path = fetch.path(host_of(address), service.layer, size, day_of(service.credit))
    reader = TileReader(service, fetch.client, fetch.cache)
    image, expected = FetchedImage.on(plan.grid, path, THERE, service.credit), "nothing to fetch"
    if not is_fetched(path, origin):
        expected = _what_to_fetch(fetch, plan, reader)
        image = replace(image, state=WANTED)
        if not fetch.dry_run:
            write_image(path, plan, reader, origin)
            write_record(path, origin, {"gsd_m": image.gsd_m, "tiles": reader.counts})
            remarks = {
                "missing": "that the service does not have count as no data",
                "repeated": "with the picture of another tile: look at them, as some services send "
                "a placeholder where they have no image at this level",
            }
            told = [
                f"{count(reader.counts[kind], 'tile')} {remark}"
                for kind, remark in remarks.items()
                if reader.counts[kind]
            ]
            image = replace(image, state=FETCHED, remarks=told)
    return FetchSummary([image], expected, fetch.client.received / 1e6)


def _what_to_fetch(fetch: Fetch, plan: TilePlan, reader: TileReader) -> str:
    """Return how many tiles are to be fetched, unless it is more than allowed."""
    sample = _sample(plan, reader)
    each = _USUAL_BYTES if sample is None else len(sample.body)
    total = sum(1 for _ in plan.places())
    cached = sum(map(reader.is_cached, plan.places())) if total <= _LOOKED_UP else 0
    size_mb = (total - cached) * each / 1e6
    grid = plan.grid
    expected = f"{count(total, 'tile')}, {cached} of them in the cache, about {size_text(size_mb)}"
    what = f"{expected}, for an image of {grid.height} x {grid.width} pixels"
    fetch.require_within_limit(size_mb, what)
    return expected


def _sample(plan: TilePlan, reader: TileReader) -> Tile | None:
    """Return a tile of the area; if it is missing, one of some others."""
    tried = chain([plan.middle()], islice(plan.places(), _TRIED - 1))
    return next((found for place in tried if (found := reader.find(place)) is not None), None)


def is_template(source: str) -> bool:
    """Return whether an address has places for tiles."""
    return bool({name.lower() for name, _ in _PLACE.findall(source)} & {"x", "y", "-y", "q"})


def check_template(source: str) -> None:
    """Check that a template names every tile.

    Raises:
        ConfigError: if it lacks a place, or has an unknown one.
    """
    names = {name for name, _ in _PLACE.findall(source)}
    if "${" in source:
        raise ConfigError(f"{source:.200}: write {{z}}, {{x}} and {{y}} without the dollar signs")
    if unknown := sorted(names - _KNOWN):
        raise ConfigError(
            f"{source:.200}: {{{unknown[0]}}} is unknown; expected {{z}}, {{x}}, {{y}} or {{-y}}, "
            "{q}, {s} and {env:NAME}"
        )
    if "q" not in names and not ({"z", "zoom"} & names and "x" in names and {"y", "-y"} & names):
        raise ConfigError(
            f"{source:.200}: a template of tiles needs {{z}}, {{x}} and {{y}} (or {{-y}} if rows "
            "count from the south), or {q}"
        )


def tile_address(template: str, zoom: int, row: int, col: int) -> str:
    """Return the address of a tile, still with places for keys.

    Args:
        template: with {z} or {zoom}, {x}, {y} from the north or {-y} from the south, {q} for the
            quadkey, {s} or {switch:a,b,c} for hosts that share the work.
        row: from the north.
        col: from the west.
    """

    def value(place: re.Match[str]) -> str:
        name, argument = place[1], place[2]
        if name == "env":
            return place[0]
        if name in {"s", "switch"}:
            hosts = (argument or _SUBDOMAINS).split(",")
            return hosts[(row + col) % len(hosts)]
        return {
            "z": str(zoom),
            "zoom": str(zoom),
            "x": str(col),
            "y": str(row),
            "-y": str(2**zoom - 1 - row),
            "q": quadkey(zoom, row, col),
        }[name]

    return _PLACE.sub(value, template)


def host_of(address: str) -> str:
    """Return the host of an address without places, as a part of a file name."""
    host = split_address(_PLACE.sub("", without_keys(address))).hostname or ""
    return slug(host.strip("."))


def quadkey(zoom: int, row: int, col: int) -> str:
    """Return the quadkey of a tile: a digit for each level, from the coarsest."""
    return "".join(str((col >> bit & 1) + 2 * (row >> bit & 1)) for bit in reversed(range(zoom)))
