"""Rasters: what a scene is, and its pixels by window, sampled, or thinned."""

import math
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import rasterio
from numpy.typing import NDArray
from pyproj import CRS
from rasterio.enums import ColorInterp, Resampling

from roadseg.errors import DataError
from roadseg.raster.gdal import (
    area,
    cache_bytes,
    is_masked,
    open_raster,
    reading,
    require_whole,
    valid_pixels,
)
from roadseg.raster.georeference import place_of
from roadseg.raster.grid import Grid
from roadseg.raster.sampling import PLACES, spread_windows
from roadseg.raster.windows import Window

LEAST_SIDE_PX = 32  # of a scene; the network halves windows five times

_FURTHER = (1, 4, 16)  # times as many pixels are read where most of a scene holds no data
Read = tuple[NDArray[Any], NDArray[np.bool_]]


@dataclass(frozen=True)
class RasterFacts:
    """What a raster says about itself, and how it is to be read.

    Attributes:
        path: where it is.
        grid: where its pixels lie; windows count in it.
        bands: numbers of the bands that hold the image, from 1.
        dtype: type of the pixels, as numpy names it.
        names: description of each of `bands`, empty where there is none.
        nodata: pixels that have this value in each of `bands` hold no data, beside those that
            the file itself says hold none.
        is_masked: whether the file says of some pixels that they hold no data: it has an alpha
            band, a mask or a nodata value.
    """

    path: Path
    grid: Grid
    bands: tuple[int, ...]
    dtype: str
    names: tuple[str, ...]
    nodata: float | None = None
    is_masked: bool = True


def read_facts(
    path: Path,
    *,
    crs: CRS | None = None,
    bands: tuple[int | str, ...] | None = None,
    gsd_m: float | None = None,
    nodata: float | None = None,
) -> RasterFacts:
    """Read where a scene lies and what its bands are, without its pixels.

    Args:
        path: any raster GDAL reads.
        crs: coordinate system to use for a raster that does not name its own.
        bands: the bands to use, by number from 1, or by description in upper or lower case;
            None takes all but an alpha band.
        gsd_m: ground size of the pixels of the grid, metres; other rasters are resampled to it
            when they are read. None takes the pixels as they are. A raster without
            georeference takes it as the size of its pixels, see `read_grid`.
        nodata: see `RasterFacts`.

    Raises:
        DataError: if the file cannot be read or is cut short, lacks one of the bands, has
            pixels that are no real numbers of one type, has no place on the ground, or is
            less than 32 pixels high or wide.
    """
    with open_raster(path) as source:
        require_whole(path)
        grid = place_of(path, source, crs=crs, gsd_m=gsd_m)
        if gsd_m and not grid.is_local:
            grid = grid.resampled(gsd_m)
        if min(grid.height, grid.width) < LEAST_SIDE_PX:
            raise DataError(
                f"{path}: found {grid.height} x {grid.width} pixels"
                + (f" of {gsd_m:g} m" if gsd_m else "")
                + f", expected at least {LEAST_SIDE_PX} each way"
            )
        numbers = _bands(path, source, bands)
        return RasterFacts(
            path=path,
            grid=grid,
            bands=numbers,
            dtype=_dtype(path, source, numbers),
            names=tuple(source.descriptions[i - 1] or "" for i in numbers),
            nodata=nodata,
            is_masked=is_masked(source),
        )


def read_grid(path: Path, *, crs: CRS | None = None, gsd_m: float | None = None) -> Grid:
    """Read where the pixels of a raster of any size lie, as they are in the file.

    A raster with neither a geotransform nor control points lies nowhere: with `gsd_m` its grid
    is in `LOCAL_CRS`, with pixels of that size and the origin at its own lower left corner.

    Args:
        path: any raster GDAL reads.
        crs: coordinate system to use for a raster that does not name its own.
        gsd_m: ground size of the pixels of a raster that lies nowhere, metres.

    Raises:
        DataError: if the file cannot be read or is cut short, or has no place on the ground.
    """
    with open_raster(path) as source:
        require_whole(path)
        return place_of(path, source, crs=crs, gsd_m=gsd_m)


def read_window(facts: RasterFacts, window: Window) -> Read:
    """Read a window that lies inside a scene.

    Args:
        facts: the scene.
        window: row, col, height and width in its grid.

    Returns:
        The bands, shape (band, row, col), and which pixels hold data, shape (row, col): not
        nodata, not transparent, not masked out, finite in every band.

    Raises:
        DataError: if the file cannot be read.
    """
    with open_raster(facts.path, facts.grid, nodata=_meaningless(facts)) as source:
        return _read(source, facts, window=area(window))


class OpenScene:
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
        with open_raster(facts.path, facts.grid, nodata=_meaningless(facts)) as source:
            needed = cache_bytes(source, self._rows)
        self._opened.enter_context(rasterio.Env(GDAL_CACHEMAX=needed))
        return self

    def __exit__(self, *_: object) -> None:
        """Close all files."""
        self._opened.close()

    def read(self, window: Window) -> Read:
        """Read a window, as `read_window`."""
        # a file takes with it the environment that it was opened in; this one stays in its thread
        with reading(self._facts.path), rasterio.Env():
            if not hasattr(self._own, "source"):
                self._own.source = self._open()
            return _read(self._own.source, self._facts, window=area(window))

    def _open(self) -> rasterio.DatasetReader:
        facts = self._facts
        with self._lock:
            opened = open_raster(facts.path, facts.grid, nodata=_meaningless(facts))
            source: rasterio.DatasetReader = self._opened.enter_context(opened)
        return source


def read_valid(facts: RasterFacts, window: Window | None = None) -> NDArray[np.bool_]:
    """Read which pixels of a window, or of the scene, hold data, shape (row, col).

    Raises:
        DataError: if the file cannot be read.
    """
    window = window or Window(0, 0, facts.grid.height, facts.grid.width)
    if is_all_valid(facts):
        return np.ones(window[2:], dtype=bool)
    if facts.nodata is not None or not _is_whole_numbers(facts):
        return read_window(facts, window)[1]
    with open_raster(facts.path, facts.grid) as source:
        return valid_pixels(source, window=area(window))


def is_all_valid(facts: RasterFacts) -> bool:
    """Say whether every pixel of a scene holds data, without reading any; False when in doubt."""
    return not facts.is_masked and facts.nodata is None and _is_whole_numbers(facts)


def read_sample(facts: RasterFacts, *, pixels: int) -> NDArray[Any]:
    """Read pixels that hold data, from windows spread over a scene.

    The pixels are those of the file, not resampled. As few blocks of it as needed are read, the
    last one always, so that a file cut short is noticed.

    Args:
        facts: the scene.
        pixels: how many are wanted.

    Returns:
        Shape (band, n), n at most `pixels`; fewer where the scene holds less data.

    Raises:
        DataError: if the file cannot be read.
    """
    with open_raster(facts.path) as source:
        return _sample(source, facts, pixels)


def read_preview(facts: RasterFacts, *, side: int) -> Read:
    """Read a thinned copy of a whole scene for a picture.

    Returns:
        As `read_window`, with the proportions of the grid and at most `side` rows and columns.

    Raises:
        DataError: if the file cannot be read.
    """
    height, width = facts.grid.height, facts.grid.width
    thinning = max(1.0, max(height, width) / side)
    shape = (max(1, round(height / thinning)), max(1, round(width / thinning)))
    with open_raster(facts.path) as source:
        return _read(source, facts, out_shape=shape, resampling=Resampling.average)


def _sample(source: rasterio.DatasetReader, facts: RasterFacts, pixels: int) -> NDArray[Any]:
    enough = min(pixels, source.height * source.width) // 2
    for times in _FURTHER:
        windows = spread_windows(
            source.height,
            source.width,
            block=source.block_shapes[0],
            pixels=pixels * times,
            places=PLACES * times,
        )
        parts = [_valid_pixels(*_read(source, facts, window=area(window))) for window in windows]
        found = np.concatenate(parts, axis=1)
        if found.shape[1] >= enough:
            break
    count = min(found.shape[1], pixels)
    return found[:, np.arange(count) * found.shape[1] // max(count, 1)]


def _read(source: rasterio.DatasetReader, facts: RasterFacts, **part: Any) -> Read:  # noqa: ANN401
    """Read bands and which pixels hold data, with rasterio's options of the part to read."""
    values = source.read(list(facts.bands), **part)
    everywhere = np.ones(values.shape[1:], dtype=bool)
    valid = valid_pixels(source, **part) if is_masked(source) else everywhere
    if values.dtype.kind == "f":
        valid &= np.isfinite(values).all(axis=0)
    if facts.nodata is not None:
        valid &= (values != facts.nodata).any(axis=0)
    return values, valid


def _valid_pixels(values: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[Any]:
    pixels = values.reshape(len(values), -1)
    return pixels if valid.all() else pixels[:, valid.ravel()]


def _is_whole_numbers(facts: RasterFacts) -> bool:
    return np.dtype(facts.dtype).kind in "iu"


def _meaningless(facts: RasterFacts) -> float | None:
    """Return the value that resampling must leave out if the file names none."""
    return math.nan if facts.nodata is None and not _is_whole_numbers(facts) else facts.nodata


def _bands(
    path: Path, source: rasterio.DatasetReader, wanted: tuple[int | str, ...] | None
) -> tuple[int, ...]:
    if wanted is not None:
        return tuple(_band(path, source, band) for band in wanted)
    found = zip(source.indexes, source.colorinterp, strict=True)
    bands = tuple(number for number, color in found if color != ColorInterp.alpha)
    if not bands:
        raise DataError(f"{path}: has an alpha band only, expected one of an image")
    return bands


def _band(path: Path, source: rasterio.DatasetReader, wanted: int | str) -> int:
    if isinstance(wanted, int):
        if wanted not in source.indexes:
            raise DataError(
                f"{path}: has bands 1 to {source.count}, expected a band {wanted} as well"
            )
        return wanted
    names = [(name or "").strip() for name in source.descriptions]
    found = [i for i, name in enumerate(names, 1) if name.lower() == wanted.strip().lower()]
    if len(found) == 1:
        return found[0]
    known = ", ".join(name for name in names if name) or "no descriptions"
    raise DataError(
        f"{path}: has {len(found) or 'no'} bands with the description {wanted!r}, expected one; "
        f"its {source.count} bands have {known}; a band can be chosen by its number, from 1"
    )


def _dtype(path: Path, source: rasterio.DatasetReader, bands: tuple[int, ...]) -> str:
    found = sorted({str(source.dtypes[i - 1]) for i in bands})
    if len(found) > 1:
        raise DataError(
            f"{path}: bands of {' and '.join(found)} found, expected one type of pixels; "
            "choose those of one type with imagery.bands"
        )
    if found[0].startswith("complex"):
        raise DataError(
            f"{path}: pixels are complex numbers ({found[0]}), expected real ones; convert them, "
            "for example to their amplitude"
        )
    return found[0]
