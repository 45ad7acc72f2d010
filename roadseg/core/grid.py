"""Grid: where the pixels of a raster lie on the ground; the only place where x/y meets row/col."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import shapely
from affine import Affine
from numpy.typing import NDArray
from pyproj import CRS, Geod, Transformer

Points = NDArray[np.float64]

_WGS84 = Geod(ellps="WGS84")
_UTM_LIMITS = (-80.0, 84.0)  # degrees of latitude that UTM covers


@dataclass(frozen=True)
class Grid:
    """Coordinate system, affine transform and shape of a raster.

    Pixel coordinates are (row, col); the centre of the first pixel is (0.5, 0.5), so that a
    position does not depend on which corner a reader thinks of. Map coordinates are (x, y).

    Attributes:
        crs: coordinate system of the transform.
        transform: from (col, row) to (x, y), rasterio's convention.
        height: rows.
        width: columns.
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
        x, y = np.asarray(xy, dtype=np.float64).reshape(-1, 2).T
        return _apply(~self.transform, x, y)[:, ::-1]

    def to_metric(self, rows_cols: Points) -> Points:
        """Convert pixel positions, row, col, to x, y in metres (`metric_crs`)."""
        return _project(self._from_map, self.to_map(rows_cols))

    def from_metric(self, xy_m: Points) -> Points:
        """Convert x, y in metres (`metric_crs`) to pixel positions, row, col."""
        return self.to_pixel(_project(self._to_map, xy_m))

    @cached_property
    def centre_degrees(self) -> tuple[float, float]:
        """Longitude and latitude of the middle of the raster."""
        middle = self.to_map(np.array([[self.height / 2, self.width / 2]]))
        lon, lat = Transformer.from_crs(self.crs, "EPSG:4326", always_xy=True).transform(*middle[0])
        return float(lon), float(lat)

    @cached_property
    def metric_crs(self) -> CRS:
        """Local metric CRS: the UTM zone of the raster's centre (polar stereographic beyond it)."""
        return utm_crs(*self.centre_degrees)

    @cached_property
    def pixel_size_m(self) -> tuple[float, float]:
        """Ground size of the middle pixel as (along a row, along a column), metres, geodesic."""
        row, col = self.height / 2, self.width / 2
        corners = self.to_map(np.array([[row, col], [row, col + 1], [row + 1, col]]))
        to_degrees = Transformer.from_crs(self.crs, "EPSG:4326", always_xy=True)
        lon, lat = to_degrees.transform(corners[:, 0], corners[:, 1])
        _, _, along_row = _WGS84.inv(lon[0], lat[0], lon[1], lat[1])
        _, _, along_col = _WGS84.inv(lon[0], lat[0], lon[2], lat[2])
        return float(along_row), float(along_col)

    def footprint(self) -> shapely.Polygon:
        """Outline of the raster in its own CRS."""
        h, w = self.height, self.width
        return shapely.Polygon(self.to_map(np.array([[0, 0], [0, w], [h, w], [h, 0]])))

    def crop(self, row: int, col: int, height: int, width: int) -> "Grid":
        """Return the grid of a window of this raster."""
        shifted = self.transform * Affine.translation(col, row)
        return Grid(self.crs, shifted, height, width)

    @cached_property
    def _from_map(self) -> Transformer:
        return Transformer.from_crs(self.crs, self.metric_crs, always_xy=True)

    @cached_property
    def _to_map(self) -> Transformer:
        return Transformer.from_crs(self.metric_crs, self.crs, always_xy=True)


def utm_crs(lon: float, lat: float) -> CRS:
    """Return the metric CRS of a place: its UTM zone, or UPS near the poles.

    Args:
        lon: degrees east.
        lat: degrees north.
    """
    if lat >= _UTM_LIMITS[1]:
        return CRS.from_epsg(32661)
    if lat < _UTM_LIMITS[0]:
        return CRS.from_epsg(32761)
    zone = int((lon + 180) % 360 // 6) + 1
    return CRS.from_epsg((32600 if lat >= 0 else 32700) + zone)


def _apply(transform: Affine, x: Points, y: Points) -> Points:
    a, b, c, d, e, f = transform[:6]
    return np.column_stack([a * x + b * y + c, d * x + e * y + f])


def _project(transformer: Transformer, xy: Points) -> Points:
    x, y = np.asarray(xy, dtype=np.float64).reshape(-1, 2).T
    return np.column_stack(transformer.transform(x, y))
