"""Roads: centrelines with their speeds, cleaned and brought to a metric CRS."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.core.graphs import Lines
from roadseg.core.grid import DEGREES, Grid, transformer

_MULTI = (4, 5, 6, 7)  # shapely type ids: MultiPoint, MultiLineString, MultiPolygon, collection
_STEP_M = 1000.0  # a straight outline bends by less than a metre over so far
_LINES = (1, 2)  # LineString, LinearRing


@dataclass(frozen=True)
class Roads:
    """Centrelines and what is known of them.

    Attributes:
        crs: coordinate system of the lines.
        lines: shape (n,), shapely LineStrings.
        speed_mph: shape (n,), above 0.
        speed_source: shape (n,), the label key that the speed came from.
    """

    crs: CRS
    lines: Lines
    speed_mph: NDArray[np.float64]
    speed_source: NDArray[np.str_]

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> "Roads":
        """Return the chosen roads, by index or by a boolean for each."""
        return Roads(
            self.crs, self.lines[chosen], self.speed_mph[chosen], self.speed_source[chosen]
        )

    def to_crs(self, crs: CRS) -> "Roads":
        """Return the roads in another CRS."""
        lines = reproject(self.lines, self.crs, crs)
        return Roads(crs, lines, self.speed_mph, self.speed_source)


def clean_lines(geometries: NDArray[np.object_]) -> tuple[Lines, NDArray[np.intp], Counter[str]]:
    """Take the lines out of label geometries.

    Collections and multi-part geometries are taken apart, heights are dropped.

    Args:
        geometries: shape (m,), shapely geometries or None, one a label.

    Returns:
        The lines, shape (n,); the label that each came from, shape (n,); and how many pieces
        were left out by reason: "null", "empty", "not finite", "zero length", "not a line".
    """
    parts = geometries
    owner = np.arange(len(parts))
    dropped: Counter[str] = Counter(null=int(np.sum(shapely.is_missing(parts))))
    parts, owner = parts[~shapely.is_missing(parts)], owner[~shapely.is_missing(parts)]
    while np.isin(shapely.get_type_id(parts), _MULTI).any():
        dropped["empty"] += int(np.sum(shapely.get_num_geometries(parts) == 0))
        parts, index = shapely.get_parts(parts, return_index=True)
        owner = owner[index]
    kept = np.ones(len(parts), dtype=bool)
    for reason, bad in (
        ("empty", shapely.is_empty(parts)),
        ("not a line", ~np.isin(shapely.get_type_id(parts), _LINES)),
        ("not finite", ~np.isfinite(shapely.length(parts))),  # bounds would pass over NaN
        ("zero length", shapely.length(parts) == 0),
    ):
        dropped[reason] += int(np.sum(bad & kept))
        kept &= ~bad
    return shapely.force_2d(parts[kept]), owner[kept], +dropped


def roads_on(grid: Grid, roads: Roads, *, margin_m: float) -> Roads:
    """Return the roads that come within `margin_m` of a scene, in the scene's metric CRS."""
    area = shapely.buffer(grid.footprint_m, margin_m)
    outline = np.array([shapely.segmentize(area, _STEP_M)], dtype=object)
    west, south, east, north = shapely.total_bounds(reproject(outline, grid.metric_crs, roads.crs))
    box = shapely.bounds(roads.lines)
    near = (box[:, 0] <= east) & (box[:, 2] >= west) & (box[:, 1] <= north) & (box[:, 3] >= south)
    metric = roads.take(near).to_crs(grid.metric_crs)
    return metric.take(shapely.intersects(metric.lines, area))


def extent_degrees(geometries: Lines, crs: CRS) -> str:
    """Say where geometries lie: `lon 2.2815 to 2.2902, lat 48.9801 to 48.9862`."""
    west, south, east, north = shapely.total_bounds(reproject(geometries, crs, DEGREES))
    return f"lon {west:.4f} to {east:.4f}, lat {south:.4f} to {north:.4f}"


def reproject(geometries: Lines, source: CRS, target: CRS) -> Lines:
    """Convert shapely geometries from one CRS to another, vertex by vertex."""
    if source == target or len(geometries) == 0:
        return geometries
    convert = transformer(source, target)

    def move(xy: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack(convert.transform(xy[:, 0], xy[:, 1]))

    return np.asarray(shapely.transform(geometries, move), dtype=object)
