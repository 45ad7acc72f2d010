"""Topo: how alike two road graphs are around many places, by Sat2Graph's marbles and holes."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import shapely
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial import cKDTree

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.marbles import (
    METRE,
    METRES_PER_DEGREE,
    Marble,
    Network,
    Place,
    apart,
    networks,
)
from roadseg.roads.metrics.pooling import harmonic_mean

_START_SPACING = 50 * METRE  # Degrees between starts.
_SNAP = 10 * METRE  # Degrees from a start to its segment, and from a marble to its hole, at most.
_START_ANGLE = 0.04  # Greatest 1 - |cos| of the directions at a start, which is 16 degrees.
_ANGLE = 0.29  # The same for a marble and a hole, which is 45 degrees.
_NARROW = math.cos(math.radians(40))  # Width of a degree of longitude, for directions.
_APART = 20 * METRE  # Degrees between starts that both count, along the roads of the prediction.
_REACH = 30 * METRE  # Degrees within which such other starts are looked for.
_GOOD = 0.9  # A start with this precision counts however near others are.
_SECOND = 1 * METRE  # Degrees by which the hole for the other direction of a road is displaced.
_ON = 1e-9  # Degrees, which are 0.1 mm; a start this near to a road lies on it.
_BORDER = 0.07  # Share of the region on each side that has no starts.
_REGION_M = (300.0, 500.0)  # Metres around all vertices: north and south, east and west.
_THROUGH = 2  # Neighbours of a vertex inside a chain.
_STARTS_AT_ONCE = 256  # Marbles and holes of this many starts are matched together.


@dataclass(frozen=True)
class Topo:
    """Agreement around the starts, all from 0 to 1 but the counts.

    Attributes:
        precision: mean share of marbles (points of the prediction) that have a hole.
        matched_recall: mean share of holes (points of the reference) that have a marble, at the
            starts that count.
        coverage: starts that count, of all.
        recall: `matched_recall` times `coverage`; the source's overall recall.
    """

    precision: float
    matched_recall: float
    coverage: float
    recall: float
    starts: int
    counted: int

    @property
    def f1(self) -> float:
        """Harmonic mean of `precision` and `recall`, 0 if both are."""
        return harmonic_mean(self.precision, self.recall)


def topo(reference: RoadGraph, predicted: RoadGraph, *, radius_m: float = 150.0) -> Topo:
    """Score how alike two road graphs are within a distance by road of many places.

    1. Starts are spread over the chains of the reference, one in about 50 m, none on one shorter
       than 25 m or on a ring without a junction.
    2. A start belongs to the nearest segment of the prediction that is less than 10 m away and
       turned by less than 16 degrees.
    3. From there marbles are laid every 5 m along the prediction up to `radius_m`, and holes along
       the reference.
    4. A marble fits a hole less than 10 m away and turned by less than 45 degrees.
    5. Recall matches holes and marbles one to one; so does precision, but with two holes a place,
       as every road has two directions.
    6. Of starts less than 20 m apart in the prediction the best counts, and all whose precision is
       0.9 or more.

    All these distances, `radius_m` among them, are in the metres of the source, 1e-5 of a degree:
    1.11 m. A reference without a start is empty: it scores 1 against a prediction without any,
    else 0.

    As in the source, vertices cut the roads into segments, the segment of a start has marbles over
    all its length, and what is exactly at `radius_m` is a matter of rounding: the order of the
    lines, their direction, a shift by millimetres or a vertex more may change recall by up to
    0.002. The table of nodes does not matter, and neither does splitting an edge at a vertex.
    Unlike the source, a start on a road of the prediction takes the segment most like its own, so
    that equal graphs score 1, and a start without a match counts 0 and is not an error.

    Args:
        reference: graph of the labels; chains need not be merged.
        predicted: graph to be scored, in the same metric CRS.
        radius_m: 150 as in SAM-Road's score of SpaceNet, 300 in that of cities of 2 km.

    Raises:
        ValueError: the CRSs differ, a coordinate is not finite, or `radius_m` is not above 0.

    Source: metrics/topo of Sat2Graph (He et al., ECCV 2020) as in SAM-Road (Hetang et al., CVPRW
    2024), reimplemented; the measure is of Biagioni and Eriksson, "Inferring Road Maps from GPS
    Traces", TRR 2291 (2012).
    """
    if not radius_m > 0:
        raise ValueError(f"radius_m must be above 0, got {radius_m}")
    network, other = networks(reference, predicted)
    region = _region(network, other)
    # Rule 1: starts are spread over the reference.
    starts = _starts(network, region)
    if not starts:
        same = float(not _starts(other, region))
        return Topo(same, same, same, same, 0, 0)
    # Rule 2: some of them have a place in the prediction.
    rows, places = _pairs(network, starts, other)
    # Rules 3 to 5: marbles and holes around these are matched.
    results = [
        result
        for block in range(0, len(rows), _STARTS_AT_ONCE)
        for result in _match_around(
            network,
            [starts[row] for row in rows[block : block + _STARTS_AT_ONCE]],
            other,
            places[block : block + _STARTS_AT_ONCE],
            radius_m * METRE,
        )
    ]
    # Rule 6: of starts close together one counts.
    return _summary(results, len(starts), other)


class _Result(NamedTuple):
    """Precision and recall around a start, and its place in the prediction."""

    place: Place
    precision: float
    recall: float


def _region(network: Network, other: Network) -> tuple[float, float, float, float]:
    """Return south, west, north and east of what the source takes for the region."""
    north, east = (margin / METRES_PER_DEGREE for margin in _REGION_M)
    lat, lon = np.array([*network.places, *other.places, (41.0, -71.0)]).T
    return float(lat.min()) - north, -71.0 - east, 41.0 + north, float(lon.max()) + east


def _starts(network: Network, region: tuple[float, float, float, float]) -> list[Place]:
    south, west, north, east = region
    high, wide = _BORDER * (north - south), _BORDER * (east - west)
    return [
        place
        for chain in _chains(network)
        for place in _spread(network, chain)
        if min(place.lat - south, north - place.lat) > high
        and min(place.lon - west, east - place.lon) > wide
    ]


def _chains(network: Network) -> Iterator[list[int]]:
    """Yield the chains between vertices that do not have two neighbours.

    As in the source, a chain of one segment is met from both of its ends, and counts twice.
    """
    inner: set[int] = set()
    for vertex in network.order:
        if vertex in inner or len(network.around[vertex]) == _THROUGH:
            continue
        for near in network.around[vertex]:
            if near not in inner:
                chain = [vertex, near]
                while len(network.around[chain[-1]]) == _THROUGH:
                    left, right = network.around[chain[-1]]
                    chain.append(right if chain[-2] == left else left)
                inner.update(chain[1:-1])
                yield chain


def _spread(network: Network, chain: list[int]) -> Iterator[Place]:
    """Yield the starts of a chain; one that lies on a vertex belongs to both segments."""
    places = [network.places[vertex] for vertex in chain]
    lengths = [apart(here, there) for here, there in pairwise(places)]
    upto = [0.0]
    for length in lengths:
        upto.append(upto[-1] + length)
    # Starts divide the chain evenly, without its ends.
    count = 0 if upto[-1] < _START_SPACING / 2 else max(int(upto[-1] / _START_SPACING), 1)
    for nth in range(count):
        at = (nth + 1) / (count + 1) * upto[-1]
        first, behind = bisect_left(upto, at) - 1, bisect_right(upto, at)
        for row in range(max(first, 0), min(behind, len(lengths))):
            before, after = upto[row : row + 2]
            part = (at - before) / (after - before)
            lat, lon = (
                (1 - part) * here + part * there
                for here, there in zip(places[row], places[row + 1], strict=True)
            )
            yield Place(chain[row], chain[row + 1], at - before, after - at, lat, lon)


def _pairs(network: Network, starts: list[Place], other: Network) -> tuple[list[int], list[Place]]:
    """Return the rows of the starts that the prediction has, and their places there."""
    ends = np.array([(near, far) for near, around in enumerate(other.around) for far in around])
    if len(ends) == 0:
        return [], []
    theirs = np.array(other.places)[ends]
    ours = np.array(network.places)[[(place.start, place.goal) for place in starts]]
    at = np.array([(place.lat, place.lon) for place in starts])
    # Boxes of twice the distance hold all segments that may be near enough.
    boxes = shapely.box(*(at - 2 * _SNAP).T, *(at + 2 * _SNAP).T)
    row, segment = shapely.STRtree(shapely.linestrings(theirs)).query(boxes)
    wide = np.array([math.cos(math.radians(lat)) for lat in theirs[:, 0, 0].tolist()])
    distance = _to_segment(theirs[segment], at[row], wide[segment])
    unlike = np.abs(theirs[segment] - ours[row]).sum(axis=(1, 2))
    theirs_to, ours_to = theirs[:, 1] - theirs[:, 0], ours[:, 1] - ours[:, 0]
    turned = _turned(theirs_to[segment], ours_to[row])
    chosen = _nearest(row, segment, distance, unlike, turned)
    matched = [starts[start] for start in row[chosen].tolist()]
    is_own = (unlike[chosen] == 0).tolist()
    places = zip(ends[segment[chosen]].tolist(), matched, is_own, strict=True)
    return row[chosen].tolist(), [
        place._replace(start=start, goal=goal) if own else _on(other, start, goal, place)
        for (start, goal), place, own in places
    ]


def _nearest(row: Ints, segment: Ints, distance: Floats, unlike: Floats, turned: Floats) -> Ints:
    """Choose the nearest segment for each start; of those it lies on the one most like its own."""
    is_on = distance < _ON
    keys = segment, np.where(is_on, unlike, 0), np.where(is_on, 0, distance), row
    # The first segment of each start in this order is the best one.
    order = np.lexsort(keys)
    order = order[(distance < _SNAP)[order] & (turned < _START_ANGLE)[order]]
    return np.asarray(order[np.unique(row[order], return_index=True)[1]])


def _on(network: Network, start: int, goal: int, place: Place) -> Place:
    """Return a place as one on a segment of another network, as far from its ends as it is."""
    at = (place.lat, place.lon)
    near, far = (apart(network.places[vertex], at) for vertex in (start, goal))
    return Place(start, goal, near, far, *at)


def _to_segment(ends: Floats, places: Floats, wide: Floats) -> Floats:
    """Return the distance in degrees of places from segments, shape (k, 2, 2).

    `wide` is the width of a degree of longitude.
    """
    scale = np.column_stack([np.ones(len(wide)), wide])
    goal, place = (ends[:, 1] - ends[:, 0]) * scale, (places - ends[:, 0]) * scale
    length = _length(goal)
    along = (goal * place).sum(axis=1) / length
    foot = (along / length)[:, None] * goal
    foot = np.where((along > length)[:, None], goal, np.where((along < 0)[:, None], 0, foot))
    return _length(place - foot)


def _length(vectors: Floats) -> Floats:
    north, east = vectors.T
    return np.asarray(np.sqrt(north * north + east * east))


def _turned(one: Floats, other: Floats) -> Floats:
    """Return 1 - |cos| of the angle between directions, shape (k, 2)."""
    scale = np.array([1.0, _NARROW])
    one, other = one * scale, other * scale
    cosine = (one * other).sum(axis=1) / (_length(one) * _length(other))
    return np.asarray(1 - np.abs(cosine))


def _match_around(
    network: Network,
    starts: list[Place],
    other: Network,
    places: list[Place],
    radius: float,
) -> list[_Result]:
    """Match marbles and holes around all starts."""
    # Rule 3: marbles lie along the prediction, holes along the reference.
    holes = _Points.laid(network, [network.walk(place, radius) for place in starts])
    marbles = _Points.laid(other, [other.walk(place, radius) for place in places])
    n = len(starts)
    # Rule 5: for precision there are two holes a place.
    precision = marbles.fitting(holes.doubled(), n) / np.bincount(marbles.start, minlength=n)
    recall = holes.fitting(marbles, n) / np.bincount(holes.start, minlength=n)
    return [
        _Result(place, *shares)
        for place, *shares in zip(places, precision.tolist(), recall.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class _Points:
    """Marbles or holes of all starts.

    Attributes:
        start: shape (k,), the start that each belongs to.
        at: shape (k, 2), latitude and longitude.
        direction: shape (k, 2), of its segment.
    """

    start: Ints
    at: Floats
    direction: Floats

    @classmethod
    def laid(cls, network: Network, walks: list[list[Marble]]) -> "_Points":
        start = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
        table = np.array([laid for walk in walks for laid in walk]).reshape(-1, 3)
        places = np.array(network.places).reshape(-1, 2)
        here, there = (places[table[:, side].astype(np.int64)] for side in (0, 1))
        part = table[:, 2:]
        return cls(start, there * part + here * (1 - part), there - here)

    def doubled(self) -> "_Points":
        """Return the points with another beside each."""
        return _Points(
            np.concatenate([self.start, self.start]),
            np.concatenate([self.at, self.at + _SECOND]),
            np.concatenate([self.direction, self.direction]),
        )

    def fitting(self, others: "_Points", starts: int) -> Ints:
        """Count the points of each start that can have one of the others each, all at once."""
        # In three dimensions the points of different starts are out of reach of each other.
        near, far = (
            cKDTree(np.column_stack([points.at[:, 0], points.at[:, 1] * _NARROW, points.start]))
            for points in (self, others)
        )
        pairs = near.sparse_distance_matrix(far, 1.5 * _SNAP, output_type="ndarray")
        own, other = pairs["i"], pairs["j"]
        offset = self.at[own] - others.at[other]
        offset[:, 1] *= np.cos(np.radians(self.at[own, 0]))
        turned = _turned(self.direction[own], others.direction[other])
        # Rule 4: a marble fits a hole that is near and has about its direction.
        fits = (_length(offset) < _SNAP) & (turned < _ANGLE)
        return count_matched(own[fits], other[fits], self.start, starts)


def count_matched(own: Ints, other: Ints, start: Ints, starts: int) -> Ints:
    """Return the size of the largest matching of each start, shape (starts,).

    Args:
        own: shape (pairs,), points that fit.
        other: the points that they fit, of the same start.
        start: of each of the points in `own`.
    """
    # In the order of both, the first choices along a straight road are nearly the largest matching.
    order = np.lexsort((other, own))
    own, other = own[order], other[order]
    # One start at a time: on a large graph of several, the matching of scipy may take hours.
    ends = np.searchsorted(start[own], np.arange(starts + 1))
    return np.array(
        [_matching(own[low:high], other[low:high]) for low, high in pairwise(ends.tolist())],
        dtype=np.int64,
    )


def _matching(own: Ints, other: Ints) -> int:
    """Return the size of the largest matching of some pairs, in the order of `own`."""
    if not len(own):
        return 0
    rows, columns = own - own[0], np.unique(other, return_inverse=True)[1]
    starts = np.searchsorted(rows, np.arange(rows[-1] + 2))
    graph = csr_array((np.ones(len(rows), dtype=np.int8), columns, starts))
    return int(np.count_nonzero(maximum_bipartite_matching(graph, perm_type="column") >= 0))


def _summary(results: list[_Result], starts: int, other: Network) -> Topo:
    kept = _one_to_one(results, other)
    if not kept:
        return Topo(0.0, 0.0, 0.0, 0.0, starts, 0)
    precision = sum(result.precision for result in kept) / len(kept)
    recall = sum(result.recall for result in kept) / len(kept)
    coverage = len(kept) / starts
    return Topo(precision, recall, coverage, recall * coverage, starts, len(kept))


def _one_to_one(results: list[_Result], other: Network) -> list[_Result]:
    """Drop starts that lie less than 20 m from a better one in the prediction, by rule 6."""
    # From the best start on, each takes the room of those around it.
    order = sorted(range(len(results)), key=lambda row: results[row].precision)
    at = np.array([(result.place.lat, result.place.lon) for result in results]).reshape(-1, 2)
    kept, taken = [], set[int]()
    for row in reversed(order):
        if row in taken and results[row].precision < _GOOD:
            continue
        kept.append(results[row])
        taken.update(_rivals(results, row, at, other))
    return kept


def _rivals(results: list[_Result], row: int, at: Floats, other: Network) -> list[int]:
    """Return the starts less than 20 m away along the roads of the prediction."""
    place = results[row].place
    wide = _REACH / math.cos(math.radians(place.lat))
    north, east = np.abs(at - at[row]).T
    near = np.flatnonzero((north <= _REACH + METRE / 10) & (east <= wide + METRE / 10))
    entered = other.reach(place, _REACH)
    return [
        rival for rival in near.tolist() if _by_road(place, results[rival].place, entered) < _APART
    ]


def _by_road(place: Place, rival: Place, entered: dict[tuple[int, int], float]) -> float:
    ends, others = (place.start, place.goal), (rival.start, rival.goal)
    if ends == others:
        return abs(place.from_start - rival.from_start)
    if ends == others[::-1]:
        return abs(place.from_start - rival.from_goal)
    return min(
        entered.get(others, math.inf) + rival.from_start,
        entered.get(others[::-1], math.inf) + rival.from_goal,
    )
