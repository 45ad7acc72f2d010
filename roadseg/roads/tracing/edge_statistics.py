"""EdgeStatistics: probabilities and road widths along the edges of a graph, from a raster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Bools, Bytes, Floats, Floats32, Ints
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN
from roadseg.roads.graph.directions import left_of, unit
from roadseg.roads.graph.road_graph import RoadGraph, sample_points

SPACING_M = 2.0  # Largest distance between the sample points of an edge, metres.
_MOST_HALF_WIDTH_M = 25.0  # Metres; half the width of the widest road, wider is an open space.
_POINTS_AT_ONCE = 200_000  # Sample points that are converted to pixels together.
_STEPS_PER_PIXEL = 2  # Places per pixel that are tested on the way to the side of a road.
_STEPS_AT_ONCE = 16  # Places that are tested together.


@dataclass(frozen=True)
class SamplePoints:
    """Points along edges at which pixels are read.

    Attributes:
        edge: shape (k,), the row of the edge of each point, in ascending order.
        places: shape (k, 2), row and col in the scene.
        sideways: shape (k, 2), step in rows and cols of one metre to the left of the edge.
    """

    edge: NDArray[np.integer]
    places: Floats
    sideways: Floats


class SamplePointGroups(Sequence[SamplePoints]):
    """The sample points of a graph, evenly along its edges at most `SPACING_M` apart, by block.

    A city has millions of them, so each group is made only on access.

    Args:
        graph: roads in the metric CRS of the grid.
        block_px: side of the blocks; blocks without sample points have no group.
    """

    def __init__(self, graph: RoadGraph, grid: Grid, *, block_px: int) -> None:
        """Spread the sample points."""
        self._graph, self._grid = graph, grid
        points, self._edge = sample_points(graph.lines, spacing_m=SPACING_M)
        block = np.empty(len(self._edge), dtype=np.int32)
        last = np.array([grid.height, grid.width]) - 1
        for first in range(0, len(block), _POINTS_AT_ONCE):
            some = slice(first, first + _POINTS_AT_ONCE)
            pixels = np.clip(grid.from_metric(points[some]), 0, last)
            row, col = (pixels // block_px).T
            block[some] = row * (grid.width // block_px + 1) + col
        self._origin = points.min(axis=0, initial=np.inf)
        points -= self._origin
        # Offsets from the corner of the graph are exact to millimetres in float32.
        self._offsets = points.astype(np.float32)
        del points
        order = np.argsort(block, kind="stable").astype(np.int32)
        stops = np.cumsum(np.unique(block, return_counts=True)[1])
        self._rows = np.split(order, stops[:-1]) if len(order) else []

    def __len__(self) -> int:
        """Count the groups."""
        return len(self._rows)

    @overload
    def __getitem__(self, number: int) -> SamplePoints: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[SamplePoints]: ...
    def __getitem__(self, number: int | slice) -> SamplePoints | Sequence[SamplePoints]:
        """Return the sample points of one block."""
        if isinstance(number, slice):
            return [self[i] for i in range(len(self))[number]]
        rows = self._rows[number]
        points = self._points(rows)
        places = self._grid.from_metric(points)
        before, after = (self._neighbour(rows, side) for side in (0, 1))
        left = self._grid.from_metric(points + left_of(unit(after - before)))
        return SamplePoints(self._edge[rows], places, left - places)

    def _points(self, rows: NDArray[np.int32]) -> Floats:
        """Return x and y of some points in metres."""
        return np.asarray(self._origin + self._offsets[rows])

    def _neighbour(self, rows: NDArray[np.int32], side: int) -> Floats:
        """Return the sample point before (0) or after (1) on the same edge, or its end."""
        edge = self._edge[rows]
        other = np.clip(rows + (2 * side - 1), 0, len(self._edge) - 1)
        same = (other != rows) & (self._edge[other] == edge)
        at_end = self._graph.nodes[self._graph.ends[edge, side]]
        return np.where(same[:, None], self._points(other), at_end)


@dataclass(frozen=True)
class EdgeStatistics:
    """Sums and minima of the raster at the sample points of each edge; 255 is certain.

    Attributes:
        edge: shape (e,), rows of the edges with sample points here, in ascending order.
        points: shape (e,), number of sample points.
        road: shape (e,), sum of the probability of any road.
        lowest: shape (e,), lowest probability of any road.
        bins: shape (e, bins), sum of the probability of each speed bin.
        width_edge: shape (w,), row of the edge of each sample point that lies on road.
        width_m: shape (w,), width of the road across the edge there.
    """

    edge: Ints
    points: Ints
    road: Ints
    lowest: Bytes
    bins: Ints
    width_edge: NDArray[np.integer]
    width_m: Floats32

    @property
    def probability(self) -> Floats:
        """Mean probability of any road along each edge, 0 to 1."""
        return np.asarray(self.road / self.points / CERTAIN)

    @property
    def min_probability(self) -> Floats:
        """Lowest probability of any road along each edge, 0 to 1."""
        return np.asarray(self.lowest / CERTAIN)

    @property
    def bin_probability(self) -> Floats:
        """Mean probability of each speed bin along each edge, shape (e, bins), 0 to 1."""
        return np.asarray(self.bins / self.points[:, None] / CERTAIN)

    def median_widths(self) -> Floats:
        """Return the median width of each edge in metres, NaN if it is not known.

        The median ignores junctions, where the way to the side runs along another road.
        """
        order = np.lexsort((self.width_m, self.width_edge))
        first = np.searchsorted(self.width_edge[order], self.edge)
        counts = np.searchsorted(self.width_edge[order], self.edge, side="right") - first
        has_any = counts > 0
        median = np.full(len(self.edge), np.nan)
        median[has_any] = self.width_m[order[(first + counts // 2)[has_any]]]
        return median


def margin_px(grid: Grid) -> int:
    """Return how many pixels around the sample points `sample_edges` needs."""
    return int(np.ceil(_MOST_HALF_WIDTH_M / min(grid.pixel_size_m))) + 1


def sample_edges(
    samples: SamplePoints, road: Bytes, bins: Bytes | None, *, origin: tuple[int, int], level: int
) -> EdgeStatistics:
    """Read pixels and road widths at sample points, and add them up for each edge.

    The width of a road is the distance across the edge, from side to side, without leaving road. A
    distance transform would ignore the direction of the road, and needs square pixels.

    Args:
        samples: sample points that lie in the window, at least one.
        road: probability of any road in a window, shape (row, col), 255 for certain.
        bins: probability of each speed bin there, shape (bin, row, col), or None.
        origin: row and col of the window in the scene.
        level: road where `road` is at least this.
    """
    pixels = np.floor(samples.places - origin).astype(np.int64)
    rows, cols = np.clip(pixels, 0, np.array(road.shape) - 1).T
    values = road[rows, cols]
    # The sample points of an edge follow each other: reduceat sums from each first one on.
    first = np.flatnonzero(np.diff(samples.edge, prepend=-1))
    bin_sums = (
        []
        if bins is None
        else [np.add.reduceat(band[rows, cols], first, dtype=np.int64) for band in bins]
    )
    width_m = _widths(samples, road >= level, origin)
    is_wide = width_m > 0
    return EdgeStatistics(
        edge=samples.edge[first].astype(np.int64),
        points=np.diff(first, append=len(values)),
        road=np.add.reduceat(values, first, dtype=np.int64),
        lowest=np.minimum.reduceat(values, first),
        bins=np.array(bin_sums, dtype=np.int64).reshape(-1, len(first)).T,
        width_edge=samples.edge[is_wide],
        width_m=width_m[is_wide],
    )


def add_up(parts: Sequence[EdgeStatistics], n_edges: int, n_bins: int) -> EdgeStatistics:
    """Add up the statistics of all groups of sample points, in the order of the edges.

    Every edge has a sample point in some group, and all groups have the same number of bins.
    """
    n_bins = parts[0].bins.shape[1] if parts else n_bins
    points, road = np.zeros((2, n_edges), dtype=np.int64)
    lowest = np.full(n_edges, CERTAIN, dtype=np.uint8)
    bins = np.zeros((n_edges, n_bins), dtype=np.int64)
    for part in parts:
        points[part.edge] += part.points
        road[part.edge] += part.road
        bins[part.edge] += part.bins
        lowest[part.edge] = np.minimum(lowest[part.edge], part.lowest)
    width_edge = np.concatenate([np.empty(0, np.int32), *(part.width_edge for part in parts)])
    width_m = np.concatenate([np.empty(0, np.float32), *(part.width_m for part in parts)])
    return EdgeStatistics(np.arange(n_edges), points, road, lowest, bins, width_edge, width_m)


def _widths(samples: SamplePoints, is_road: Bools, origin: tuple[int, int]) -> Floats32:
    """Return the width of the road at sample points, 0 if they are not on road."""
    start = samples.places - origin
    step_m = 1 / (_STEPS_PER_PIXEL * max(np.hypot(*samples.sideways.T).max(initial=0), 1e-9))
    most = int(_MOST_HALF_WIDTH_M / step_m)
    taken = [
        _free_steps(start, side * step_m * samples.sideways, is_road, most=most) for side in (1, -1)
    ]
    return np.asarray((taken[0] + taken[1]) * step_m, dtype=np.float32)


def _free_steps(start: Floats, steps: Floats, is_road: Bools, *, most: int) -> Floats:
    """Count the steps that stay on road, and half of the one that leaves it."""
    # With a frame of background, a step out of the window leaves the road, too.
    framed = np.pad(is_road, 1)
    frame = np.array(framed.shape)[:, None, None] - 1
    taken = np.full(len(start), float(most))
    walking = np.arange(len(start))
    for first in range(0, most + 1, _STEPS_AT_ONCE):
        numbers = np.arange(first, min(first + _STEPS_AT_ONCE, most + 1))
        at = start[walking].T[:, :, None] + numbers * steps[walking].T[:, :, None]
        row, col = np.clip(np.floor(at) + 1, 0, frame).astype(np.int32)
        leaves = ~framed[row, col]
        left = leaves.any(axis=1)
        taken[walking[left]] = np.maximum(first + leaves[left].argmax(axis=1) - 0.5, 0)
        walking = walking[~left]
    return taken
