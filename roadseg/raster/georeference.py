"""Georeference: where an open raster says that its pixels lie."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, LOCAL_CRS, Grid, transformer
from roadseg.system.text import one_line

_NOWHERE = (Affine.identity(), Affine.scale(1, -1))  # what readers say where a file says nothing
_LONGEST_PX = 10_000_000  # of a side: 3,000 km of 0.3 m
_USE_MASKS = (
    "or use raster masks of its size as labels and set imagery.gsd_m to the ground size of its "
    "pixels in metres"
)


def place_of(
    path: Path, source: rasterio.DatasetReader, *, crs: CRS | None, gsd_m: float | None
) -> Grid:
    """Return the grid of an open raster, as its pixels are in the file.

    Args:
        path: its name in errors.
        source: the raster.
        crs: coordinate system to use if it does not name its own.
        gsd_m: ground size of its pixels if it has no geotransform, metres. Its grid then is in
            `LOCAL_CRS` with the origin at its lower left corner, whatever CRS it names.

    Raises:
        DataError: if it has no place on the ground.
    """
    found = crs_of(path, source.crs)
    if not has_transform(source):
        if gsd_m is None or _control_points(source):
            raise DataError(f"{path}: {_no_place(source, found)}")
        north = source.height * gsd_m
        return Grid(LOCAL_CRS, Affine(gsd_m, 0, 0, 0, -gsd_m, north), source.height, source.width)
    crs = found or crs
    if crs is None:
        raise DataError(
            f"{path}: no coordinate system found, expected one such as EPSG:32611; "
            "assign it with gdal_edit.py -a_srs, or set imagery.crs"
        )
    return _on_earth(path, Grid(crs, source.transform, source.height, source.width))


def has_transform(source: rasterio.DatasetReader) -> bool:
    """Say whether a raster has a geotransform: one that says where its pixels lie."""
    return source.transform not in _NOWHERE


def crs_of(path: Path, found: rasterio.crs.CRS | None) -> CRS | None:
    """Return the CRS of a raster; None if it has none, or one with no place on earth.

    Raises:
        DataError: if it cannot be understood.
    """
    if found is None:
        return None
    try:
        crs = _parse(found.to_wkt())
    except CRSError as error:
        text = one_line(error)
        raise DataError(f"{path}: its coordinate system cannot be understood ({text})") from error
    is_local_of_others = crs.type_name == LOCAL_CRS.type_name and crs.name != LOCAL_CRS.name
    return None if is_local_of_others else crs


@lru_cache(maxsize=64)
def _parse(wkt: str) -> CRS:
    return CRS.from_wkt(wkt)


def _control_points(source: rasterio.DatasetReader) -> bool:
    return bool(source.gcps[0]) or source.rpcs is not None


def _no_place(source: rasterio.DatasetReader, crs: CRS | None) -> str:
    if _control_points(source):
        return (
            "placed by control points (GCPs or RPCs) only, expected a geotransform; warp it "
            "first: gdalwarp -t_srs EPSG:<number of its UTM zone> <it> <new file>"
        )
    if crs is not None:
        return (
            f"no geotransform found, so its place in {crs.name} is unknown; give it one with "
            f"gdal_edit.py -a_ullr, {_USE_MASKS}"
        )
    return (
        "no georeference found (neither a geotransform nor a coordinate system), so road lines "
        f"cannot be laid over it; give it one with gdal_translate -a_srs -a_ullr, {_USE_MASKS}"
    )


def _on_earth(path: Path, grid: Grid) -> Grid:
    if grid.transform.is_degenerate:
        raise DataError(
            f"{path}: its geotransform {tuple(grid.transform)[:6]} gives pixels no area; "
            "correct it with gdal_edit.py -a_ullr"
        )
    if max(grid.height, grid.width) > _LONGEST_PX:
        raise DataError(
            f"{path}: found {grid.height} x {grid.width} pixels, expected at most {_LONGEST_PX} "
            "each way; cut it into parts"
        )
    if grid.is_local:
        return grid
    try:
        _ = grid.centre_degrees
    except ValueError as error:
        raise DataError(
            f"{path}: {error}; check its geotransform and its coordinate system, {grid.crs.name}"
        ) from error
    if not _is_placed(grid):
        raise DataError(
            f"{path}: its corners have no place in metres (EPSG:{grid.metric_epsg}), as if it "
            "reached across a pole or around the earth; check its geotransform and its coordinate "
            f"system, {grid.crs.name}, or cut it into parts"
        )
    return grid


def _is_placed(grid: Grid) -> bool:
    """Say whether pixels have a size, and corners a place in metres to which they come back."""
    height, width = grid.height, grid.width
    corners = np.array([[0, 0], [0, width], [height, width], [height, 0]], dtype=np.float64)
    with np.errstate(all="ignore"):
        sizes_m, places_m = grid.pixel_size_m, grid.to_metric(corners)
        again_m = grid.to_metric(grid.from_metric(places_m))  # the other side of the date line too
        apart_m = float(np.abs(again_m - places_m).max())
    has_size = min(sizes_m) > 0 and math.isfinite(max(sizes_m))
    return has_size and apart_m < max(sizes_m) and _is_within_crs(grid)


def _is_within_crs(grid: Grid) -> bool:
    """Say whether the middle of a grid is where its own CRS puts it by longitude and latitude."""
    if grid.crs.is_geographic:
        return True
    xy = transformer(DEGREES, grid.crs).transform(*grid.centre_degrees)
    apart = np.abs(grid.to_pixel(np.array([xy])) - (grid.height / 2, grid.width / 2))
    return bool((apart < 1).all())


def crs_setting(text: str | None, key: str) -> CRS | None:
    """Return the CRS that a setting names, None where it is null.

    Raises:
        ConfigError: if there is no such CRS.
    """
    try:
        return CRS.from_user_input(text) if text else None
    except CRSError as error:
        raise ConfigError(f"{key}: expected a CRS such as EPSG:32611, got {text!r}") from error
