"""GDAL: open rasters to read or write them; what goes wrong becomes one clear line."""

import math
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.windows
from numpy.typing import NDArray
from rasterio._err import CPLE_BaseError
from rasterio.enums import ColorInterp, MaskFlags, Resampling
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError
from rasterio.io import MemoryFile
from rasterio.shutil import copy as copy_raster
from rasterio.vrt import WarpedVRT

from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.tiff import missing_bytes, require_written
from roadseg.raster.windows import Window
from roadseg.system.files import is_virtual, write_error
from roadseg.system.text import one_line

_TILED = {"driver": "GTiff", "tiled": True, "blockxsize": 512, "blockysize": 512}
_NO_RASTERS = {
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"version https://git-lfs": "a pointer of Git LFS",
}
CACHE_BYTES = 2**26  # of blocks that GDAL holds, at least
IN_MEMORY_BYTES = 2**24  # of pixels: a raster of no more is made in memory


@contextmanager
def open_raster(
    path: Path, grid: Grid | None = None, *, nodata: float | None = None
) -> Iterator[rasterio.DatasetReader]:
    """Open a raster to read it, resampled to `grid` if that has other pixels on its ground.

    Args:
        path: any raster GDAL reads, its names such as /vsizip/... included.
        grid: of the pixels to see; None is the raster's own.
        nodata: value without meaning for a file that names none, left out in resampling.

    Raises:
        DataError: if it cannot be read, now or inside the block.
    """
    if not is_virtual(path) and not path.exists():
        raise DataError(f"{path} does not exist")
    if not is_virtual(path) and (path.is_fifo() or path.is_socket() or path.is_char_device()):
        raise DataError(f"{path}: is a pipe or a device, expected a file")
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path) as source, _on_grid(source, grid, nodata) as seen:
            yield seen


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one line what is wrong with a raster that cannot be read inside the block.

    Raises:
        DataError: if so.
    """
    try:
        yield
    except RasterioIOError as error:
        raise DataError(f"{path}: {_unreadable(path, error)}") from error


def cache_bytes(source: rasterio.DatasetReader, rows: int) -> int:
    """Return how much GDAL must hold of a raster so that no block is read twice in so many rows.

    By itself it holds 5 % of the memory of the machine, whatever the raster.

    Args:
        source: the raster, of which windows are read side by side.
        rows: that the windows are high.
    """
    needed = _block_bytes(source, rows)
    if isinstance(source, WarpedVRT):
        whole = source.src_dataset
        needed += _block_bytes(whole, math.ceil(rows * whole.height / source.height))
    return max(CACHE_BYTES, needed)


def _block_bytes(source: rasterio.DatasetReader, rows: int) -> int:
    """Return the size of the blocks that so many rows of a raster lie in, wherever they begin."""
    height, width = source.block_shapes[0]
    blocks = (math.ceil(rows / height) + 1) * math.ceil(source.width / width)
    return int(blocks * height * width * sum(np.dtype(dtype).itemsize for dtype in source.dtypes))


def copy_as_cog(source: Path, target: Path, *, size: int, **options: str) -> None:
    """Copy a raster as a Cloud Optimized GeoTIFF; a small one in memory, see `open_new`.

    Args:
        source: raster to copy.
        target: file to write.
        size: bytes of its pixels.
        options: of GDAL's driver COG, beside bigtiff.

    Raises:
        OSError: if it cannot be written in whole.
    """
    options = {"driver": "COG", "compress": "deflate", "bigtiff": "if_safer", **options}
    try:
        if size > IN_MEMORY_BYTES:
            copy_raster(source, target, **options)
        else:
            with MemoryFile(ext=".tif") as memory:
                copy_raster(source, memory.name, **options)
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
def open_new(path: Path, **profile: Any) -> Iterator[Any]:  # noqa: ANN401 - rasterio's options
    """Open a new GeoTIFF to write it.

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
        raise write_error(path, _one_line(error)) from error
    require_written(path)


def is_masked(source: rasterio.DatasetReader) -> bool:
    """Say whether a raster has an alpha band, a mask or a nodata value."""
    marked = any(flags != [MaskFlags.all_valid] for flags in source.mask_flag_enums)
    return marked or _has_alpha(source)


def valid_pixels(source: rasterio.DatasetReader, **part: Any) -> NDArray[np.bool_]:  # noqa: ANN401
    """Read which pixels hold data by alpha band, mask or nodata value, shape (row, col).

    GDAL takes only the second or fourth band for alpha; here any band that says so is.

    Args:
        source: the raster.
        part: what to read of it, as rasterio names it.
    """
    valid = np.asarray(source.dataset_mask(**part) > 0)
    for number, colour in zip(source.indexes, source.colorinterp, strict=True):
        if colour == ColorInterp.alpha and MaskFlags.alpha not in source.mask_flag_enums[0]:
            valid &= source.read(number, **part) > 0
    return valid


def area(window: Window) -> rasterio.windows.Window:
    """Return a window as rasterio has it."""
    row, col, height, width = window
    return rasterio.windows.Window(col, row, width, height)


def require_whole(path: Path) -> None:
    """Check that a file that GDAL can open is not cut short, where that is told without reading.

    Raises:
        DataError: if it is a TIFF that lacks pixels.
    """
    if not is_virtual(path) and path.is_file() and missing_bytes(path):
        raise DataError(f"{path}: {_cut_short(path)}")


def _on_grid(
    source: rasterio.DatasetReader, grid: Grid | None, nodata: float | None
) -> AbstractContextManager[rasterio.DatasetReader]:
    if grid is None or (grid.height, grid.width) == source.shape:
        return nullcontext(source)
    options: dict[str, Any] = {"add_alpha": source.nodata is None and not _has_alpha(source)}
    if nodata is not None and not is_masked(source):
        options = {"src_nodata": nodata, "nodata": nodata, "UNIFIED_SRC_NODATA": "YES"}
    crs = grid.crs.to_wkt()
    resampled: AbstractContextManager[rasterio.DatasetReader] = WarpedVRT(
        source,
        src_crs=crs,
        crs=crs,
        transform=grid.transform,
        height=grid.height,
        width=grid.width,
        resampling=Resampling.average if grid.height < source.height else Resampling.bilinear,
        **options,
    )
    return resampled


def _has_alpha(source: rasterio.DatasetReader) -> bool:
    return ColorInterp.alpha in source.colorinterp


def _cut_short(path: Path) -> str:
    size, missing = path.stat().st_size, missing_bytes(path)
    return (
        f"cut short: it has {size} bytes, expected {size + missing} or more; download or copy it "
        "again"
    )


def _unreadable(path: Path, error: RasterioIOError) -> str:
    """Say why a raster cannot be read, and what to do."""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(64).lower()
        if not start:
            return "is empty (0 bytes); download or copy it again"
        for sign, thing in _NO_RASTERS.items():
            if start.lstrip().startswith(sign):
                return f"is {thing}, expected a raster; download it again"
        if missing_bytes(path):
            return _cut_short(path)
    return f"not a readable raster ({_one_line(error)}); replace it or leave it out"


def _one_line(error: Exception) -> str:
    return " ".join(str(error.__cause__ or error).split())
