"""The map of a page as JSON: areas in metres, polynomials to degrees, and roads as columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import shapely
from affine import Affine
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.arrays import Floats, Lines
from roadseg.dataset.footprints import areas_apart
from roadseg.raster.grid import DEGREES, Grid, reproject, transformer
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.labels.areas import Area

Box = tuple[float, float, float, float]  # West, south, east and north.

_GAP_KM = 20.0  # Kilometres; areas at least this far apart have separate maps.
_DEGREE = 5  # Degree of the polynomials, whose error over 100 km is a micrometre.
_POINTS = 12  # Points in each direction to which the polynomials are fitted.
_MARGIN_M = 2000.0  # Metres around the scenes that the polynomials have to cover for the cursor.
_DECIMALS = {"length_m": 4, TRAVEL_TIME: 5}  # Decimals of attributes; others have 3.


@dataclass(frozen=True)
class MapArea:
    """Scenes that are shown on one map.

    Attributes:
        scenes: rows of the scenes.
        outlines: of these scenes, in this CRS.
    """

    crs: CRS
    scenes: tuple[int, ...]
    outlines: NDArray[np.object_]

    @property
    def origin(self) -> tuple[float, float]:
        """Origin of coordinates: a point at whole metres, south-west of all scenes."""
        west, south, _, _ = shapely.total_bounds(self.outlines)
        return float(np.floor(west)), float(np.floor(south))

    @property
    def box(self) -> Box:
        """Bounds of all scenes, from the origin on."""
        return relative(shapely.total_bounds(self.outlines), self.origin)

    def inside(self, work: Area) -> shapely.MultiPolygon:
        """Return the polygons of an area to work in, on and around the scenes, in this CRS."""
        west, south, east, north = shapely.total_bounds(self.outlines).tolist()
        grid = Grid(self.crs, Affine(east - west, 0, west, 0, south - north, north), 1, 1)
        if grid.is_local:
            return shapely.MultiPolygon()
        # The middle of the scenes may lie in another zone than the first of them.
        polygons = np.array([work.on(grid)], dtype=object)
        return cast("shapely.MultiPolygon", reproject(polygons, grid.metric_crs, self.crs)[0])

    def km2(self, work: Area | None = None) -> float:
        """Return the area of all scenes, or of their part in an area; overlaps count once."""
        ground = shapely.union_all(self.outlines)
        return float((ground & self.inside(work) if work else ground).area) / 1e6


def map_areas(grids: Sequence[Grid]) -> list[MapArea]:
    """Group scenes by map: those less than 20 km apart share one.

    Each scene without georeference has its own map.

    Returns:
        The areas; their CRS is the metric one of their first scene.
    """
    placed = [row for row, grid in enumerate(grids) if not grid.is_local]
    areas = [_area(grids, [row]) for row, grid in enumerate(grids) if grid.is_local]
    if placed:
        grounds = [grids[row].footprint_in(DEGREES) for row in placed]
        corners = np.array([shapely.get_coordinates(each)[:4] for each in grounds])
        numbers = areas_apart(corners, gap_km=_GAP_KM)
        groups = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
        areas = [_area(grids, [placed[i] for i in group]) for group in groups] + areas
    return areas


def relative(bounds: Sequence[float] | Floats, origin: tuple[float, float]) -> Box:
    """Return bounds relative to an origin, rounded to centimetres."""
    west, south, east, north = (round(float(v), 2) for v in np.subtract(bounds, (*origin, *origin)))
    return west, south, east, north


def describe_area(area: MapArea) -> dict[str, Any]:
    """Return an area as JSON values for the page.

    `to_degrees` and `from_degrees` convert x, y to longitude, latitude and back; both are None
    where there is no georeference.
    """
    area_facts: dict[str, Any] = {
        "crs": area.crs.name,
        "box": area.box,
        "origin": area.origin,
        "to_degrees": None,
        "from_degrees": None,
    }
    if area.crs.is_projected:
        xy = _spread(area)
        degrees = np.column_stack(transformer(area.crs, DEGREES).transform(*(xy + area.origin).T))
        area_facts |= {"to_degrees": fit(xy, degrees), "from_degrees": fit(degrees, xy)}
    return area_facts


def fit(source: Floats, target: Floats) -> dict[str, Any]:
    """Fit polynomials of two variables that convert positions.

    Args:
        source: positions, shape (n, 2).
        target: what they are to become, shape (n, 2).

    Returns:
        Centre and scale of the source, and the centre and the coefficients of the target for the
        terms u^i v^j in the order of `terms`.
    """
    centre, scale = source.mean(axis=0), np.ptp(source, axis=0) / 2
    u, v = ((source - centre) / scale).T
    matrix = np.column_stack([u**i * v**j for i, j in terms()])
    # Differences from the middle are small, so the coefficients lose no digits to a large constant.
    middle = target.mean(axis=0)
    coefficients, *_ = np.linalg.lstsq(matrix, target - middle, rcond=None)
    return {
        "degree": _DEGREE,
        "centre": centre.tolist(),
        "scale": scale.tolist(),
        "middle": middle.tolist(),
        "terms": coefficients.T.tolist(),
    }


def terms() -> list[tuple[int, int]]:
    """Return the exponents (i, j) of the terms of a polynomial, sorted by i, then j."""
    return [(i, j) for i in range(_DEGREE + 1) for j in range(_DEGREE + 1 - i)]


def _area(grids: Sequence[Grid], rows: Sequence[int]) -> MapArea:
    crs = grids[rows[0]].metric_crs
    outlines = np.array([grids[row].footprint_in(crs) for row in rows], dtype=object)
    return MapArea(crs, tuple(rows), outlines)


def _spread(area: MapArea) -> Floats:
    """Return points over an area, closer to each other at its rim."""
    west, south, east, north = area.box
    # Chebyshev nodes keep the error of a polynomial even over the whole area.
    nodes = np.cos(np.pi * (np.arange(_POINTS) + 0.5) / _POINTS)
    x = (west + east) / 2 + nodes * ((east - west) / 2 + _MARGIN_M)
    y = (south + north) / 2 + nodes * ((north - south) / 2 + _MARGIN_M)
    return np.column_stack([axis.ravel() for axis in np.meshgrid(x, y)])


@dataclass(frozen=True)
class Precision:
    """Precision of drawn lines.

    Attributes:
        step_m: size of a unit of the coordinates.
        tolerance_m: how far a line may move when simplified; 0 keeps every vertex.
    """

    step_m: float
    tolerance_m: float


def encode_graph(
    graph: RoadGraph, origin: tuple[float, float], precision: Precision
) -> dict[str, Any]:
    """Return a graph with all attributes of its edges; lengths and times are exact.

    Args:
        graph: roads in metres.
        origin: x and y of the origin of coordinates.
    """
    if TRAVEL_TIME not in graph.attributes and "speed_kph" in graph.attributes:
        graph = add_travel(graph, graph.attributes["speed_kph"])
    columns = {"length_m": graph.length_m, **graph.attributes}
    return {
        "nodes": len(graph.nodes),
        "ends": graph.ends.ravel().tolist(),
        "lines": encode_lines(graph.lines, origin, precision),
        "columns": {name: encode_column(name, column) for name, column in columns.items()},
    }


def encode_lines(lines: Lines, origin: tuple[float, float], precision: Precision) -> dict[str, Any]:
    """Return lines in integer steps, each vertex relative to the previous one, also across lines.

    Arguments are those of `encode_graph`.
    """
    if precision.tolerance_m:
        lines = shapely.simplify(lines, precision.tolerance_m, preserve_topology=False)
    xy, line = shapely.get_coordinates(lines, return_index=True)
    # Differences have few digits, and errors of integers do not add up.
    steps = np.rint((xy - origin) / precision.step_m).astype(np.int64)
    return {
        "step": precision.step_m,
        "sizes": np.bincount(line, minlength=len(lines)).tolist(),
        "xy": np.diff(steps, axis=0, prepend=np.zeros((1, 2), dtype=np.int64)).ravel().tolist(),
    }


def encode_column(name: str, column: NDArray[Any]) -> dict[str, Any]:
    """Return rounded numbers, None for NaN; texts as a list of distinct texts and their codes."""
    if column.dtype.kind in "fiub":
        values = np.round(column.astype(np.float64), _DECIMALS.get(name, 3)).tolist()
        # NaN is not itself; whole numbers are shorter without a point.
        return {"values": [None if v != v else int(v) if v == int(v) else v for v in values]}  # noqa: PLR0124
    texts, codes = np.unique(["" if v is None else str(v) for v in column], return_inverse=True)
    return {"texts": texts.tolist(), "codes": codes.tolist()}
