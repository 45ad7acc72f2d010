"""Breaks: where a road of the reference is interrupted in the prediction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import shapely

from roadseg.arrays import Bools, Columns, Floats, Ints
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.directions import unit
from roadseg.roads.graph.groups import begin_runs, connected_groups
from roadseg.roads.graph.road_graph import RoadGraph, find_lines, ranges
from roadseg.roads.graph.shortest_paths import RoadDistances
from roadseg.roads.graph.strokes import strokes
from roadseg.roads.metrics.buffer import check_sides
from roadseg.roads.metrics.canonical import canonical_graph
from roadseg.roads.metrics.matching import SPACING_M, Matches, Samples, match, samples
from roadseg.roads.metrics.pooling import Pooled

_OnEdges = tuple[Ints, Floats]  # Rows of edges, and metres along each from its start.

_LEAST = 5.0  # Tolerances; shorter found stretches may be another road that leaves or crosses.
_DETOUR = 2.0  # A route that is longer than this times the reference's is a detour.
_SLACK = 4.0  # Tolerances; a route may also be longer by this, as its ends may lie aside.
_TOUCHING = 4  # Samples; runs no further apart are compared even if others lie between them.
_SHIFTS = 32  # A run is compared with this many of those that begin after it.


@dataclass(frozen=True)
class Breaks(Pooled):
    """Interruptions of the roads of the reference; add those of all pairs to pool.

    Attributes:
        found_km: length of the parts of it along which the prediction has a road.
    """

    count: int = 0
    reference_km: float = 0.0
    found_km: float = 0.0

    @property
    def per_km(self) -> float | None:
        """Breaks per km of the reference; None if none of it is found, where nothing can break."""
        return self.count / self.reference_km if self.found_km else None


def count_breaks(reference: RoadGraph, predicted: RoadGraph, *, tolerance_m: float = 4.0) -> Breaks:
    """Count how often roads of the reference are interrupted in the prediction.

    1. Roads of the reference are followed straight on across junctions (`strokes`), and looked at
       in the middles of equal parts of at most 5 m.
    2. Such a place is found if a road of the prediction lies within `tolerance_m` and differs in
       direction by less than 45 degrees. A road that crosses finds nothing.
    3. Where a road ends at other roads, it leads on to them: its end is a place too, which is found
       if one of the others is found there.
    4. Found places that follow each other are one stretch if the prediction has a route between
       them that is at most twice as long as the reference's, plus four times the tolerance. A
       stretch that is shorter than five times the tolerance, from its first place to its last, is
       dropped: it may be another road that runs beside this one before it turns off. So a shorter
       road has no breaks.
    5. A road has one break less than the fewest stretches that hold all its found places; one that
       the prediction has just as it is drawn has none.

    So a gap is one break, however long it is, and none if a short route leads around it. A road
    that stops short of the road that it leads to has a break. A road that is missing has none, nor
    has one of which only the dead end is missing: these lower completeness.

    Args:
        predicted: graph to be scored, in the same metric CRS.
        tolerance_m: greatest distance between roads that are the same, above 0.

    Raises:
        ValueError: the CRSs differ, or `tolerance_m` is not above 0.

    Source: the number of gaps per km is a measure of C. Wiedemann, "External evaluation of road
    networks", IAPRS 34 (2003). The rules are ours: places and directions as in TOPO (Biagioni and
    Eriksson, TRR 2291, 2012), and routes around a gap as in APLS.
    """
    check_sides(reference, predicted, tolerance_m)
    # Rule 1: the roads of the reference.
    graph, other = canonical_graph(reference), canonical_graph(predicted)
    lines, node = strokes(graph)
    roads = _Places.along(graph, lines, node)
    # Rules 2 and 3: what of the prediction is beside each place.
    matches = match(roads.samples, other.lines, tolerance_m=tolerance_m)
    runs = _Runs.from_matches(matches, roads)
    # Rule 4: runs are joined to stretches.
    part = _parts(runs, other, slack_m=_SLACK * tolerance_m)
    spans = _Spans.from_runs(runs, part, roads)
    # A road that the prediction has as it is drawn has no breaks, even where it meets itself.
    is_same = find_lines(lines.lines, strokes(other)[0].lines)[0] >= 0
    spans = spans.take(~is_same[spans.road])
    least = round(_LEAST * tolerance_m / SPACING_M)
    # Rule 5: the fewest stretches.
    count = sum(max(_fewest(road, least) - 1, 0) for road in spans.by_road(least))
    return Breaks(count, float(reference.length_m.sum()) / 1000, roads.found_km(matches))


@dataclass(frozen=True)
class _Places:
    """Places along the roads of the reference at which the prediction is looked up.

    Attributes:
        samples: places along roads, then ends of roads at others, in the direction of these.
        number: shape (k,), of each place; they rise along a road, and from road to road. An end
            has one number in all directions.
        road: shape (numbers,), the road that each number belongs to.
        at_m: shape (numbers,), metres from the start of the road.
        is_end: shape (numbers,), which are ends.
        part_km: shape (k,), length that each stands for.
    """

    samples: Samples
    number: Ints
    road: Ints
    at_m: Floats
    is_end: Bools
    part_km: Floats

    @classmethod
    def along(cls, graph: RoadGraph, roads: RoadGraph, node: Ints) -> "_Places":
        """Place samples along the strokes of a graph, and at the ends of these."""
        inner, length = samples(roads.lines), roads.length_m
        counts = np.bincount(inner.line, minlength=len(length))
        # Each road has a number before its samples and one behind, for its ends.
        first = np.cumsum(counts + 2) - (counts + 2)
        ends = np.column_stack([first, first + counts + 1])
        number = inner.line * 2 + 1 + np.arange(len(inner.line))
        at_m, is_end = np.zeros(int((counts + 2).sum())), np.zeros((counts + 2).sum(), dtype=bool)
        at_m[number], at_m[ends[:, 1]], is_end[ends] = inner.along_m, length, True
        # The other edges at the node of an end say in which directions it leads on.
        end, xy, direction = _directions(graph, roads, node)
        both = Samples(
            np.concatenate([inner.xy, xy]),
            np.concatenate([inner.direction, direction]),
            np.concatenate([inner.line, end // 2]),
            np.concatenate([inner.along_m, at_m[ends.ravel()[end]]]),
        )
        part_km = np.append((length / np.maximum(counts, 1))[inner.line] / 1000, np.zeros(len(end)))
        number = np.append(number, ends.ravel()[end])
        road = np.repeat(np.arange(len(length)), counts + 2)
        return cls(both, number, road, at_m, is_end, part_km)

    def found_km(self, matches: Matches) -> float:
        """Return the length of the places that have a match."""
        return float(self.part_km[np.unique(matches.sample)].sum())


def _directions(graph: RoadGraph, roads: RoadGraph, node: Ints) -> tuple[Ints, Floats, Floats]:
    """Return the ends of roads at others, 2 i + k, once for each edge that another road has there.

    Returns:
        The end, its position and the direction of the other edge there, of length 1.
    """
    at_node, away = graph.ends.ravel(), _leaving(graph)
    order = np.argsort(at_node, kind="stable")
    degree = graph.degree
    first = np.cumsum(degree) - degree
    own, at = _leaving(roads), node.ravel()
    end = np.repeat(np.arange(len(at)), degree[at])
    half = order[ranges(first[at], degree[at])]
    # The edge that leaves in the direction of the road is the road itself.
    is_other = np.hypot(*(away[half] - own[end]).T) > 1e-9  # noqa: PLR2004 - rounding
    end, half = end[is_other], half[is_other]
    return end, graph.nodes[at[end]], away[half]


def _leaving(graph: RoadGraph) -> Floats:
    """Return the direction in which each edge leaves both its nodes, shape (2 m, 2), length 1."""
    first, second, before, last = (
        shapely.get_coordinates(shapely.get_point(graph.lines, nth)) for nth in (0, 1, -2, -1)
    )
    vectors = np.stack([second - first, before - last], axis=1).reshape(-1, 2)
    return unit(vectors)


@dataclass(frozen=True)
class _Runs:
    """Places of a road that follow each other and have the same edge of the prediction.

    Attributes:
        edge: shape (r,), the row of this edge.
        first: shape (r,), the number of the first place; runs are sorted by it.
        last: shape (r,), the number of the last one.
        row: shape (r,), where in `along_m` the first place is.
        road: shape (r,), the row of the road.
        along_m: where on the edge each place of each run is, metres from its start.
        at_m: where on its road each number is.
    """

    edge: Ints
    first: Ints
    last: Ints
    row: Ints
    road: Ints
    along_m: Floats
    at_m: Floats

    @classmethod
    def from_matches(cls, matches: Matches, places: _Places) -> "_Runs":
        """Join matches to runs."""
        number = places.number[matches.sample]
        order = np.lexsort([matches.distance_m, number, matches.line])
        number, edge, along = number[order], matches.line[order], matches.along_m[order]
        # An end has several directions, and the nearest match of an edge counts.
        once = begin_runs(number, edge)
        number, edge, along = number[once], edge[once], along[once]
        road = places.road[number]
        begins = begin_runs(edge, road) | (np.diff(number, prepend=-1) != 1)
        # An edge that comes back has a run for each time it passes.
        metres = np.abs(np.diff(along)) - _DETOUR * np.abs(np.diff(places.at_m[number]))
        begins[1:] |= metres > SPACING_M * _DETOUR
        row = np.flatnonzero(begins)
        last = np.append(row[1:], len(number)) - 1
        order = np.lexsort([edge[row], number[row]])
        row, last = row[order], last[order]
        return cls(edge[row], number[row], number[last], row, road[row], along, places.at_m)

    def place(self, run: Ints, number: Ints) -> _OnEdges:
        """Return the edges of runs, and how far along them places of these runs lie."""
        return self.edge[run], self.along_m[self.row[run] + number - self.first[run]]


def _parts(runs: _Runs, graph: RoadGraph, *, slack_m: float) -> Ints:
    """Number the stretches that runs belong to, shape (r,)."""
    here, there = _neighbours(runs)
    is_joined = np.zeros(len(here), dtype=bool)
    # Runs side by side are joined if they are at the first place of the later, or at the last.
    for at_end in (False, True):
        rows = np.flatnonzero(~is_joined)
        one, two = here[rows], there[rows]
        goal = np.minimum(runs.last[one], runs.last[two]) if at_end else runs.first[two]
        goal = np.maximum(goal, runs.first[two])
        start = np.minimum(runs.last[one], goal)
        most_m = _DETOUR * (runs.at_m[goal] - runs.at_m[start]) + slack_m
        places = runs.place(one, start), runs.place(two, goal)
        is_joined[rows] = _are_joined(graph, *places, most_m)
    return connected_groups(np.column_stack([here, there])[is_joined], nodes=len(runs.edge))


def _neighbours(runs: _Runs) -> tuple[Ints, Ints]:
    """Return pairs of runs of a road that touch, and each with what reaches furthest before it."""
    count = len(runs.edge)
    pairs = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for shift in range(1, min(_SHIFTS + 1, count)):
        here = np.arange(count - shift)
        touches = runs.first[here + shift] - runs.last[here] <= _TOUCHING
        here = here[touches & (runs.road[here] == runs.road[here + shift])]
        pairs.append((here, here + shift))
    # Numbers rise from road to road: the largest so far is on the same road, or there is none.
    furthest = np.maximum.accumulate(runs.last)
    is_new = np.diff(furthest, prepend=-1) > 0
    before = np.maximum.accumulate(np.where(is_new, np.arange(count), 0))[:-1]
    same = runs.road[before] == runs.road[1:]
    pairs.append((before[same], np.arange(1, count)[same]))
    here, there = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return here, there


def _are_joined(graph: RoadGraph, starts: _OnEdges, goals: _OnEdges, most_m: Floats) -> Bools:
    """Return which places a route of at most `most_m` joins, shape (k,)."""
    (edge, along), (other, away) = starts, goals
    ends, length_m, part = graph.ends, graph.length_m, components(graph)
    is_joined = np.asarray((edge == other) & (np.abs(along - away) <= most_m))
    # Metres from each place to both ends of its edge.
    here = np.column_stack([along, length_m[edge] - along])
    there = np.column_stack([away, length_m[other] - away])
    for one, two in np.ndindex(2, 2):
        meets = ends[edge, one] == ends[other, two]
        is_joined |= meets & (here[:, one] + there[:, two] <= most_m)
    rest = ~is_joined & (part[ends[edge, 0]] == part[ends[other, 0]])
    # A route of the length of straight lines between ends has to be short enough.
    gap = graph.nodes[ends[edge]][:, :, None] - graph.nodes[ends[other]][:, None]
    least = here[:, :, None] + np.hypot(gap[..., 0], gap[..., 1]) + there[:, None]
    rows = np.flatnonzero(rest & (least.min(axis=(1, 2)) <= most_m))
    if len(rows):
        nodes, start = np.unique(ends[edge[rows]].T, return_inverse=True)
        start, goal = start.reshape(2, -1), ends[other[rows]].T
        limit_m = np.zeros(len(nodes))
        np.maximum.at(limit_m, start.ravel(), np.tile(most_m[rows], 2))
        distances = RoadDistances(graph, nodes, limit_m)
        for one, two in np.ndindex(2, 2):
            metres = here[rows, one] + distances.metres(start[one], goal[two])
            is_joined[rows] |= metres + there[rows, two] <= most_m[rows]
    return is_joined


@dataclass(frozen=True)
class _Spans(Columns):
    """The first and last place of each stretch, by number and sorted by the first; shape (s,) each.

    Attributes:
        leads: whether one of these is an end of the road, where it meets others.
    """

    road: Ints
    first: Ints
    last: Ints
    leads: Bools

    @classmethod
    def from_runs(cls, runs: _Runs, part: Ints, places: _Places) -> "_Spans":
        order = np.lexsort([runs.first, part])
        begins = np.flatnonzero(np.diff(part[order], prepend=-1) != 0)
        first = runs.first[order][begins]
        last = np.maximum.reduceat(runs.last[order], begins) if len(begins) else first
        leads = places.is_end[first] | places.is_end[last]
        road = runs.road[order][begins]
        return cls(road, first, last, leads).take(np.lexsort([last, first]))

    def by_road(self, least: int) -> Iterator[list[tuple[int, int, bool]]]:
        """Yield the spans of each road that has several, one of them long enough at least."""
        spans = list(zip(self.first.tolist(), self.last.tolist(), self.leads.tolist(), strict=True))
        bounds = np.flatnonzero(np.diff(self.road, prepend=-1, append=-1))
        is_long = np.append(0, np.cumsum(self.last - self.first >= least))
        for start, stop in pairwise(bounds.tolist()):
            if stop - start > 1 and is_long[stop] > is_long[start]:
                yield spans[start:stop]


def _fewest(spans: Sequence[tuple[int, int, bool]], least: int) -> int:
    """Return the least number of stretches, sorted by their start, that hold the places of all.

    A stretch is needed if it adds more than `least` numbers, or an end that leads on.
    """
    needed, reach, row = 0, -1, 0
    while row < len(spans):
        begin = max(spans[row][0], reach + 1)
        last, leads = reach, False
        while row < len(spans) and spans[row][0] <= begin:
            last, leads = max((last, leads), spans[row][1:])
            row += 1
        if last - max(begin - 1, reach) > least or (last > reach and leads):
            needed, reach = needed + 1, last
    return needed
