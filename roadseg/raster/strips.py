"""Strips: rows of a raster, kept as files in a hidden folder beside it until it is complete."""

import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.enums import Resampling

from roadseg.arrays import Array, Bools
from roadseg.errors import OutputError
from roadseg.raster.grid import Grid
from roadseg.raster.pixels import CACHE_BYTES
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import CERTAIN, Rows, Window, cut_blocks
from roadseg.system.files import partial_path, remove_partial_once, rename_into_place
from roadseg.system.text import size_text

STRIP_PX = 2048  # Rows of a strip; whole tiles of the raster that the strips become.
_LARGEST_FACTOR = 2**9  # Of an overview.

_HIDDEN = ".strips-"
_WAITING = 8  # Parts that wait to be written, at most.
_TILE_PX = 128  # Small, as tiles at the edges are stored in full.
_BLOCK_PX = 1024  # Side of the blocks that are copied at once.
_GDAL = {"GDAL_TIFF_INTERNAL_MASK": True, "GDAL_CACHEMAX": CACHE_BYTES}
_SMALL_PX = 512  # Rasters of no larger side need no overview.


@dataclass(frozen=True)
class Strips:
    """The strips of a raster, each an uncompressed GeoTIFF that is complete if it exists.

    The last band of a strip says which pixels have data. Several processes may write strips of
    one raster at the same time, even the same strip.

    Attributes:
        folder: hidden folder beside the raster, named after its file and its key.
    """

    folder: Path
    grid: Grid
    bands: int

    @classmethod
    def beside(cls, path: Path, key: str, *, grid: Grid, bands: int) -> "Strips":
        """Return the strips of a raster that will be written to `path`; no file is touched."""
        return cls(path.with_name(f"{_HIDDEN}{path.name}-{key}"), grid, bands)

    @property
    def is_begun(self) -> bool:
        """Whether any strip exists."""
        return any(self._path(rows).exists() for rows in self._all())

    @property
    def missing(self) -> list[range]:
        """The rows of each missing strip, from top to bottom."""
        return [rows for rows in self._all() if not self._path(rows).exists()]

    @property
    def size(self) -> int:
        """Bytes of the pixels of the raster."""
        return self.grid.height * self.grid.width * self.bands

    @property
    def needed_bytes(self) -> int:
        """Bytes that the missing strips, and the raster made from all strips, need on the disk."""
        missing = sum(map(len, self.missing)) * self.grid.width * (self.bands + 1)
        # The joined raster, a third of it for overviews, and a tenth for the compressed one.
        return missing + int(self.size * 1.44)

    def write(self, parts: Iterable[Rows]) -> None:
        """Write rows into their strips; parts of a strip come from left to right.

        A thread writes them while the next ones are computed. A strip without all of its rows is
        not kept.

        Raises:
            OSError: if they cannot be written (a full disk).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_partial_once(self.folder)
        strips: dict[int, _OpenStrip] = {}
        with ThreadPoolExecutor(1, "writer") as thread:
            writing: deque[Future[None]] = deque()
            try:
                for part in parts:
                    writing.append(thread.submit(self._write, part, strips))
                    if len(writing) > _WAITING:
                        writing.popleft().result()
                for each in writing:
                    each.result()
            finally:
                # The thread that opened a file closes it, as rasterio wants it.
                thread.submit(_discard, strips).result()
                with suppress(OSError):
                    self.folder.rmdir()  # Only an empty folder allows that.

    @contextmanager
    def joined(self, *, names: Sequence[str], tags: Mapping[str, str]) -> Iterator[Path]:
        """Yield a draft of the raster, an uncompressed GeoTIFF with overviews.

        It has a mask if a pixel has no data.

        Raises:
            OSError: if it cannot be written.
        """
        path = partial_path(self.folder / "joined.tif")
        try:
            with ExitStack() as opened:
                opened.enter_context(rasterio.Env(**_GDAL))
                # With bands side by side, GDAL makes an overview of the one before it.
                profile = _profile(self.grid, self.bands, interleave="pixel")
                target = opened.enter_context(open_new(path, profile))
                target.descriptions = names
                target.update_tags(**tags)
                self._copy(target)
                if factors := overview_factors(self.grid.height, self.grid.width):
                    with rasterio.Env(GDAL_NUM_THREADS="ALL_CPUS"):
                        target.build_overviews(factors, Resampling.average)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove all strips."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_others(self) -> None:
        """Remove strips of the same raster with another key."""
        path, _, key = self.folder.name.rpartition("-")
        for folder in self.folder.parent.glob(f"{_HIDDEN}*"):
            name, _, other = folder.name.rpartition("-")
            if name == path and other != key:
                shutil.rmtree(folder, ignore_errors=True)

    def _all(self) -> Iterator[range]:
        for start in range(0, self.grid.height, STRIP_PX):
            yield range(start, min(start + STRIP_PX, self.grid.height))

    def _path(self, rows: range) -> Path:
        return self.folder / f"{rows.start:08d}.strip"

    def _write(self, part: Rows, strips: dict[int, "_OpenStrip"]) -> None:
        """Write each part of some rows into its strip."""
        stop = part.start + part.known.shape[0]
        for rows in self._all():
            first, end = max(part.start, rows.start), min(stop, rows.stop)
            if first < end:
                if rows.start not in strips:
                    grid = self.grid.crop(rows.start, 0, len(rows), self.grid.width)
                    strips[rows.start] = _OpenStrip(self._path(rows), grid, self.bands)
                kept = slice(first - part.start, end - part.start)
                place = first - rows.start, part.col
                strips[rows.start].write(part.values[:, kept], part.known[kept], *place)

    def _copy(self, target: Any) -> None:  # noqa: ANN401 - rasterio has no types
        with ExitStack() as opened:
            strips = {
                rows.start: opened.enter_context(rasterio.open(self._path(rows)))
                for rows in self._all()
            }
            has_gaps = any(not strip.read(strip.count).all() for strip in strips.values())
            for start, strip in strips.items():
                for block in cut_blocks(*strip.shape, block_px=_BLOCK_PX):
                    pixels = strip.read(window=block.to_rasterio())
                    place = block._replace(row=start + block.row).to_rasterio()
                    target.write(pixels[:-1], window=place)
                    if has_gaps:
                        target.write_mask(pixels[-1], window=place)


class _OpenStrip:
    """A strip that is being written; it gets its final name with its last pixel."""

    def __init__(self, path: Path, grid: Grid, bands: int) -> None:
        self._path, self._partial = path, partial_path(path)
        self._left = grid.height * grid.width
        self._opened = ExitStack()
        profile = _profile(grid, bands + 1, interleave="band")
        self._target = self._opened.enter_context(open_new(self._partial, profile))

    def write(self, values: Array, known: Bools, row: int, col: int) -> None:
        """Write the pixels of some rows and columns, which were not written before."""
        window = Window(row, col, *known.shape).to_rasterio()
        bands = [*range(1, len(values) + 1)]
        self._target.write(values, bands, window=window)
        self._target.write(known * np.uint8(CERTAIN), len(values) + 1, window=window)
        self._left -= known.size
        if not self._left:
            self._opened.close()
            rename_into_place(self._partial, self._path)

    def discard(self) -> None:
        """Remove the strip if it is incomplete."""
        with suppress(OSError):
            self._opened.close()
        self._partial.unlink(missing_ok=True)


def _discard(strips: Mapping[int, _OpenStrip]) -> None:
    for strip in strips.values():
        strip.discard()


def overview_factors(height: int, width: int) -> list[int]:
    """Return how many times smaller each overview of a raster is: 2, 4, 8, until it is small."""
    factors, factor = [], 1
    while max(height, width) > _SMALL_PX * factor and factor < _LARGEST_FACTOR:
        factor *= 2
        factors.append(factor)
    return factors


def require_room(path: Path, needed_bytes: int) -> None:
    """Refuse to begin a file that clearly does not fit on its disk.

    Raises:
        OutputError: if fewer bytes are free than it needs.
    """
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise OutputError(
            f"{path}: needs {size_text(needed_bytes / 1e6)}, but its disk has only "
            f"{size_text(free / 1e6)} free; free some space, or choose another output folder"
        )


def _profile(grid: Grid, count: int, *, interleave: str) -> dict[str, Any]:
    """Return options of rasterio for bands that are not colours."""
    return new_profile(grid, count=count, dtype="uint8") | {
        "blockxsize": _TILE_PX,
        "blockysize": _TILE_PX,
        "interleave": interleave,
        "photometric": "minisblack",
        "alpha": "no",
        "bigtiff": "if_safer",
    }
