"""Grid: where the pixels of a raster lie on the ground; the only place where x/y meets row/col.

A grid is read from an open raster, refused if it has no location, and converts between pixels, map
and metres.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS, Geod, Transformer
from pyproj.exceptions import CRSError

from roadseg.arrays import Floats, Lines
from roadseg.errors import ConfigError, DataError
from roadseg.system.text import one_line

if TYPE_CHECKING:
    import rasterio

Points = Floats
XY = tuple[float, float]

DEGREES = CRS.from_epsg(4326)
# The CRS of scenes without georeference, in the form in which GeoTIFF preserves it.
LOCAL_CRS = CRS.from_wkt(
    'LOCAL_CS["roadseg local metres",UNIT["metre",1],AXIS["Easting",EAST],AXIS["Northing",NORTH]]'
)
_WGS84 = Geod(ellps="WGS84")
_UTM_LIMITS = (-80.0, 84.0)  # Degrees of latitude; UTM covers what lies between.
_NOWHERE = (Affine.identity(), Affine.scale(1, -1))  # What GDAL gives for no geotransform.
# CRSs and the conversions between them are slow to make.
_from_epsg = lru_cache(maxsize=128)(CRS.from_epsg)
_from_wkt = lru_cache(maxsize=64)(CRS.from_wkt)
_transformer = lru_cache(maxsize=256)(partial(Transformer.from_crs, always_xy=True))
_USE_MASKS = (
    "or, if your labels are raster masks of its size, or you have none, only set the size of its "
    "pixels in metres, such as --set imagery.gsd_m=0.5 (for score and convert: --gsd-m 0.5)"
)


@dataclass(frozen=True)
class Grid:
    """Coordinate system, affine transform and shape of a raster.

    Pixel coordinates are (row, col); the centre of the first pixel is (0.5, 0.5). Map coordinates
    are (x, y).

    The grid of a scene without georeference is in `LOCAL_CRS`, whose map coordinates are metres;
    only conversions to degrees do not work for it.

    Attributes:
        crs: coordinate system of the map.
        transform: affine transform from (col, row) to (x, y), as in rasterio.
    """

    crs: CRS
    transform: Affine
    height: int
    width: int

    def to_map(self, rows_cols: Points) -> Points:
        """Convert pixel positions, shape (n, 2) as row, col, to x, y in the raster's CRS."""
        rows, cols = np.asarray(rows_cols, dtype=np.float64).reshape(-1, 2).T
        return _apply(self.transform, cols, rows)

    def to_pixel(self, xy: Points) -> Points:
        """Convert x, y in the raster's CRS, shape (n, 2), to positions as row, col."""
        x, y = self._counted_on(np.asarray(xy, dtype=np.float64).reshape(-1, 2)).T
        return _apply(~self.transform, x, y)[:, ::-1]

    def to_metric(self, rows_cols: Points) -> Points:
        """Convert pixel positions, row, col, to x, y in metres (`metric_crs`)."""
        return reproject_points(self.to_map(rows_cols), self.crs, self.metric_crs)

    def from_metric(self, xy_m: Points) -> Points:
        """Convert x, y in metres (`metric_crs`) to pixel positions, row, col."""
        return self.to_pixel(reproject_points(xy_m, self.metric_crs, self.crs))

    def placed(self, geometries: Lines) -> Lines:
        """Convert shapely geometries in metres (`metric_crs`) to the raster's CRS."""
        there = reproject(geometries, self.metric_crs, self.crs)
        return shapely.transform(there, self._counted_on) if self.crs.is_geographic else there

    def _counted_on(self, xy: Points) -> Points:
        """Return x, y in the raster's CRS; longitudes go on beyond the date line, as its own do."""
        if not self.crs.is_geographic:
            return xy
        turns = np.round((xy[:, 0] - self.footprint.centroid.x) / 360)
        return xy - np.outer(turns, (360, 0))

    @cached_property
    def is_local(self) -> bool:
        """Whether the raster has no georeference, see `LOCAL_CRS`."""
        return self.crs == LOCAL_CRS

    @cached_property
    def centre_degrees(self) -> tuple[float, float]:
        """Longitude and latitude of the middle of the raster, which has a georeference.

        Raises:
            ValueError: if this is not a valid position.
        """
        middle = self.to_map(np.array([[self.height / 2, self.width / 2]]))
        lon, lat = transformer(self.crs, DEGREES).transform(*middle[0])
        if not (abs(lon) <= 360 and abs(lat) <= 90):  # noqa: PLR2004 - degrees
            raise ValueError(
                f"its centre is at lon {lon:g}, lat {lat:g}, which is not a valid position"
            )
        return float(lon), float(lat)

    @cached_property
    def metric_epsg(self) -> int:
        """EPSG number of `metric_crs`: UTM zone of the centre, UPS near a pole; 0 if local."""
        return 0 if self.is_local else utm_epsg(*self.centre_degrees)

    @cached_property
    def metric_crs(self) -> CRS:
        """Local metric CRS, see `metric_epsg`."""
        return LOCAL_CRS if self.is_local else _from_epsg(self.metric_epsg)

    @cached_property
    def pixel_size_m(self) -> tuple[float, float]:
        """Ground size of the middle pixel in metres as (width, height), thus in the order x, y.

        The size is geodesic; that of a local grid is from its transform.
        """
        if self.is_local:
            a, b, _, d, e, _ = self.transform[:6]
            return float(np.hypot(a, d)), float(np.hypot(b, e))
        row, col = self.height / 2, self.width / 2
        corners = self.to_map(np.array([[row, col], [row, col + 1], [row + 1, col]]))
        lon, lat = transformer(self.crs, DEGREES).transform(corners[:, 0], corners[:, 1])
        _, _, along_row = _WGS84.inv(lon[0], lat[0], lon[1], lat[1])
        _, _, along_col = _WGS84.inv(lon[0], lat[0], lon[2], lat[2])
        return float(along_row), float(along_col)

    @cached_property
    def footprint(self) -> shapely.Polygon:
        """Outline of the raster in its own CRS."""
        return shapely.Polygon(self.to_map(self.corners))

    def footprint_in(self, crs: CRS) -> shapely.Polygon:
        """Return the outline of the raster in another CRS."""
        (outline,) = reproject(np.array([self.footprint], dtype=object), self.crs, crs)
        return cast("shapely.Polygon", outline)

    @cached_property
    def footprint_m(self) -> shapely.Polygon:
        """Outline of the raster in `metric_crs`."""
        return shapely.Polygon(self.to_metric(self.corners))

    @property
    def corners_m(self) -> tuple[XY, XY, XY, XY]:
        """The four corners of the footprint in `metric_crs`, from the first pixel along its row."""
        corners_m = self.to_metric(self.corners)
        first, second, third, last = ((float(x), float(y)) for x, y in corners_m)
        return first, second, third, last

    def coincides(self, other: "Grid", *, within_px: float) -> bool:
        """Return whether another grid has the same pixels, with corners within this distance."""
        if (self.height, self.width) != (other.height, other.width) or self.crs != other.crs:
            return False
        apart_px = np.abs(other.to_pixel(self.to_map(self.corners)) - self.corners)
        return bool(apart_px.max() < within_px)

    def resampled(self, gsd_m: float) -> "Grid":
        """Return a grid over the same ground whose pixels are about `gsd_m` metres each way."""
        size_x, size_y = self.pixel_size_m
        width = max(1, round(self.width * size_x / gsd_m))
        height = max(1, round(self.height * size_y / gsd_m))
        return self.with_shape(height, width)

    def with_shape(self, height: int, width: int) -> "Grid":
        """Return a grid over the same ground with another number of rows and columns."""
        scaled = self.transform @ Affine.scale(self.width / width, self.height / height)
        return Grid(self.crs, scaled, height, width)

    def moved(self, east_m: float, north_m: float) -> "Grid":
        """Return the grid moved by metres east and north."""
        middle = np.array([[self.height / 2, self.width / 2]])
        there = self.from_metric(np.add(self.to_metric(middle), (east_m, north_m)))
        down, right = (there - middle)[0].tolist()
        return self.crop(down, right, self.height, self.width)

    def to_east_north(self, right_m: float, down_m: float) -> XY:
        """Convert metres along rows and columns to metres east and north in `metric_crs`."""
        row, col = self.height / 2, self.width / 2
        middle, right, down = self.to_metric(np.array([[row, col], [row, col + 1], [row + 1, col]]))
        axes = (right - middle, down - middle)
        along_row, along_col = (axis / np.linalg.norm(axis) for axis in axes)
        east, north = (right_m * along_row + down_m * along_col).tolist()
        return east, north

    def crop(self, row: float, col: float, height: int, width: int) -> "Grid":
        """Return the grid of a window of this raster."""
        return Grid(self.crs, self.transform @ Affine.translation(col, row), height, width)

    @property
    def corners(self) -> Points:
        """The four corners as row, col, shape (4, 2), from the first pixel along its row."""
        h, w = self.height, self.width
        return np.array([[0, 0], [0, w], [h, w], [h, 0]], dtype=np.float64)


def transformer(source: CRS, target: CRS) -> Transformer:
    """Return the conversion between two CRSs, always x before y; cached, as it is slow to make."""
    return _transformer(source.srs, target.srs)  # Texts are compared faster than CRSs.


def is_local(crs: CRS) -> bool:
    """Return whether a CRS is a local one, without georeference."""
    return crs.type_name == LOCAL_CRS.type_name


def utm_epsg(lon: float, lat: float) -> int:
    """Return the EPSG number of the UTM zone of a position in degrees, or of UPS near the poles."""
    if lat >= _UTM_LIMITS[1]:
        return 32661
    if lat < _UTM_LIMITS[0]:
        return 32761
    zone = int((lon + 180) % 360 // 6) + 1
    return (32600 if lat >= 0 else 32700) + zone


def _apply(transform: Affine, x: Points, y: Points) -> Points:
    a, b, c, d, e, f = transform[:6]
    return np.column_stack([a * x + b * y + c, d * x + e * y + f])


def reproject_points(xy: Points, source: CRS, target: CRS) -> Points:
    """Convert x and y, shape (n, 2), from one CRS to another."""
    if source == target:
        return xy
    x, y = np.asarray(xy, dtype=np.float64).reshape(-1, 2).T
    return np.column_stack(transformer(source, target).transform(x, y))


def reproject(geometries: Lines, source: CRS, target: CRS) -> Lines:
    """Convert shapely geometries from one CRS to another, vertex by vertex.

    A vertex without a position in the other CRS becomes infinite.
    """
    if source == target or len(geometries) == 0:
        return geometries
    moved = shapely.transform(geometries, lambda xy: reproject_points(xy, source, target))
    return np.asarray(moved, dtype=object)


def grid_of(
    path: Path | str, source: "rasterio.DatasetReader", *, crs: CRS | None, gsd_m: float | None
) -> Grid:
    """Return the grid of an open raster, not resampled.

    Args:
        path: path or address of the raster, for errors.
        crs: coordinate system for a raster that does not name its own.
        gsd_m: ground size of the pixels of a raster without geotransform, metres. Its grid is a
            `local_grid`, whatever CRS it names.

    Raises:
        DataError: if the raster has no place on the ground.
    """
    own = crs_of(path, source)
    if not has_transform(source):
        if gsd_m is None or _has_control_points(source):
            raise DataError(f"{path}: {_no_place(source)}")
        return local_grid(source.height, source.width, gsd_m=gsd_m)
    crs = own or crs
    if crs is None:
        raise DataError(
            f"{path}: no coordinate system found, expected one such as EPSG:32611; "
            "assign it with gdal_edit.py -a_srs, or set imagery.crs"
        )
    grid = Grid(crs, source.transform, source.height, source.width)
    _require_place(path, grid)
    return grid


def local_grid(height: int, width: int, *, gsd_m: float) -> Grid:
    """Return the grid of pixels without a place: `LOCAL_CRS`, from the lower left corner on.

    Args:
        gsd_m: ground size of the pixels, metres.
    """
    return Grid(LOCAL_CRS, Affine(gsd_m, 0, 0, 0, -gsd_m, height * gsd_m), height, width)


def has_transform(source: "rasterio.DatasetReader") -> bool:
    """Return whether a raster has a geotransform, other than GDAL's default."""
    return source.transform not in _NOWHERE


def crs_of(path: Path | str, source: "rasterio.DatasetReader") -> CRS | None:
    """Return the CRS of an open raster; None if it has none, or a local one.

    Raises:
        DataError: if it cannot be understood.
    """
    if source.crs is None:
        return None
    try:
        crs = _from_wkt(source.crs.to_wkt())
    except CRSError as error:
        reason = one_line(error)
        raise DataError(f"{path}: its coordinate system cannot be read ({reason})") from error
    is_local_of_others = is_local(crs) and crs.name != LOCAL_CRS.name
    return None if is_local_of_others else crs


def crs_setting(text: str | None, key: str) -> CRS | None:
    """Return the CRS that a setting names; None if it is null.

    Raises:
        ConfigError: if there is no such CRS.
    """
    try:
        return CRS.from_user_input(text) if text else None
    except CRSError as error:
        raise ConfigError(f"{key}: expected a CRS such as EPSG:32611, got {text!r}") from error


def _has_control_points(source: "rasterio.DatasetReader") -> bool:
    return bool(source.gcps[0]) or source.rpcs is not None


def _no_place(source: "rasterio.DatasetReader") -> str:
    """Return why a raster without a geotransform cannot be placed, and what to do about it."""
    if _has_control_points(source):
        return (
            "georeferenced only by control points (GCPs or RPCs), expected a geotransform; warp "
            "it first: gdalwarp -t_srs EPSG:<number of its UTM zone> <this file> <new file>"
        )
    return (
        "no georeference found (it has no geotransform), so road lines cannot be placed on it; add "
        f"one with gdal_translate -a_srs -a_ullr, {_USE_MASKS}"
    )


def _require_place(path: Path | str, grid: Grid) -> None:
    """Refuse a grid whose pixels have no area, or lie nowhere on earth."""
    if grid.transform.is_degenerate:
        raise DataError(
            f"{path}: its geotransform {tuple(grid.transform)[:6]} leaves the pixels without "
            "area; correct it with gdal_edit.py -a_ullr"
        )
    if grid.is_local:
        return
    try:
        _ = grid.centre_degrees
    except ValueError as error:
        raise DataError(
            f"{path}: {error}; check its geotransform and its coordinate system, {grid.crs.name}"
        ) from error
    if not _comes_back(grid):
        raise DataError(
            f"{path}: its corners cannot be projected to metres (EPSG:{grid.metric_epsg}); it "
            "may cross a pole or span the globe; check its geotransform and its coordinate "
            f"system, {grid.crs.name}, or cut it into parts"
        )


def _comes_back(grid: Grid) -> bool:
    """Return whether pixels have a size, and corners convert to metres and back unchanged."""
    with np.errstate(all="ignore"):
        sizes_m, again = grid.pixel_size_m, grid.from_metric(grid.to_metric(grid.corners))
        apart_px = float(np.abs(again - grid.corners).max())
    return min(sizes_m) > 0 and math.isfinite(max(sizes_m)) and apart_px < 1
