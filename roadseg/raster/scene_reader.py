"""Scene reader: many windows of one scene, read from any number of threads."""

import math
import threading
from contextlib import ExitStack
from typing import Self

import numpy as np
import rasterio
from rasterio.vrt import WarpedVRT

from roadseg.raster.images import (
    CACHE_BYTES,
    RasterFacts,
    Read,
    nothing,
    open_raster,
    read_part,
    reading,
)
from roadseg.raster.windows import Window


class SceneReader:
    """A scene held open, for reading many windows from any number of threads.

    Each thread has the file open for itself, as GDAL wants it, until the scene is closed.
    """

    def __init__(self, facts: RasterFacts, *, rows: int) -> None:
        """Name a scene, and of how many rows the windows are that are read side by side."""
        self._facts, self._rows = facts, rows
        self._own = threading.local()
        self._opened = ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Have GDAL hold as much as the windows need; threads open the file when they read."""
        facts = self._facts
        with open_raster(facts.path, facts.whole, nodata=facts.meaningless) as source:
            needed = cache_bytes(source, self._rows)
        self._opened.enter_context(rasterio.Env(GDAL_CACHEMAX=needed))
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files."""
        self._opened.close()

    def read(self, window: Window) -> Read:
        """Read a window, as `read_window`."""
        if not self._facts.touches(window):
            return nothing(self._facts, window)
        # A file takes with it the environment that it was opened in; this one stays in its thread.
        with reading(self._facts.path), rasterio.Env():
            if not hasattr(self._own, "source"):
                self._own.source = self._open()
            return read_part(self._own.source, self._facts, window)

    def _open(self) -> rasterio.DatasetReader:
        facts = self._facts
        with self._lock:
            opened = open_raster(facts.path, facts.whole, nodata=facts.meaningless)
            source: rasterio.DatasetReader = self._opened.enter_context(opened)
        return source


def cache_bytes(source: rasterio.DatasetReader, rows: int) -> int:
    """Return the cache that GDAL needs to read no block of a number of rows twice.

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
    """Return the size of the blocks that a number of rows touches, wherever they begin."""
    height, width = source.block_shapes[0]
    blocks = (math.ceil(rows / height) + 1) * math.ceil(source.width / width)
    return int(blocks * height * width * sum(np.dtype(dtype).itemsize for dtype in source.dtypes))
