"""Rasters: read scenes by window, write masks and probabilities."""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import rasterio.windows
from numpy.typing import NDArray
from pyproj import CRS
from pyproj.exceptions import CRSError
from rasterio.enums import ColorInterp, Resampling
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError
from rasterio.vrt import WarpedVRT

from roadseg.core.grid import Grid
from roadseg.core.masks import IGNORE
from roadseg.core.windows import Window
from roadseg.errors import DataError
from roadseg.io.files import whole

CONTENT_TAG = "ROADSEG_CONTENT"
SPEED_BINS = "speed bins"  # its value for masks made by write_mask

# background, then the seven speed bins from slow (blue) to fast (red), then no data
_MASK_COLOURS = {
    0: (0, 0, 0, 255),
    1: (49, 54, 149, 255),
    2: (69, 117, 180, 255),
    3: (116, 173, 209, 255),
    4: (254, 224, 144, 255),
    5: (253, 174, 97, 255),
    6: (244, 109, 67, 255),
    7: (215, 48, 39, 255),
    IGNORE: (128, 128, 128, 0),
}
_TILED = {"driver": "GTiff", "tiled": True, "blockxsize": 512, "blockysize": 512}


@dataclass(frozen=True)
class RasterFacts:
    """What a raster says about itself.

    Attributes:
        path: where it is.
        grid: where its pixels lie.
        bands: numbers of the bands that hold an image, from 1; an alpha band is left out.
        dtype: type of the pixels, as numpy names it.
        names: description of each of `bands`, empty where there is none.
    """

    path: Path
    grid: Grid
    bands: tuple[int, ...]
    dtype: str
    names: tuple[str, ...]


def read_facts(
    path: Path,
    *,
    crs: CRS | None = None,
    bands: tuple[int, ...] | None = None,
    gsd_m: float | None = None,
) -> RasterFacts:
    """Read where a raster lies and what its bands are, without its pixels.

    Args:
        path: any raster GDAL reads.
        crs: coordinate system to use for a raster that does not name its own.
        bands: the bands to use, from 1; None takes all but an alpha band.
        gsd_m: ground size of the pixels of the grid, metres; other rasters are resampled to it
            when they are read. None takes the pixels as they are.

    Raises:
        DataError: if the file cannot be read, lacks one of the bands, has no CRS, or has no
            position on the ground.
    """
    with open_raster(path) as source:
        if missing := set(bands or ()) - set(source.indexes):
            raise DataError(
                f"{path}: has bands 1 to {source.count}, expected a band {min(missing)} as well"
            )
        crs = _crs(path, source.crs) or crs
        if crs is None:
            raise DataError(
                f"{path}: no coordinate system found, expected one such as EPSG:32611; "
                "assign it with gdal_edit.py -a_srs, or set imagery.crs"
            )
        if source.transform.is_identity:
            raise DataError(f"{path}: no geotransform found, so its place on the ground is unknown")
        if bands is None:
            alpha = ColorInterp.alpha
            bands = tuple(i for i in source.indexes if source.colorinterp[i - 1] != alpha)
        grid = Grid(crs, source.transform, source.height, source.width)
        return RasterFacts(
            path=path,
            grid=grid.resampled(gsd_m) if gsd_m else grid,
            bands=bands,
            dtype=str(source.dtypes[0]),
            names=tuple(source.descriptions[i - 1] or "" for i in bands),
        )


def read_window(
    path: Path, window: Window, bands: tuple[int, ...], grid: Grid | None = None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Read a window that lies inside a raster.

    Args:
        path: the raster.
        window: row, col, height and width.
        bands: band numbers, from 1.
        grid: the grid of `read_facts` that the window counts in; None is the raster's own.

    Returns:
        The bands, shape (band, row, col), and which pixels hold data, shape (row, col): not
        nodata, not transparent, not masked out.

    Raises:
        DataError: if the file cannot be read.
    """
    row, col, height, width = window
    area = rasterio.windows.Window(col, row, width, height)
    with open_raster(path, grid) as source:
        valid = source.dataset_mask(window=area) > 0
        return source.read(list(bands), window=area), valid


def read_sample(
    path: Path, bands: tuple[int, ...], *, side: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Read a thinned copy of a whole raster, at most `side` pixels high and wide.

    Returns:
        As `read_window`.

    Raises:
        DataError: if the file cannot be read.
    """
    with open_raster(path) as source:
        shape = (min(side, source.height), min(side, source.width))
        valid = source.dataset_mask(out_shape=shape) > 0
        return source.read(list(bands), out_shape=(len(bands), *shape)), valid


def read_valid(path: Path, grid: Grid | None = None) -> NDArray[np.bool_]:
    """Read which pixels of a raster hold data, shape (row, col), on its own or another grid.

    Raises:
        DataError: if the file cannot be read.
    """
    with open_raster(path, grid) as source:
        return np.asarray(source.dataset_mask() > 0)


def read_mask(path: Path) -> NDArray[np.uint8]:
    """Read a mask that `write_mask` wrote, shape (row, col).

    Raises:
        DataError: if the file cannot be read.
    """
    with open_raster(path) as source:
        return np.asarray(source.read(1), dtype=np.uint8)


def write_mask(path: Path, mask: NDArray[np.uint8], grid: Grid) -> None:
    """Write a mask of speed bins, shape (row, col), as a GeoTIFF with a colour table."""
    profile = new_profile(grid, count=1, dtype="uint8", nodata=IGNORE)
    profile |= {"compress": "deflate", "photometric": "palette"}
    with whole(path) as partial, open_new(partial, **profile) as target:
        target.write_colormap(1, _MASK_COLOURS)
        target.write(mask, 1)
        target.update_tags(**{CONTENT_TAG: SPEED_BINS})


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
def open_raster(path: Path, grid: Grid | None = None) -> Iterator[rasterio.DatasetReader]:
    """Open a raster to read it, resampled to `grid` if that has other pixels.

    Raises:
        DataError: if it cannot be read, now or inside the block.
    """
    if not path.exists() and not str(path).startswith(("/vsi", "http", "s3:")):
        raise DataError(f"{path} does not exist")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(path) as source, _on_grid(source, grid) as seen:
                yield seen
    except RasterioIOError as error:
        raise DataError(
            f"{path}: not a readable raster ({_one_line(error)}); replace it or leave it out"
        ) from error


def _on_grid(
    source: rasterio.DatasetReader, grid: Grid | None
) -> AbstractContextManager[rasterio.DatasetReader]:
    if grid is None or (grid.height, grid.width) == source.shape:
        return nullcontext(source)
    crs = grid.crs.to_wkt()
    resampled: AbstractContextManager[rasterio.DatasetReader] = WarpedVRT(
        source,
        src_crs=crs,
        crs=crs,
        transform=grid.transform,
        height=grid.height,
        width=grid.width,
        resampling=Resampling.average if grid.height < source.height else Resampling.bilinear,
        add_alpha=source.nodata is None and ColorInterp.alpha not in source.colorinterp,
    )
    return resampled


@contextmanager
def open_new(path: Path, **profile: Any) -> Iterator[Any]:  # noqa: ANN401 - rasterio's options
    """Open a new raster to write it; what GDAL cannot write becomes an OSError."""
    try:
        with rasterio.open(path, "w", **profile) as target:
            yield target
    except RasterioIOError as error:
        raise OSError(f"{path}: {_one_line(error)}") from error


def _crs(path: Path, found: rasterio.crs.CRS | None) -> CRS | None:
    """Return the CRS of a raster; None if it has none, or a local one with no place on earth."""
    if found is None:
        return None
    try:
        crs = CRS.from_user_input(found.to_wkt())
    except CRSError as error:
        raise DataError(
            f"{path}: its coordinate system cannot be understood ({_one_line(error)})"
        ) from error
    return None if crs.type_name == "Engineering CRS" else crs


def _one_line(error: Exception) -> str:
    return " ".join(str(error.__cause__ or error).split())
