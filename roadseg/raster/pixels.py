"""Pixels of a scene with their data masks: by window, as a sample, or reduced to a preview."""

import math
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import rasterio
import rasterio.windows
from rasterio.enums import ColorInterp, MaskFlags, Resampling
from rasterio.vrt import WarpedVRT

from roadseg.arrays import Array, Bools
from roadseg.raster.extents import Extent, ScenePart
from roadseg.raster.grid import Grid
from roadseg.raster.images import (
    RasterFacts,
    facts_of,
    is_masked,
    open_complete,
    open_raster,
    reading,
    resampled_to,
)
from roadseg.raster.options import ImageryOptions
from roadseg.raster.scaling import LARGEST
from roadseg.raster.windows import PLACES, Window, spread_windows

Read = tuple[Array, Bools]  # Values of bands, and which pixels have data.

CACHE_BYTES = 2**26  # Bytes of blocks that GDAL holds, at least.
_FURTHER = (1, 4, 16)  # Times as many pixels are read where most of a scene has no data.


def read_window(facts: RasterFacts, window: Window) -> Read:
    """Read a window that lies inside a scene.

    Args:
        window: row, col, height and width in its grid.

    Returns:
        The bands, shape (band, row, col), and whether each pixel has data, shape (row, col): it is
        not nodata in all bands, not transparent, not masked out, and in no band NaN or above
        `LARGEST` on either side of 0.

    Raises:
        DataError: if the file cannot be read.
    """
    if not facts.touches(window):
        return _blank(facts, window)
    with _open_whole(facts) as source:
        return read_part(source, facts, window)


def _open_whole(facts: RasterFacts) -> AbstractContextManager[rasterio.DatasetReader]:
    """Open the raster of a whole scene, in the pixels of its grid."""
    return open_raster(facts.path, facts.whole_grid, nodata=facts.nodata_or_nan, as_image=True)


def read_part(source: rasterio.DatasetReader, facts: RasterFacts, window: Window) -> Read:
    """Read a window of `facts.grid` from the open raster of the whole scene."""
    values, valid = read_pixels(source, facts, window=facts.in_scene(window).to_rasterio())
    return values, valid & _inside(facts, window)


def _blank(facts: RasterFacts, window: Window) -> Read:
    """Return the bands and the data mask of a window outside of the area; nothing is read."""
    height, width = window[2:]
    values = np.zeros((len(facts.bands), height, width), dtype=facts.dtype)
    return values, np.zeros((height, width), dtype=bool)


def read_preview(facts: RasterFacts, *, side: int) -> Read:
    """Read a reduced copy of a whole scene for display.

    Returns:
        As `read_window`, with the proportions of the grid and at most `side` rows and columns.

    Raises:
        DataError: if the file cannot be read.
    """
    shape = preview_shape(facts.grid, side=side)
    with open_raster(facts.path, as_image=True) as source:
        if facts.part is None:
            return read_pixels(source, facts, shape=shape)
        region, extent = _region(facts, source)
        values, valid = read_pixels(source, facts, window=region.to_rasterio(), shape=shape)
    if extent is not None:
        extent = extent.scaled(shape[0] / region.height, shape[1] / region.width)
        valid &= extent.inside(Window(0, 0, *shape))
    return values, valid


def preview_shape(grid: Grid, *, side: int) -> tuple[int, int]:
    """Return rows and columns with the proportions of a grid, at most `side` of each."""
    reduction = max(1.0, max(grid.height, grid.width) / side)
    return max(1, round(grid.height / reduction)), max(1, round(grid.width / reduction))


@dataclass(frozen=True)
class OpenScene:
    """An open scene: its facts, a sample of its pixels, and which pixels have data."""

    facts: RasterFacts
    source: rasterio.DatasetReader

    def sample(self, *, pixels: int) -> Array:
        """Read pixels that have data, from windows spread over the scene.

        The pixels are those of the file, not resampled. As few blocks as possible are read, but
        always the last one, so that a file that was cut short is noticed.

        Returns:
            Shape (band, n), with n at most `pixels`; fewer if the scene has less data.

        Raises:
            DataError: if the file cannot be read.
        """
        source = self.source
        first, extent = _region(self.facts, source)
        enough = min(pixels, first.height * first.width) // 2
        for times in _FURTHER:
            windows = spread_windows(
                first.height,
                first.width,
                block=source.block_shapes[0],
                pixels=pixels * times,
                places=PLACES * times,
            )
            touched = [w for w in windows if extent is None or extent.touches(w)]
            reads = [self._read_sample(w, first, extent) for w in touched]
            bands = len(self.facts.bands)
            empty = np.zeros((bands, 0), dtype=self.facts.dtype)
            sample = np.concatenate([empty, *reads], axis=1)
            if sample.shape[1] >= enough:
                break
        count = min(sample.shape[1], pixels)
        return sample[:, np.arange(count) * sample.shape[1] // max(count, 1)]

    def _read_sample(self, window: Window, region: Window, extent: Extent | None) -> Array:
        """Read the pixels with data in a window of a region of the file, shape (band, pixel)."""
        here = Window(window.row + region.row, window.col + region.col, *window[2:])
        values, valid = read_pixels(self.source, self.facts, window=here.to_rasterio())
        if extent is not None:
            valid = valid & extent.inside(window)
        pixels = values.reshape(len(values), -1)
        return pixels if valid.all() else pixels[:, valid.ravel()]

    def valid(self, window: Window) -> Bools:
        """Read which pixels of a window of the scene's grid have data, shape (row, col).

        Raises:
            DataError: if the file cannot be read.
        """
        facts = self.facts
        inside = _inside(facts, window)
        if facts.is_file_valid or not inside.any():
            return inside
        with resampled_to(self.source, facts.whole_grid, facts.nodata_or_nan) as seen:
            here = facts.in_scene(window).to_rasterio()
            # Only where the values themselves tell are the bands read as well.
            if facts.nodata is None and facts.is_whole_numbers:
                return inside & valid_pixels(seen, here)
            return inside & read_pixels(seen, facts, window=here)[1]


@contextmanager
def open_scene(
    path: Path, options: ImageryOptions, *, part: ScenePart | None = None
) -> Iterator[OpenScene]:
    """Open a scene of a dataset once for its facts, its sample and its valid pixels.

    Args:
        part: part of the scene; None for all of it.

    Raises:
        DataError: if the scene cannot be used, see `read_facts`, or not be read inside the block.
    """
    with open_complete(path, as_image=True) as source:
        yield OpenScene(facts_of(path, source, options, part=part), source)


def sample_pixels(facts: RasterFacts, *, pixels: int) -> Array:
    """Read pixels of a scene that have data, see `OpenScene.sample`."""
    with open_complete(facts.path, as_image=True) as source:
        return OpenScene(facts, source).sample(pixels=pixels)


class SceneReader:
    """A scene that is held open to read many windows in any number of threads.

    Each thread opens the file for itself, because GDAL needs that.
    """

    def __init__(self, facts: RasterFacts, *, rows: int) -> None:
        """Set the scene, and the number of rows of the windows that are read side by side."""
        self._facts, self._rows = facts, rows
        self._own = threading.local()
        self._opened = ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Size GDAL's cache for these windows; each thread opens the file when it reads."""
        with _open_whole(self._facts) as source:
            needed = cache_bytes(source, self._rows)
        self._opened.enter_context(rasterio.Env(GDAL_CACHEMAX=needed))
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files."""
        self._opened.close()

    def read(self, window: Window) -> Read:
        """Read a window, as `read_window`."""
        facts = self._facts
        if not facts.touches(window):
            return _blank(facts, window)
        # A file takes with it the environment that it was opened in; this one stays in its thread.
        with reading(facts.path), rasterio.Env():
            if not hasattr(self._own, "source"):
                with self._lock:
                    self._own.source = self._opened.enter_context(_open_whole(facts))
            return read_part(self._own.source, facts, window)


def cache_bytes(source: rasterio.DatasetReader, rows: int) -> int:
    """Return the size of cache with which GDAL reads no block of some rows twice.

    GDAL's default is 5 % of the memory of the machine, whatever the raster.

    Args:
        source: raster from which windows are read side by side.
    """
    needed = _block_bytes(source, rows)
    if isinstance(source, WarpedVRT):
        whole = source.src_dataset
        needed += _block_bytes(whole, math.ceil(rows * whole.height / source.height))
    return max(CACHE_BYTES, needed)


def _block_bytes(source: rasterio.DatasetReader, rows: int) -> int:
    """Return the size of the blocks that a number of rows may touch."""
    height, width = source.block_shapes[0]
    blocks = (math.ceil(rows / height) + 1) * math.ceil(source.width / width)
    return int(blocks * height * width * sum(np.dtype(dtype).itemsize for dtype in source.dtypes))


def valid_pixels(
    source: rasterio.DatasetReader,
    window: rasterio.windows.Window | None = None,
    shape: tuple[int, int] | None = None,
) -> Bools:
    """Read which pixels have data by alpha band, mask or nodata value, shape (row, col).

    GDAL accepts only the second or fourth band as alpha; here any band with that meaning is alpha.

    Args:
        window: window to read; None for the whole raster.
        shape: rows and columns to reduce it to, by averages; None for full resolution.
    """
    how = Resampling.nearest if shape is None else Resampling.average
    mask = source.dataset_mask(window=window, out_shape=shape, resampling=how)
    valid = np.asarray(mask > 0)
    for number, colour in zip(source.indexes, source.colorinterp, strict=True):
        if colour == ColorInterp.alpha and MaskFlags.alpha not in source.mask_flag_enums[0]:
            alpha = source.read(number, window=window, out_shape=shape, resampling=how)
            valid &= alpha > 0
    return valid


def read_pixels(
    source: rasterio.DatasetReader,
    facts: RasterFacts,
    *,
    window: rasterio.windows.Window | None = None,
    shape: tuple[int, int] | None = None,
) -> Read:
    """Read the bands and the data mask of a window, or of the whole raster reduced to a shape."""
    how = Resampling.nearest if shape is None else Resampling.average
    # Resampled by GDAL, pixels of int8 are int16.
    values = source.read(
        list(facts.bands), window=window, out_shape=shape, resampling=how, out_dtype=facts.dtype
    )
    everywhere = np.ones(values.shape[1:], dtype=bool)
    valid = valid_pixels(source, window, shape) if is_masked(source) else everywhere
    if values.dtype.kind == "f":
        valid &= (np.abs(values) <= np.float32(LARGEST)).all(axis=0)
    if facts.nodata is not None:
        valid &= (values != facts.nodata).any(axis=0)
    return values, valid


def _inside(facts: RasterFacts, window: Window) -> Bools:
    """Return which pixels of a window of `facts.grid` are in the area."""
    return facts.extent.inside(window) if facts.extent else np.ones(window[2:], dtype=bool)


def _region(facts: RasterFacts, source: rasterio.DatasetReader) -> tuple[Window, Extent | None]:
    """Return the window of the file that the scene covers, and its extent in these pixels."""
    if facts.part is None:
        return Window(0, 0, source.height, source.width), None
    row, col, height, width = facts.part.window
    down, across = source.height / facts.whole_grid.height, source.width / facts.whole_grid.width
    first_row, first_col = math.floor(row * down), math.floor(col * across)
    last_row = min(math.ceil((row + height) * down), source.height)
    last_col = min(math.ceil((col + width) * across), source.width)
    region = Window(first_row, first_col, last_row - first_row, last_col - first_col)
    extent = facts.part.extent
    if extent is not None:
        extent = (
            extent.counted_from(-row, -col).scaled(down, across).counted_from(first_row, first_col)
        )
    return region, extent
