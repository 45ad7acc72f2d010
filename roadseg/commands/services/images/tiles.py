"""Tiles of a service as one image: fetched by several threads, checked, and written row by row."""

import hashlib
import io
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rasterio.windows import Window as RasterWindow

from roadseg.commands.services.images.levels import Level, Place, TilePlan
from roadseg.commands.services.images.records import Credit, Origin, tags_of
from roadseg.errors import DataError
from roadseg.raster.tiff import new_profile, open_new
from roadseg.system.files import whole
from roadseg.system.hosts.parallel import ahead_in_order
from roadseg.system.progress import Progress
from roadseg.system.text import count
from roadseg.system.web.answers import Answer, BadAnswerError
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys

Pixels = NDArray[np.uint8]

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_BANDS = 4  # Red, green, blue and alpha, to which every tile is brought.
_STRIP_PX = 512  # Rows that are written at once, as high as the blocks of the file.
LARGEST_PX = 4096  # Rows or columns of a tile.
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
        level: of the tiles.
        address: of the tile at a row and column, with places for keys.
        credit: what the service says of its images.
    """

    kind: str
    layer: str
    level: Level
    address: Callable[[int, int], str]
    credit: Credit = field(default_factory=Credit)


@dataclass
class TileCounts:
    """What came of the tiles.

    Attributes:
        fetched: tiles that the service gave now.
        cached: tiles that were fetched before.
        missing: tiles that the service does not have.
        plain: tiles of a single colour.
        repeated: tiles whose picture another place has as well, plain ones left out.
    """

    fetched: int = 0
    cached: int = 0
    missing: int = 0
    plain: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class Tile:
    """A tile of a service.

    Attributes:
        pixels: shape (row, col, 4).
        body: its file.
        is_cached: whether it was fetched before.
    """

    pixels: Pixels
    body: bytes
    is_cached: bool


class TileReader:
    """Reads tiles of a service, from the cache or from the web, and counts them."""

    def __init__(
        self, service: TileService, client: Client, cache: Cache, *, any_size: bool = False
    ) -> None:
        """Begin with all counts at 0; tiles have the size of the level, or any."""
        self.service, self.client, self.cache = service, client, cache
        self._tile_px = None if any_size else service.level.tile_px
        self.counts = TileCounts()
        self._pictures: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def read(self, place: Place) -> Pixels | None:
        """Return a tile, shape (row, col, 4); None if the service does not have it.

        Raises:
            DataError: if it cannot be fetched, or is not a picture of the right size.
        """
        found = self.find(place)
        with self._lock:
            self._count(found)
        return None if found is None else found.pixels

    def is_cached(self, place: Place) -> bool:
        """Return whether a tile has been fetched before."""
        return self.cache.path(self._asked(place)).is_file()

    def _asked(self, place: Place) -> str:
        return f"tile {without_keys(self.service.address(*place))}"

    def find(self, place: Place) -> "Tile | None":
        """Return a tile from the cache or the service, without counting it.

        Raises:
            DataError: if it cannot be fetched, or is not a picture of the right size.
        """
        asked = self._asked(place)
        if (body := self.cache.take(asked)) is not None:
            try:
                return Tile(decode(body, self._tile_px), body, is_cached=True)
            except BadAnswerError:
                self.cache.forget(asked)
        tile = self.client.find(self.service.address(*place), self._read)
        if tile is not None:
            self.cache.keep(asked, tile.body)
        return tile

    def _read(self, answer: Answer) -> "Tile":
        return Tile(decode_answer(answer, self._tile_px), answer.body, is_cached=False)

    def _count(self, found: "Tile | None") -> None:
        if found is None:
            self.counts.missing += 1
            return
        pixels = found.pixels
        self.counts.cached += found.is_cached
        self.counts.fetched += not found.is_cached
        if (pixels == pixels[0, 0]).all():
            self.counts.plain += 1
            return
        digest = hashlib.sha256(found.body).digest()[:8]
        self._pictures[digest] += 1
        self.counts.repeated += self._pictures[digest] > 1


def decode_answer(answer: Answer, tile_px: tuple[int, int] | None) -> Pixels:
    """Return the pixels of an answer, shape (row, col, 4).

    Raises:
        BadAnswerError: if it is no picture, a damaged one, or one of another size.
    """
    try:
        return decode(answer.body, tile_px)
    except BadAnswerError as error:
        if "cannot identify" in str(error):
            raise BadAnswerError(f"found {answer.what}, expected an image") from error
        raise


def decode(body: bytes, tile_px: tuple[int, int] | None) -> Pixels:
    """Return the pixels of a picture as red, green, blue and alpha, shape (row, col, 4).

    Args:
        body: PNG, JPEG, WebP or GIF.
        tile_px: rows and columns that it has to have; None takes any up to 4096.

    Raises:
        BadAnswerError: if it is no picture, a damaged one, or one of another size.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = Image.open(io.BytesIO(body), formats=_FORMATS)
            _require_tile(picture, tile_px)
            return np.asarray(picture.convert("RGBA"))
    except BadAnswerError:
        raise
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
    if max(size) > LARGEST_PX:
        raise BadAnswerError(f"found {size[0]} x {size[1]} pixels, expected a tile")
    if picture.mode.startswith(("I", "F")):
        raise BadAnswerError(f"found pixels of type {picture.mode}, expected 8 bits a band")


def write_image(path: Path, plan: TilePlan, reader: TileReader, origin: Origin) -> None:
    """Fetch the tiles of a plan and write them as one GeoTIFF, holding few strips of it in memory.

    Tiles that the area does not touch, or that the service does not have, are transparent.

    Raises:
        DataError: if a tile cannot be fetched, or the service has none of them.
        OutputError: if the file cannot be written.
    """
    places = list(plan.places())
    profile = new_profile(plan.grid, count=_BANDS, dtype="uint8") | _PROFILE
    with (
        whole(path) as partial,
        open_new(partial, profile) as target,
        Progress("fetch images", total=len(places), unit="tiles") as progress,
    ):
        target.update_tags(**tags_of(origin))
        strips = _Strips(plan, target)
        for place, pixels in zip(places, ahead_in_order(reader.read, places), strict=True):
            if pixels is not None:
                strips.paste(pixels, place)
            strips.write_above(place)
            progress.add()
        strips.write_rest()
        if reader.counts.missing == len(places):
            raise DataError(
                f"{origin.source}: the service has none of the {count(len(places), 'tile')} of "
                f"level {plan.level.name} in this area; check the template, the level and the area"
            )


class _Strips:
    """The strips of an image that tiles fill from above, until each is written."""

    def __init__(self, plan: TilePlan, target: Any) -> None:  # noqa: ANN401 - an open raster
        self._plan, self._target = plan, target
        self._open: dict[int, Pixels] = {}
        self._written = 0

    def paste(self, pixels: Pixels, place: Place) -> None:
        """Copy a tile to the strips that it crosses."""
        window, (high, wide) = self._plan.window, self._plan.level.tile_px
        top, left = place[0] * high - window.row, place[1] * wide - window.col
        cols = slice(max(left, 0), min(left + wide, window.width))
        first, last = max(top, 0), min(top + high, window.height)
        for number in range(first // _STRIP_PX, -(-last // _STRIP_PX)):
            above = number * _STRIP_PX
            rows = slice(max(first, above), min(last, above + _STRIP_PX))
            strip = self._strip(number)
            strip[rows.start - above : rows.stop - above, cols] = pixels[
                rows.start - top : rows.stop - top, cols.start - left : cols.stop - left
            ]

    def write_above(self, place: Place) -> None:
        """Write the strips that lie above a tile, which no later tile crosses."""
        top = place[0] * self._plan.level.tile_px[0] - self._plan.window.row
        while (self._written + 1) * _STRIP_PX <= top:
            self._write()

    def write_rest(self) -> None:
        """Write what is left."""
        while self._written * _STRIP_PX < self._plan.window.height:
            self._write()

    def _strip(self, number: int) -> Pixels:
        if number not in self._open:
            height = min(_STRIP_PX, self._plan.window.height - number * _STRIP_PX)
            shape = (height, self._plan.window.width, _BANDS)
            self._open[number] = np.zeros(shape, dtype=np.uint8)
        return self._open[number]

    def _write(self) -> None:
        strip = self._strip(self._written)
        # Colours of transparent pixels mean nothing, and compress badly.
        strip[strip[:, :, 3] == 0] = 0
        height, width = strip.shape[:2]
        window = RasterWindow(0, self._written * _STRIP_PX, width, height)
        self._target.write(np.moveaxis(strip, 2, 0), window=window)
        del self._open[self._written]
        self._written += 1


def remarks(counts: TileCounts) -> Iterator[str]:
    """Yield what a user should look at, though each tile is a picture."""
    if counts.missing:
        yield f"{count(counts.missing, 'tile')} that the service does not have are no data"
    if counts.plain:
        yield f"{count(counts.plain, 'tile')} of a single colour"
    if counts.repeated:
        yield (
            f"{count(counts.repeated, 'tile')} with the picture of another tile; services send one "
            "where they have no image at this level"
        )
