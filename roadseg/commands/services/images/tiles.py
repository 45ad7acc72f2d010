"""Tiles of a service as one image: fetched by several threads, checked, and written row by row."""

import hashlib
import io
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from roadseg.commands.services.images.fetching import Credit, Origin, tags_of
from roadseg.commands.services.images.levels import Level, Place, TilePlan
from roadseg.errors import DataError
from roadseg.raster.pixels import CACHE_BYTES
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window
from roadseg.system.files import atomic_write
from roadseg.system.parallel import ahead_in_order
from roadseg.system.progress import Progress
from roadseg.system.text import count
from roadseg.system.web.answers import Answer, BadAnswerError
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys

Pixels = NDArray[np.uint8]

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
_BANDS = 4  # Red, green, blue and alpha, to which every tile is brought.
_BLOCK_PX = 512  # Rows and columns of the blocks of the file.
_LARGEST_PX = 4096  # Rows or columns of a tile.
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
    """A tile of a service.

    Attributes:
        pixels: shape (row, col, 4).
        is_cached: whether it was fetched before.
    """

    pixels: Pixels
    body: bytes
    is_cached: bool


class TileReader:
    """Reads tiles of a service, from the cache or from the web, and counts them.

    Attributes:
        counts: tiles that the service gave now, that were fetched before, that it lacks, and that
            have the picture of another one.
    """

    def __init__(
        self, service: TileService, client: Client, cache: Cache, *, any_size: bool = False
    ) -> None:
        """Begin with all counts at 0; tiles have the size of the level, or any."""
        self.service, self.client, self.cache = service, client, cache
        self._tile_px = None if any_size else service.level.tile_px
        self.counts = {"fetched": 0, "cached": 0, "missing": 0, "repeated": 0}
        self._pictures: set[bytes] = set()
        self._lock = threading.Lock()

    def read(self, place: Place) -> Pixels | None:
        """Return a tile, shape (row, col, 4); None if the service does not have it.

        Raises:
            DataError: if it cannot be fetched, or is not a picture of the right size.
        """
        found = self.find(place)
        state = "missing" if found is None else "cached" if found.is_cached else "fetched"
        with self._lock:
            self.counts[state] += 1
            if found is None:
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

        def read(answer: Answer) -> Tile:
            body = answer.body
            return Tile(decode(body, self._tile_px, answer.what), body, is_cached=False)

        tile = self.client.find(self.service.address(*place), read)
        if tile is not None:
            self.cache.keep(asked, tile.body)
        return tile


def decode(body: bytes, tile_px: tuple[int, int] | None, what: str = "a file") -> Pixels:
    """Return the pixels of a picture as red, green, blue and alpha, shape (row, col, 4).

    Args:
        body: PNG, JPEG, WebP or GIF.
        tile_px: rows and columns that it has to have; None takes any up to 4096.
        what: it is, if it is no picture.

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


def write_image(path: Path, plan: TilePlan, reader: TileReader, origin: Origin) -> None:
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
