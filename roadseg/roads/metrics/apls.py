"""APLS: compare a predicted road graph with the reference by the routes through them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any

import numpy as np

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph, find_lines, require_one_crs, unique_pairs
from roadseg.roads.graph.shortest_paths import (
    ControlPoints,
    Routes,
    Weight,
    edge_costs,
    place_control_points,
    snap_to_edges,
)
from roadseg.roads.metrics.canonical import canonical_graph

EXACT_POINTS = 10_000  # Up to this many control points, routes start from every one.
SAMPLED_POINTS = 1_000  # Control points from which routes start in a larger graph.
_SEED = 0  # Of the draw.
CELLS_AT_ONCE = 1_000_000  # Cells of a table of routes: 8 MB. Some four tables are held at once.
_SIGMAS = 1.96  # Standard errors to either side of a mean hold 95 % of a normal distribution.


@dataclass(frozen=True)
class Apls:
    """Average path length similarity, from 0 (no route is right) to 1 (every one is).

    Attributes:
        score: harmonic mean of both directions, 0 if either is 0.
        reference_to_predicted: how far the prediction has the routes of the reference (complete?).
        predicted_to_reference: how far the reference has the routes of the prediction (correct?).
        score_margin: half the width of the 95 % confidence interval of `score`; 0 if exact.
        reference_points: control points of the reference.
        predicted_points: control points of the prediction.
        reference_sources: from how many of them routes start, all unless sampled.
        predicted_sources: the same of the prediction.
    """

    score: float
    reference_to_predicted: float
    predicted_to_reference: float
    score_margin: float = 0.0
    reference_points: int = 0
    predicted_points: int = 0
    reference_sources: int = 0
    predicted_sources: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the 95 % confidence interval of the score; both are the score if exact."""
        return max(0.0, self.score - self.score_margin), min(1.0, self.score + self.score_margin)


def apls_by(
    weights: Sequence[Weight],
    reference: RoadGraph,
    predicted: RoadGraph | None,
    *,
    spacing_m: float = 50.0,
    snap_m: float = 4.0,
) -> list[Apls]:
    """Score how alike the shortest routes of two road graphs are, by several costs of a route.

    Control points are all junctions and ends of roads and evenly spaced points between them
    (`place_control_points`). Each is snapped to the nearest edge of the other graph, of several
    equally near to the one that is drawn like its own, and is missing there if that is further away
    than `snap_m`. Every ordered pair of different control points with a route of cost L between
    them in their own graph counts min(1, |L - L'| / L), L' being the cost between the snapped
    points; 1 if one of them is missing or no route joins them; and if L is 0, then 0 if L' is 0
    too, else 1. A direction scores 1 minus the mean over its pairs.

    A graph without any such pair is empty: two empty graphs score 1, an empty and another 0, in
    both directions. A prediction that is missing (None) scores 0 against anything.

    It does not matter where a road is cut into edges, in which direction or order edges and nodes
    are given, nor if an edge is given twice (`canonical.canonical_graph`). Loops and parallel
    edges count. Roads that cross without a node stay unconnected.

    Routes start from all control points of a graph that has no more than `EXACT_POINTS`, else from
    `SAMPLED_POINTS` of them, drawn without replacement; goals are all in either case. Which pairs
    have routes is never sampled, only how similar these are (`mean_similarity`).
    The margin of the score is what it changes by, to first order, when both directions are off by
    theirs: samples of graphs that are alike err alike.

    Args:
        weights: costs of a route: metres, or seconds from the column `travel_time_s` of the edges'
            attributes (zero or more). Spacing and snapping are in metres either way; the seconds
            of a part of a road between two junctions are in proportion to its length.
        predicted: graph to be scored, in the same metric CRS; None if there is none.
        spacing_m: greatest distance between control points on an edge, above 0; an edge of
            0.75 `spacing_m` up to and including 2 `spacing_m` gets one in its middle.
        snap_m: greatest distance of a control point from the other graph, itself included; above
            0.

    Returns:
        A score for each weight; the control points are placed once.

    Raises:
        ValueError: the CRSs differ, a distance is not above 0, or the edges of a graph lack
            `travel_time_s` or have one that is negative or not finite.

    Source: APLS of Van Etten, Lindenbaum, Bacastow, "SpaceNet: A Remote Sensing Dataset and
    Challenge Series" (2018), as in the SpaceNet 3 scorer and CosmiQ/apls. Unlike that code we
    measure in planar metres, keep loops, parallel edges and short components, split no edge (a part
    keeps the speed of its own edge), let no control point replace another, have a score for empty
    graphs, and never leave out the points between junctions.
    """
    if not (spacing_m > 0 and snap_m > 0):
        raise ValueError(f"spacing_m and snap_m must be above 0, got {spacing_m} and {snap_m}")
    for weight in weights:
        edge_costs(reference, weight)
    if predicted is None:
        return [Apls(0.0, 0.0, 0.0) for _ in weights]
    require_one_crs(reference, predicted)
    for weight in weights:
        edge_costs(predicted, weight)
    graphs = canonical_graph(reference), canonical_graph(predicted)
    # Control points and where they snap to depend on lengths only, not on the weight.
    placed = [_place_and_snap(*pair, spacing_m, snap_m) for pair in (graphs, graphs[::-1])]
    scores = []
    for weight in weights:
        routes = Routes.through(graphs[0], weight), Routes.through(graphs[1], weight)
        there, back = (
            mean_similarity(here, other, *points)
            for (here, other), points in zip((routes, routes[::-1]), placed, strict=True)
        )
        scores.append(_join_directions(there, back))
    return scores


def apls(
    reference: RoadGraph,
    predicted: RoadGraph | None,
    *,
    weight: Weight = "length_m",
    **options: Any,  # noqa: ANN401 - those of `apls_by`
) -> Apls:
    """Return the score by one weight; see `apls_by`."""
    (score,) = apls_by([weight], reference, predicted, **options)
    return score


def pool_apls(scores: Sequence[Apls]) -> Apls:
    """Return the mean over pairs of graphs, each number by itself, as SpaceNet scores a city.

    Control points and sources add up. The mean over no pairs is a score of 1.
    """
    if not scores:
        return Apls(1.0, 1.0, 1.0)

    def pooled(name: str) -> Any:  # noqa: ANN401 - a number of the type of the field
        values = [getattr(score, name) for score in scores]
        if name == "score_margin":
            # Errors of different pairs are independent, so that their squares add up.
            return float(np.linalg.norm(values)) / len(values)
        return sum(values) if name.endswith(("_points", "_sources")) else float(np.mean(values))

    return Apls(**{each.name: pooled(each.name) for each in fields(Apls)})


@dataclass(frozen=True)
class Similarity:
    """Mean similarity of the routes of one graph to those of another.

    Attributes:
        score: from 0 (none is there) to 1 (all cost the same); None if there is no route.
        margin: half the width of the 95 % confidence interval of the score; 0 if exact.
        points: control points of the graph.
        sources: from how many of them routes start; all if exact.
    """

    score: float | None
    margin: float
    points: int
    sources: int


def _place_and_snap(
    graph: RoadGraph, other: RoadGraph, spacing_m: float, snap_m: float
) -> tuple[ControlPoints, ControlPoints, Bools]:
    """Return the control points of a graph, where they are in another, and which are there."""
    points, xy = place_control_points(graph, spacing_m=spacing_m)
    snapped, is_near = snap_to_edges(xy, other, snap_m=snap_m)
    # Where roads cross without a node or overlap, a position alone does not say on which it is.
    edge, turned = (column[points.edge] for column in find_lines(graph.lines, other.lines))
    fraction = np.where(turned, 1 - points.fraction, points.fraction)
    own = ControlPoints(
        np.where(edge < 0, snapped.edge, edge), np.where(edge < 0, snapped.fraction, fraction)
    )
    return points, own, is_near


def _join_directions(there: Similarity, back: Similarity) -> Apls:
    """Join both directions to the score."""
    counts = there.points, back.points, there.sources, back.sources
    a, b = there.score, back.score
    if a is None or b is None:
        score = float(a is None and b is None)
        return Apls(score, score, score, 0.0, *counts)
    if a + b == 0:
        return Apls(0.0, a, b, 0.0, *counts)
    # The first-order change of the harmonic mean if both directions are off by their margins.
    margin = 2 * (b * b * there.margin + a * a * back.margin) / (a + b) ** 2
    return Apls(2 * a * b / (a + b), a, b, margin, *counts)


def mean_similarity(
    source: Routes,
    target: Routes,
    points: ControlPoints,
    snapped: ControlPoints,
    is_snapped: Bools,
) -> Similarity:
    """Compare the routes between all control points of a graph with those in another graph.

    Which pairs have a route in either graph follows from the connected parts alone, for all pairs.
    Routes are searched to learn how similar those are that both graphs have, block by block: the
    table of all pairs never exists. Of more than `EXACT_POINTS` they start from a simple random
    sample of the points that have any such route; the score then is the share of pairs with both
    routes times the ratio of similarity to routes in the sample, and the margin is that of a ratio.

    Args:
        points: k control points in `source`.
        snapped: the same k points in `target`.
        is_snapped: shape (k,), which of them are near enough to an edge of `target`.

    Source: W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, sections 2.11 and 6.4.
    """
    parts = source.parts(points)
    pairs = int(_others(parts).sum())
    native, other = points.take(is_snapped), snapped.take(is_snapped)
    # Both graphs have a route between points that share a part in the one and in the other.
    _, part_in_both = unique_pairs(np.column_stack([parts[is_snapped], target.parts(other)]))
    goals = _others(part_in_both)
    # Points without such a route have a similarity of 0 with all others, and need no search.
    is_exact = len(points) <= EXACT_POINTS
    starts = _starts(goals, is_exact=is_exact)
    sources = len(points) if is_exact else len(starts)
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


def _starts(goals: Ints, *, is_exact: bool) -> Ints:
    """Return rows of the points where routes start, rising: all that have goals, or a sample."""
    rows = np.flatnonzero(goals)
    if is_exact or len(rows) <= SAMPLED_POINTS:
        return rows
    return np.sort(np.random.default_rng(_SEED).choice(rows, SAMPLED_POINTS, replace=False))


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
        costs[np.arange(len(rows)), rows] = np.inf  # A point and itself are not a pair.
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
    with np.errstate(invalid="ignore", over="ignore"):  # infinite by infinite is not a number
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
