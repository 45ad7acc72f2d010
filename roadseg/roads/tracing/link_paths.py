"""Link paths: least-cost paths through a probability raster, and probabilities on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import shapely
from skimage.graph import MCP_Geometric

from roadseg.arrays import Bools, Bytes, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, lines_from, ranges

_STEP_COST = 0.1  # Cost of a metre of certain road; without road it is 1.1.
_MARGIN_M = 3.0  # Metres by which a path may leave the box around its ends.
_WORTH = 0.9  # Cost of a path relative to the straight line, from which on that is preferred.
_STRETCH_M = 5.0  # Metres of a path in the moving average whose minimum is a feature.
_TOLERANCE_PX = 1.5  # Pixels by which simplifying a path may move it.
_SPACING_M = 1.0  # Metres between the places along roads at which links may land.

ReadRoad = Callable[[Window], Bytes]


@dataclass(frozen=True)
class TracedLinks:
    """Least-cost paths between pairs of places.

    Attributes:
        lines: shape (k,), LineStrings in metres from each start to its goal.
        cost_m: shape (k,), metres weighted by 1.1 less the probability of road.
        probability: shape (k,), mean probability of road along each line, 0 to 1.
        quarter: shape (k,), lower quartile of that probability.
        lowest_5m: shape (k,), lowest mean over 5 m of the line.
        lowest: shape (k,), lowest probability.
        is_informed: shape (k,), whether the raster around has values other than 0 and 1; a mask
            does not show roads in a gap.
    """

    lines: Lines
    cost_m: Floats
    probability: Floats
    quarter: Floats
    lowest_5m: Floats
    lowest: Floats
    is_informed: Bools

    @classmethod
    def straight(cls, lines: Lines) -> "TracedLinks":
        """Return straight paths without a raster, as if road were certain along them."""
        certain = np.ones(len(lines))
        none = np.zeros(len(lines), dtype=bool)
        return cls(lines, shapely.length(lines), certain, certain, certain, certain, none)


class _Profile(NamedTuple):
    """Probability along a path: mean, lower quartile, lowest mean over 5 m, and minimum."""

    mean: float
    quarter: float
    lowest_5m: float
    lowest: float


class _Path(NamedTuple):
    """A path through a window.

    Attributes:
        pixels: shape (n, 2), row and col in the window, first and last included.
    """

    pixels: Ints
    cost_m: float
    profile: _Profile
    is_informed: bool


def _profile(road: Bytes, pixel_m: float) -> _Profile:
    """Return the profile of a path from the bytes of probability along it."""
    share = road / CERTAIN
    over = min(max(round(_STRETCH_M / pixel_m), 1), len(share))
    sums = np.cumsum(np.concatenate([[0.0], share]))
    means = (sums[over:] - sums[:-over]) / over
    quarter = np.partition(share, (len(share) - 1) // 4)[(len(share) - 1) // 4]
    return _Profile(float(share.mean()), float(quarter), float(means.min()), float(share.min()))


def places_along(
    graph: RoadGraph, tree: shapely.STRtree, places: Floats, reach_m: float
) -> tuple[Floats, Ints, Floats]:
    """Spread landings along the edges near some places, at most 1 m apart, nodes included.

    Args:
        places: shape (n, 2), x and y.
        reach_m: edges up to this distance from one of them count.

    Returns:
        Of each landing x and y to the millimetre, the row of its edge, and metres from the start.
    """
    near = np.unique(tree.query(shapely.points(places), predicate="dwithin", distance=reach_m)[1])
    xy, line = shapely.get_coordinates(graph.lines[near], return_index=True)
    steps = np.hypot(*np.diff(xy, axis=0, prepend=0.0).T)
    # All lines are put on one axis, 1 m apart, so that one interpolation suffices for all.
    travelled = np.cumsum(np.where(np.diff(line, prepend=-1) > 0, 1.0, steps))
    first = travelled[np.searchsorted(line, np.arange(len(near)))]
    length = graph.length_m[near]
    parts = np.maximum(np.ceil(length / _SPACING_M), 1).astype(np.int64)
    row = np.repeat(np.arange(len(near)), parts + 1)
    along = ranges(np.zeros_like(parts), parts + 1) / parts[row] * length[row]
    at = first[row] + along
    landings = np.column_stack([np.interp(at, travelled, axis) for axis in xy.T])
    return np.round(landings, DECIMALS), near[row], along


def trace_links(
    starts: Floats,
    goals: Floats,
    *,
    grid: Grid,
    read_road: ReadRoad,
    margin_m: float = _MARGIN_M,
) -> TracedLinks:
    """Find the least-cost path through the raster from each start to its goal.

    The cost of a metre is 1.1 less the probability of road. The straight line is preferred if it
    costs at most a ninth more, or if the raster around has no values but 0 and 1.

    Args:
        starts: shape (k, 2), x and y in metres; paths with the same start share a search.
        goals: shape (k, 2), x and y in metres.
        read_road: reads a window of the raster: probability of any road, 255 for certain. Windows
            lie inside it and are little larger than the links of one start.
        margin_m: by how much a path may leave the box around its ends.

    Source: minimum cost paths by skimage.graph.MCP_Geometric; MaGRoad (WildRoad) links roads by
    paths of least cost over the probability as well. The costs are ours.
    """
    places = np.floor(grid.from_metric(np.concatenate([starts, goals]))).astype(np.int64)
    shape = np.array([grid.height, grid.width])
    pixels = np.clip(places, 0, shape - 1).reshape(2, -1, 2)
    pixel_m = grid.pixel_size_m[::-1]
    margin = np.ceil(margin_m / np.array(pixel_m)).astype(np.int64)
    start = np.unique(starts, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(start, kind="stable")
    low, found = np.zeros((len(starts), 2), dtype=np.int64), dict[int, _Path]()
    for links in np.split(order, np.flatnonzero(np.diff(start[order])) + 1) if len(order) else []:
        ends = pixels[:, links]
        first = np.maximum(ends.min(axis=(0, 1)) - margin, 0)
        stop = np.minimum(ends.max(axis=(0, 1)) + margin + 1, shape)
        road = read_road(Window(*first.tolist(), *(stop - first).tolist()))
        low[links] = first
        laid = _paths(road, ends[0, 0] - first, ends[1] - first, pixel_m)
        found |= zip(links.tolist(), laid, strict=True)
    paths = [found[link] for link in range(len(starts))]
    profiles = np.array([path.profile for path in paths], dtype=np.float64).reshape(-1, 4)
    mean, quarter, lowest_5m, lowest = profiles.T
    return TracedLinks(
        _draw_paths(paths, low, starts, goals, grid),
        np.array([path.cost_m for path in paths], dtype=np.float64),
        mean,
        quarter,
        lowest_5m,
        lowest,
        np.array([path.is_informed for path in paths], dtype=bool),
    )


def _paths(road: Bytes, start: Ints, goals: Ints, pixel_m: tuple[float, float]) -> list[_Path]:
    """Find the paths from one pixel of a window to several others."""
    is_informed = bool(((road > 0) & (road < CERTAIN)).any())
    straight = [
        _straight_path(road, start, goal, pixel_m, is_informed=is_informed) for goal in goals
    ]
    if not is_informed:
        return straight
    # One search from the start serves all its goals.
    search = MCP_Geometric(1 + _STEP_COST - road / CERTAIN, sampling=pixel_m)
    costs, _ = search.find_costs([tuple(start)], goals)
    least = costs[tuple(goals.T)].tolist()
    return [
        _winding_path(road, np.array(search.traceback(goal)), cost, pixel_m)
        if cost < _WORTH * path.cost_m
        else path
        for goal, cost, path in zip(goals, least, straight, strict=True)
    ]


def _straight_path(
    road: Bytes, start: Ints, goal: Ints, pixel_m: tuple[float, float], *, is_informed: bool
) -> _Path:
    step = goal - start
    along = np.linspace(0, 1, int(np.abs(step).max()) + 1)[:, None]
    rows, cols = np.rint(start + along * step).astype(np.int64).T
    profile = _profile(road[rows, cols], max(pixel_m))
    cost_m = float(np.hypot(*(step * pixel_m))) * (1 + _STEP_COST - profile.mean)
    return _Path(np.stack([start, goal]), cost_m, profile, is_informed)


def _winding_path(road: Bytes, pixels: Ints, cost_m: float, pixel_m: tuple[float, float]) -> _Path:
    profile = _profile(road[tuple(pixels.T)], max(pixel_m))
    return _Path(pixels, cost_m, profile, is_informed=True)


def _draw_paths(paths: list[_Path], low: Ints, starts: Floats, goals: Floats, grid: Grid) -> Lines:
    """Convert paths to simplified lines in metres, exactly from start to goal."""
    sizes = np.array([len(path.pixels) for path in paths], dtype=np.int64)
    pixels = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(path.pixels for path in paths)])
    xy = grid.to_metric(pixels + np.repeat(low, sizes, axis=0) + 0.5)
    last = np.cumsum(sizes) - 1
    xy[last - sizes + 1], xy[last] = starts, goals
    tolerance_m = _TOLERANCE_PX * max(grid.pixel_size_m)
    return np.asarray(shapely.simplify(lines_from(xy, sizes), tolerance_m))
