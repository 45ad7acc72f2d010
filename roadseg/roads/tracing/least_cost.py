"""TracedLinks: the ways of links through a raster of road probabilities."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import shapely
from skimage.graph import MCP_Geometric

from roadseg.arrays import Bools, Bytes, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.roads.graph.road_graph import lines_from

_STEP_COST = 0.1  # of a metre where road is certain; of one where none is seen, this and 1 more
_MARGIN_M = 3.0  # how far a way may leave the box around its ends
_WORTH = 0.9  # a way has to cost less than this part of the straight line, or that is taken
_TOLERANCE_PX = 1.5  # how far the pixels of a way may lie off its line
_CELL_PX = 512  # windows that start in one cell of this size are read together

ReadRoad = Callable[[Window], Bytes]


@dataclass(frozen=True)
class TracedLinks:
    """Ways between pairs of places.

    Attributes:
        lines: shape (k,), LineStrings in metres from each start to its goal.
        cost_m: shape (k,), metres weighted by 1.1 less the probability of road.
        probability: shape (k,), mean probability of road along each line, 0 to 1.
        is_informed: shape (k,), whether the raster around has values other than 0 and 1; a mask
            tells nothing about where the road goes on.
    """

    lines: Lines
    cost_m: Floats
    probability: Floats
    is_informed: Bools


@dataclass(frozen=True)
class _Way:
    pixels: Ints  # shape (n, 2), row and col in the window, first and last included
    cost_m: float
    probability: float
    is_informed: bool


def trace_links(starts: Floats, goals: Floats, *, grid: Grid, read_road: ReadRoad) -> TracedLinks:
    """Find the way from each start to its goal on which the raster shows most road.

    It is the way of least cost over 1 less the probability, plus 0.1, times metres; or the straight
    line if that costs at most a ninth more, or if the raster around holds nothing but 0 and 1.

    Args:
        starts: shape (k, 2), x and y in metres; from equal starts all ways are found at once.
        goals: shape (k, 2), likewise.
        grid: where the pixels of the raster lie.
        read_road: reads a window of it: probability of any road, 255 for certain. Windows lie
            inside the raster, are little larger than the links, and those of one neighbourhood are
            read at once.

    Source: minimum cost paths as in skimage.graph.MCP_Geometric; that roads are linked by paths of
    least cost over the probability is in MaGRoad (WildRoad). The costs and their figures are ours.
    """
    places = np.floor(grid.from_metric(np.concatenate([starts, goals]))).astype(np.int64)
    shape = np.array([grid.height, grid.width])
    pixels = np.clip(places, 0, shape - 1).reshape(2, -1, 2)
    pixel_m = grid.pixel_size_m[::-1]
    margin = np.ceil(_MARGIN_M / np.array(pixel_m)).astype(np.int64)
    _, start = np.unique(starts, axis=0, return_inverse=True)
    low, high = _boxes(pixels, start.ravel(), margin, shape)
    ways = [_Way(np.zeros((0, 2), dtype=np.int64), 0.0, 0.0, is_informed=False)] * len(starts)
    for (row, col), stop, links in neighbourhoods(low, high, start.ravel()):
        road = read_road(Window(row, col, int(stop[0]) - row, int(stop[1]) - col))
        for link in np.split(links, np.flatnonzero(np.diff(start.ravel()[links])) + 1):
            first, last = low[link[0]], high[link[0]]
            (top, left), (bottom, right) = first - (row, col), last - (row, col)
            local = pixels[:, link] - first
            found = _ways(road[top:bottom, left:right], local[0, 0], local[1], pixel_m)
            for i, way in zip(link.tolist(), found, strict=True):
                ways[i] = way
    return TracedLinks(
        _lines(ways, low, starts, goals, grid),
        np.array([way.cost_m for way in ways], dtype=np.float64),
        np.array([way.probability for way in ways], dtype=np.float64),
        np.array([way.is_informed for way in ways], dtype=bool),
    )


def neighbourhoods(
    low: Ints, high: Ints, start: Ints
) -> Iterator[tuple[tuple[int, int], Ints, Ints]]:
    """Yield what is best read at once: windows that start in the same cell of 512 pixels.

    Args:
        low: shape (k, 2), first row and col of each window.
        high: shape (k, 2), the row and col after its last.
        start: shape (k,), a number by which those of one cell are sorted.

    Yields:
        First pixel and stop of a window around several, and the rows of these.
    """
    cell = low // _CELL_PX
    order = np.lexsort([start, cell[:, 1], cell[:, 0]])
    new_cell = (np.diff(cell[order], axis=0) != 0).any(axis=1)
    for members in np.split(order, np.flatnonzero(new_cell) + 1) if len(order) else []:
        row, col = low[members].min(axis=0).tolist()
        yield (row, col), high[members].max(axis=0), members


def _boxes(pixels: Ints, start: Ints, margin: Ints, shape: Ints) -> tuple[Ints, Ints]:
    """Return the window of each link, alike for those of one start: first row and col, and stop."""
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    if len(start) == 0:
        return low, high
    order = np.argsort(start, kind="stable")
    begin = np.flatnonzero(np.diff(start[order], prepend=-1))
    low = np.minimum.reduceat(low[order], begin)[start]
    high = np.maximum.reduceat(high[order], begin)[start]
    return np.maximum(low - margin, 0), np.minimum(high + margin + 1, shape)


def _ways(road: Bytes, start: Ints, goals: Ints, pixel_m: tuple[float, float]) -> list[_Way]:
    """Find the ways from one pixel of a window to others."""
    is_informed = bool(((road > 0) & (road < CERTAIN)).any())
    straight = [_straight(road, start, goal, pixel_m, is_informed=is_informed) for goal in goals]
    if not is_informed:
        return straight
    search = MCP_Geometric(1 + _STEP_COST - road / CERTAIN, sampling=pixel_m)
    costs, _ = search.find_costs([tuple(start)], goals)
    found = costs[tuple(goals.T)].tolist()
    return [
        _winding(road, np.array(search.traceback(goal)), cost)
        if cost < _WORTH * way.cost_m
        else way
        for goal, cost, way in zip(goals, found, straight, strict=True)
    ]


def _straight(
    road: Bytes, start: Ints, goal: Ints, pixel_m: tuple[float, float], *, is_informed: bool
) -> _Way:
    step = goal - start
    along = np.linspace(0, 1, int(np.abs(step).max()) + 1)[:, None]
    rows, cols = np.rint(start + along * step).astype(np.int64).T
    probability = float(road[rows, cols].mean()) / CERTAIN
    cost_m = float(np.hypot(*(step * pixel_m))) * (1 + _STEP_COST - probability)
    return _Way(np.stack([start, goal]), cost_m, probability, is_informed)


def _winding(road: Bytes, pixels: Ints, cost_m: float) -> _Way:
    probability = float(road[tuple(pixels.T)].mean()) / CERTAIN
    return _Way(pixels, cost_m, probability, is_informed=True)


def _lines(ways: list[_Way], low: Ints, starts: Floats, goals: Floats, grid: Grid) -> Lines:
    """Draw ways in metres, from start to goal exactly."""
    sizes = np.array([len(way.pixels) for way in ways], dtype=np.int64)
    pixels = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(way.pixels for way in ways)])
    xy = grid.to_metric(pixels + np.repeat(low, sizes, axis=0) + 0.5)
    last = np.cumsum(sizes) - 1
    xy[last - sizes + 1], xy[last] = starts, goals
    tolerance_m = _TOLERANCE_PX * max(grid.pixel_size_m)
    return np.asarray(shapely.simplify(lines_from(xy, sizes), tolerance_m))
