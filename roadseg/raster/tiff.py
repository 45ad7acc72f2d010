"""GeoTIFFs: written whole, and whether a file contains all the bytes that its directories name."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioIOError
from rasterio.io import MemoryFile
from rasterio.shutil import copy as copy_raster

from roadseg.arrays import Array, Ints
from roadseg.raster.grid import Grid
from roadseg.system.files import write_error
from roadseg.system.text import one_line

IN_MEMORY_BYTES = 2**24  # Bytes of pixels; a raster of no more is made in memory.

_COG = {"driver": "COG", "compress": "deflate", "bigtiff": "if_safer"}
_TILED = {"driver": "GTiff", "tiled": True, "blockxsize": 512, "blockysize": 512}
# Tags of strips and of tiles: where they begin, and how many bytes they have.
_OFFSETS, _SIZES = (273, 324), (279, 325)
# Bytes of a value, by the number of its type.
_VALUE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_VALUE_BYTES |= {13: 4, 16: 8, 17: 8, 18: 8}
_UNSIGNED = {3: "u2", 4: "u4", 16: "u8"}


@dataclass(frozen=True)
class _Layout:
    """The order of bytes of a TIFF, `<` or `>`, and the types of a count and of an offset."""

    order: str
    count: str
    offset: str

    @property
    def entry(self) -> np.dtype[Any]:
        kinds = [("tag", "u2"), ("kind", "u2"), ("count", self.offset), ("value", self.offset)]
        return np.dtype([(name, self.order + kind) for name, kind in kinds])


@dataclass(frozen=True)
class _Piece:
    """A part of a file that a directory names; a block is a strip or tile of pixels."""

    start: Ints
    size: Ints
    is_block: bool


def copy_as_cog(
    source: Path, target: Path, *, size: int, options: Mapping[str, str] | None = None
) -> None:
    """Copy a raster as a Cloud Optimized GeoTIFF; a small one in memory, see `open_new`.

    Args:
        source: raster to copy.
        target: file to write.
        size: bytes of its pixels.
        options: of GDAL's driver COG, beside those that all have.

    Raises:
        OSError: if it cannot be written in whole.
    """
    profile = _COG | dict(options or {})
    try:
        if size > IN_MEMORY_BYTES:
            copy_raster(source, target, **profile)
        else:
            with MemoryFile(ext=".tif") as memory:
                copy_raster(source, memory.name, **profile)
                target.write_bytes(memory.getbuffer())
    except CPLE_BaseError as error:
        raise write_error(target, one_line(error)) from error
    require_written(target)


def new_profile(grid: Grid, *, count: int, dtype: str, nodata: int | None = None) -> dict[str, Any]:
    """Return rasterio's options for a new tiled GeoTIFF on a grid."""
    return _TILED | {
        "crs": grid.crs.to_wkt(),
        "transform": grid.transform,
        "height": grid.height,
        "width": grid.width,
        "count": count,
        "dtype": dtype,
        "nodata": nodata,
    }


@contextmanager
def open_new(path: Path, profile: Mapping[str, Any]) -> Iterator[Any]:
    """Open a new GeoTIFF to write it, with rasterio's options, such as those of `new_profile`.

    A small one is made in memory and written at once, because libtiff prints what goes wrong
    with a disk, line by line, where nobody can catch it.

    Raises:
        OSError: if GDAL cannot write it, or has not written all of it when it is closed.
    """
    pixels = profile["height"] * profile["width"] * profile["count"]
    try:
        if pixels * np.dtype(profile["dtype"]).itemsize <= IN_MEMORY_BYTES:
            with MemoryFile() as memory:
                with memory.open(**profile) as target:
                    yield target
                path.write_bytes(memory.getbuffer())
        else:
            with rasterio.open(path, "w", **profile) as target:
                yield target
    except (RasterioIOError, CPLE_BaseError) as error:
        raise write_error(path, one_line(error.__cause__ or error)) from error
    require_written(path)


def missing_bytes(path: Path) -> int:
    """Return how many bytes a TIFF lacks at its end; 0 for a whole one and for other formats.

    Only what is needed to read pixels counts: directories, strips and tiles, those of masks and
    overviews included. A strip or tile that was left out (a sparse file) is not missing.

    Source: TIFF Revision 6.0 (Adobe, 1992), section 2, and the design of BigTIFF (libtiff).
    """
    size = path.stat().st_size
    try:
        ends = [_end(piece) for piece in _pieces(path) if piece.is_block]
    except EOFError as error:
        return max(1, int(error.args[0]) - size)
    return max(0, *ends, size) - size


def require_written(path: Path) -> None:
    """Check that a TIFF that was just written and closed is whole, to its last tag and tile.

    GDAL writes most of a file while it closes it, and then says nothing of a full disk.

    Raises:
        OSError: if anything is missing, or lies over something else.
    """
    try:
        pieces = list(_pieces(path))
    except EOFError:
        pieces = []
    blocks = [np.stack([piece.start, piece.size]) for piece in pieces if piece.is_block]
    starts, sizes = np.concatenate(blocks, axis=1) if blocks else np.zeros((2, 1), dtype=np.int64)
    order = np.argsort(starts)
    # A block that lies over another one was written after one that failed.
    overlaps = starts[order][1:] < (starts + sizes)[order][:-1]
    end = max((_end(piece) for piece in pieces), default=0)
    if not sizes.all() or overlaps.any() or end > path.stat().st_size:
        raise write_error(path, "only part of it could be written")


def _end(piece: _Piece) -> int:
    return int((piece.start + piece.size).max(initial=0))


def _pieces(path: Path) -> Iterator[_Piece]:
    """Yield all that the directories of a TIFF name; nothing for another format.

    Raises:
        EOFError: with the byte where a directory should end, if the file ends before.
    """
    with path.open("rb") as file:
        layout = _layout(file.read(4))
        if layout is None:
            return
        place = _read(file, np.dtype(layout.offset).itemsize, layout.order + layout.offset, 1)
        seen = {0}
        while (start := int(place[0])) not in seen:
            seen.add(start)
            (count,) = _read(file, start, layout.order + layout.count, 1)
            entries = _read(file, file.tell(), layout.entry, int(count))
            place = _read(file, file.tell(), layout.order + layout.offset, 1)
            yield from _pieces_of(file, layout, entries)


def _layout(header: bytes) -> _Layout | None:
    kinds = {b"*\0": ("u2", "u4"), b"+\0": ("u8", "u8")}
    order, version = header[:2], header[2:]
    if order == b"MM":
        version = version[::-1]
    if order not in {b"II", b"MM"} or version not in kinds:
        return None
    return _Layout("<" if order == b"II" else ">", *kinds[version])


def _pieces_of(file: BinaryIO, layout: _Layout, entries: Array) -> Iterator[_Piece]:
    """Yield the values that lie outside of a directory, and its strips or tiles."""
    values = {}
    for entry in entries:
        tag, kind, count = int(entry["tag"]), int(entry["kind"]), int(entry["count"])
        size = _VALUE_BYTES.get(kind, 0) * count
        is_inside = size <= entry["value"].nbytes
        if not is_inside:
            yield _Piece(np.array([int(entry["value"])]), np.array([size]), is_block=False)
        if tag in _OFFSETS + _SIZES and kind in _UNSIGNED:
            dtype = np.dtype(layout.order + _UNSIGNED[kind])
            values[tag] = (
                np.frombuffer(entry["value"].tobytes(), dtype, count)
                if is_inside
                else _read(file, int(entry["value"]), dtype, count)
            )
    for offsets, sizes in zip(_OFFSETS, _SIZES, strict=True):
        if offsets in values and sizes in values and len(values[offsets]) == len(values[sizes]):
            starts, lengths = values[offsets].astype(np.int64), values[sizes].astype(np.int64)
            yield _Piece(starts, np.where(starts > 0, lengths, 0), is_block=True)


def _read(file: BinaryIO, start: int, dtype: Any, count: int) -> Array:  # noqa: ANN401
    end = start + np.dtype(dtype).itemsize * count
    if end > os.fstat(file.fileno()).st_size:
        raise EOFError(end)
    file.seek(start)
    return np.frombuffer(file.read(end - start), dtype, count)
