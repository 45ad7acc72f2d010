"""Path similarity: the mean over all routes of one graph of how well another one has them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.control_points import ControlPoints
from roadseg.roads.graph.road_graph import unique_pairs
from roadseg.roads.graph.shortest_paths import Routes

CELLS_AT_ONCE = 1_000_000  # Cells of a table of routes: 8 MB. Some four tables are held at once.
_SIGMAS = 1.96  # Standard errors to either side of a mean hold 95 % of a normal distribution.


@dataclass(frozen=True)
class Similarity:
    """Mean similarity of the routes of one graph to those of another.

    Attributes:
        score: from 0 (none is there) to 1 (all cost the same); None if there is no route.
        margin: half the width of the 95 % confidence interval of the score; 0 if exact.
        sources: how many of them routes were started from; all if exact.
    """

    score: float | None
    margin: float
    points: int
    sources: int


def mean_similarity(
    source: Routes,
    target: Routes,
    points: ControlPoints,
    snapped: ControlPoints,
    is_snapped: Bools,
    *,
    sampled_points: int | None,
    seed: int,
) -> Similarity:
    """Compare the routes between all control points of a graph with those in another graph.

    Which pairs have a route in either graph follows from the connected parts alone, for all pairs.
    Routes are searched to learn how similar those are that both graphs have, block by block: the
    table of all pairs never exists. With `sampled_points` they start from a simple random sample
    of the points that have any such route; the score then is the share of pairs with both routes
    times the ratio of similarity to routes in the sample, and the margin is that of a ratio.

    Args:
        source: graph of the control points.
        points: k control points in `source`.
        snapped: the same k points in `target`.
        is_snapped: shape (k,), which of them there are in `target`.
        sampled_points: from how many points routes start, 2 or more; None to start from all.

    Source: W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, sections 2.11 and 6.4.
    """
    parts = source.parts(points)
    pairs = int(_others(parts).sum())
    native, other = points.take(is_snapped), snapped.take(is_snapped)
    # Both graphs have a route between points that share a part in the one and in the other.
    _, part_in_both = unique_pairs(np.column_stack([parts[is_snapped], target.parts(other)]))
    goals = _others(part_in_both)
    # Points without such a route have a similarity of 0 with all others, and need no search.
    starts = _starts(goals, sampled_points, seed)
    sources = len(points) if sampled_points is None else len(starts)
    if pairs == 0 or len(starts) == 0:
        return Similarity(0.0 if pairs else None, 0.0, len(points), sources)
    similar = _similar_routes(source, target, native, other, starts)
    share = int(goals.sum()) / pairs
    ratio = float(similar.sum()) / int(goals[starts].sum())
    spread = _standard_error(similar, goals[starts], int(np.count_nonzero(goals)))
    return Similarity(ratio * share, _SIGMAS * spread * share, len(points), sources)


def _others(parts: Ints) -> Ints:
    """Count for each point the other points of its part."""
    _, rows, counts = np.unique(parts, return_inverse=True, return_counts=True)
    return np.asarray(counts[rows.ravel()] - 1, dtype=np.int64)


def _starts(goals: Ints, sampled_points: int | None, seed: int) -> Ints:
    """Return rows of the points where routes start, rising: all that have goals, or a sample."""
    rows = np.flatnonzero(goals)
    if sampled_points is None or len(rows) <= sampled_points:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, sampled_points, replace=False))


def _similar_routes(
    source: Routes, target: Routes, native: ControlPoints, other: ControlPoints, starts: Ints
) -> Floats:
    """Sum for each start the similarity of its routes to all points, shape (starts,)."""
    similar = np.zeros(len(starts))
    width = max(len(native), *source.adjacency.shape, *target.adjacency.shape)
    costs_here, costs_there = source.costs_to(native), target.costs_to(other)
    for block in _blocks(len(starts), width):
        rows = starts[block]
        costs = costs_here(native.take(rows))
        costs[np.arange(len(rows)), rows] = np.inf  # A point and itself are no pair.
        similar[block] = _similarity(costs, costs_there(other.take(rows))).sum(axis=1)
    return similar


def _blocks(count: int, width: int) -> Iterator[slice]:
    """Yield runs of `count` rows that keep `CELLS_AT_ONCE`, one row at least."""
    step = max(1, CELLS_AT_ONCE // width)
    for start in range(0, count, step):
        yield slice(start, start + step)


def _similarity(native: Floats, other: Floats) -> Floats:
    """Return 1 less the relative error of each route, not below 0; 0 if either is infinite.

    A route that costs nothing is 1 or 0: the other one costs nothing too, or something. The values
    are written over `other`, as new tables of this size cost more time than the sums.
    """
    least = np.finfo(np.float64).tiny
    with np.errstate(invalid="ignore", over="ignore"):  # infinite by infinite is no number
        np.abs(np.subtract(native, other, out=other), out=other)
        other /= np.maximum(native, least)
        np.subtract(1, other, out=other)
    return np.fmax(other, 0, out=other)


def _standard_error(similar: Floats, goals: Ints, population: int) -> float:
    """Return the standard error of the ratio of two sums over a sample; 0 if all are drawn."""
    drawn = len(similar)
    if drawn == population:
        return 0.0
    ratio = similar.sum() / goals.sum()
    variance = np.sum((similar - ratio * goals) ** 2) / (drawn - 1)
    return sqrt((1 - drawn / population) * variance / drawn) / float(goals.mean())
