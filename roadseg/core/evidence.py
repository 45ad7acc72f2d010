"""Evidence: what a probability raster says along the edges of a road graph."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roadseg.core.graphs import Bools, Floats, Ints, RoadGraph
from roadseg.core.grid import Grid
from roadseg.core.travel import sample_points
from roadseg.core.windows import CERTAIN

SPACING_M = 2.0  # distance of the points at which an edge is looked up
_MOST_HALF_WIDTH_M = 25.0  # of a road; what is wider is an open space
_STATIONS_AT_ONCE = 200_000
_STEPS_PER_PIXEL = 2  # at which the way to the side of a road is probed

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Stations:
    """Points along the edges of a graph at which pixels are looked up.

    Attributes:
        edge: shape (k,), rising, the row of the edge of each point.
        places: shape (k, 2), row and col in the scene.
        sideways: shape (k, 2), rows and cols that lead one metre to the left of the edge.
    """

    edge: Ints
    places: Floats
    sideways: NDArray[np.float32]

    def take(self, chosen: Ints) -> "Stations":
        """Return the chosen stations."""
        return Stations(self.edge[chosen], self.places[chosen], self.sideways[chosen])


@dataclass(frozen=True)
class Readings:
    """What the raster shows at stations.

    Attributes:
        road: shape (k,), probability of any road, 255 for certain.
        bins: shape (k, bins), probability of each speed bin, alike; without columns if unknown.
        width_m: shape (k,), width of the road across the edge; NaN where there is no road.
    """

    road: Bytes
    bins: Bytes
    width_m: NDArray[np.float32]


def stations(graph: RoadGraph, grid: Grid) -> Stations:
    """Spread stations evenly along all edges, at most `SPACING_M` apart."""
    points, edge = sample_points(graph, spacing_m=SPACING_M)
    places = np.empty((len(edge), 2))
    sideways = np.empty((len(edge), 2), dtype=np.float32)
    for first in range(0, len(edge), _STATIONS_AT_ONCE):
        some = slice(first, first + _STATIONS_AT_ONCE)
        places[some] = grid.from_metric(points[some])
        left = points[some] + _left(graph, points, edge, np.arange(len(edge))[some])
        sideways[some] = grid.from_metric(left) - places[some]
    return Stations(edge, places, sideways)


def margin_px(grid: Grid) -> int:
    """Return how many pixels around its stations `read_stations` looks at."""
    return int(np.ceil(_MOST_HALF_WIDTH_M / min(grid.pixel_size_m))) + 1


def read_stations(
    at: Stations, road: Bytes, bins: Bytes | None, *, origin: tuple[int, int], level: int
) -> Readings:
    """Look up pixels and widths at stations.

    The width of a road is how far one can go to both sides of the edge without leaving it. The
    distance transform would do too, but it knows neither pixels that are not square, as those in
    degrees, nor which way the road runs.

    Args:
        at: stations that lie in the window.
        road: probability of any road in a window, shape (row, col), 255 for certain.
        bins: probability of each speed bin there, shape (bin, row, col), or None.
        origin: row and col of the window in the scene.
        level: road where `road` is at least this.
    """
    pixels = np.floor(at.places - origin).astype(np.int64)
    rows, cols = np.clip(pixels, 0, np.array(road.shape) - 1).T
    known = np.empty((len(rows), 0), dtype=np.uint8) if bins is None else bins[:, rows, cols].T
    return Readings(road[rows, cols], known, _widths(at, road >= level, origin))


def mean_and_lowest(road: Bytes, edge: Ints, n_edges: int) -> tuple[Floats, Floats]:
    """Return the mean and the lowest probability along each edge, 0 to 1.

    Args:
        road: shape (k,), 255 for certain.
        edge: shape (k,), rising, the row of the edge of each; every edge has one or more.
        n_edges: number of edges.
    """
    if n_edges == 0:
        return np.empty(0), np.empty(0)
    first = np.searchsorted(edge, np.arange(n_edges))
    counts = np.bincount(edge, minlength=n_edges)
    mean = np.add.reduceat(road, first, dtype=np.float64) / counts
    return mean / CERTAIN, np.minimum.reduceat(road, first) / CERTAIN


def median_widths(width_m: NDArray[np.float32], edge: Ints, n_edges: int) -> Floats:
    """Return the median width of each edge in metres, NaN where none is known.

    The median passes over junctions, where the way to the side runs along another road.
    """
    known = ~np.isnan(width_m)
    width_m, edge = width_m[known], edge[known]
    order = np.lexsort((width_m, edge))
    counts = np.bincount(edge, minlength=n_edges)
    has_any = counts > 0
    middle = (np.cumsum(counts) - counts + counts // 2)[has_any]
    median = np.full(n_edges, np.nan)
    median[has_any] = width_m[order][middle]
    return median


def _left(graph: RoadGraph, points: Floats, edge: Ints, rows: Ints) -> Floats:
    """Return unit vectors to the left of the edges at some of the points along them."""
    ahead = _neighbour(points, edge, rows, 1, graph.nodes[graph.ends[edge[rows], 1]])
    behind = _neighbour(points, edge, rows, -1, graph.nodes[graph.ends[edge[rows], 0]])
    dx, dy = (ahead - behind).T
    length = np.maximum(np.hypot(dx, dy), np.finfo(float).tiny)
    return np.asarray(np.column_stack([-dy, dx]) / length[:, None])


def _neighbour(points: Floats, edge: Ints, rows: Ints, step: int, at_end: Floats) -> Floats:
    """Return the next (1) or last (-1) point of the same edge, or the end of the edge."""
    other = np.clip(rows + step, 0, len(edge) - 1)
    same = (other != rows) & (edge[other] == edge[rows])
    return np.where(same[:, None], points[other], at_end)


def _widths(at: Stations, is_road: Bools, origin: tuple[int, int]) -> NDArray[np.float32]:
    start = at.places - origin
    step_m = 1 / (_STEPS_PER_PIXEL * max(np.hypot(*at.sideways.T).max(initial=0), 1e-9))
    width = np.zeros(len(start), dtype=np.float32)
    for side in (1, -1):
        steps = side * step_m * at.sideways
        width += _free_steps(start, steps, is_road, most=int(_MOST_HALF_WIDTH_M / step_m)) * step_m
    return np.where(width > 0, width, np.nan).astype(np.float32)


def _free_steps(start: Floats, steps: Floats, is_road: Bools, *, most: int) -> NDArray[np.float32]:
    """Count the steps that can be gone on road, and half the one that leaves it."""
    walking = np.flatnonzero(_inside(start, is_road))
    taken = np.zeros(len(start), dtype=np.float32)
    for number in range(1, most + 1):
        if len(walking) == 0:
            break
        taken[walking] = number - 0.5
        walking = walking[_inside(start[walking] + number * steps[walking], is_road)]
    taken[walking] = most
    return taken


def _inside(places: Floats, is_road: Bools) -> Bools:
    row, col = np.floor(places).astype(np.int64).T
    height, width = is_road.shape
    inside = (row >= 0) & (row < height) & (col >= 0) & (col < width)
    inside[inside] = is_road[row[inside], col[inside]]
    return np.asarray(inside)
