"""GeoTIFFs: write them completely, and check that a file is complete."""

import logging
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.errors import RasterioIOError
from rasterio.io import MemoryFile
from rasterio.shutil import copy as copy_raster
from tifffile import TiffFile

from roadseg.arrays import Ints
from roadseg.raster.grid import Grid
from roadseg.system.files import write_error
from roadseg.system.text import one_line

IN_MEMORY_BYTES = 2**24  # Bytes of pixels; a raster of no more is made in memory.

_COG = {"driver": "COG", "compress": "deflate", "bigtiff": "if_safer"}
_TILED = {"driver": "GTiff", "tiled": True, "blockxsize": 512, "blockysize": 512}
_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")

logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # What it warns of is found here.


class _Blocks(NamedTuple):
    """The strips and tiles of a TIFF.

    Attributes:
        places: shape (2, n), first byte of each (0 if it was left out) and its size in bytes.
        end: number of the byte after the last one.
        are_known: whether all directories, and their tables of blocks, could be read.
        has_tags: whether the directories also have all their tags.
    """

    places: Ints
    end: int
    are_known: bool
    has_tags: bool


def copy_as_cog(
    source: Path, target: Path, *, size: int, options: Mapping[str, str] | None = None
) -> None:
    """Copy a raster as a Cloud Optimized GeoTIFF; a small one in memory, see `open_new`.

    Args:
        size: size of its pixels in bytes.
        options: further options of GDAL's driver COG.

    Raises:
        OSError: if it cannot be written completely.
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

    A small file is made in memory and written at once, because libtiff prints disk errors line by
    line to stderr, where they cannot be caught.

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


def is_cut_short(path: Path) -> bool:
    """Return whether bytes are missing at the end of a TIFF; not of other formats.

    Only what is needed to read pixels counts: directories, strips and tiles, also of masks and
    overviews. A strip or tile that was left out (in a sparse file) is not missing.
    """
    if not path.is_file():
        return False
    blocks = _blocks(path)
    return not blocks.are_known or blocks.end > path.stat().st_size


def require_written(path: Path) -> None:
    """Check that a TIFF that was just written and closed is complete, to its last tag and tile.

    GDAL writes most of a file while it closes it, and does not report a full disk then.

    Raises:
        OSError: if anything is missing, or lies over something else.
    """
    blocks = _blocks(path)
    starts, sizes = blocks.places[:, np.argsort(blocks.places[0])]
    # A block that lies over another one was written after one that failed.
    overlaps = starts[1:] < (starts + sizes)[:-1]
    is_whole = blocks.has_tags and sizes.size > 0 and bool(sizes.all())
    if not is_whole or overlaps.any() or blocks.end > path.stat().st_size:
        raise write_error(path, "only part of it could be written")


def _blocks(path: Path) -> _Blocks:
    """Read the positions of the blocks of a TIFF; other formats have none."""
    nothing = np.zeros((2, 0), dtype=np.int64)
    with path.open("rb") as file:
        if file.read(4) not in _SIGNATURES:
            return _Blocks(nothing, 0, are_known=True, has_tags=True)
    try:
        with TiffFile(path) as tiff:
            return _blocks_of(tiff)
    except (ValueError, TypeError, LookupError, struct.error):
        return _Blocks(nothing, 0, are_known=False, has_tags=False)


def _blocks_of(tiff: TiffFile) -> _Blocks:
    file, layout = tiff.filehandle, tiff.tiff
    blocks, are_known, has_tags = [np.zeros((2, 0), dtype=np.int64)], True, True
    seen = set()
    for page in (each.aspage() for each in tiff.pages):
        if page.offset in seen:
            break
        seen.add(page.offset)
        file.seek(page.offset)
        (tags,) = struct.unpack(layout.tagnoformat, file.read(layout.tagnosize))
        is_complete = len(page.tags) == tags  # A tag whose value is cut off is left out.
        has_tags &= is_complete
        if page.dataoffsets and len(page.dataoffsets) == len(page.databytecounts):
            starts, sizes = np.array([page.dataoffsets, page.databytecounts], dtype=np.int64)
            blocks.append(np.stack([starts, np.where(starts > 0, sizes, 0)]))
        else:
            are_known &= is_complete
    else:
        # The last directory that was found must be the last one that is named.
        file.seek(tiff.pages.next_page_offset or 0)
        are_known &= not any(file.read(layout.offsetsize))
    places = np.concatenate(blocks, axis=1)
    end = int(places.sum(axis=0).max(initial=0))
    return _Blocks(places, end, are_known, has_tags and are_known)
