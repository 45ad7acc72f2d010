"""Sat2GraphApls: the measure that Sat2Graph and SAM-Road report as APLS; not SpaceNet's."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import shapely
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph, ranges, require_one_crs, unique_pairs

XY = tuple[float, float]

METRES_PER_DEGREE = 111111.0  # Metres of a degree of latitude in the source.
_LATITUDE, _LONGITUDE = 41.0, -71.0  # Degrees; the source pretends that every tile lies here.
_WIDE = math.cos(math.radians(_LATITUDE))  # Width of a degree of longitude there.
_TURN = 3.1415926 / 180  # Radians of a degree, as the source has them in the test for the margin.
_DECIMALS = 3  # Decimals of metres to which coordinates are rounded before they are compared.
_KEY = 1e7  # Coordinates that agree to so many parts of a degree are one point.
_PLAIN_M = 3.0  # Metres; a longer segment is divided.
_HOP_M = 2.0  # Metres between the points of a divided segment, about.
_COVERED_HOPS = 4  # So many hops around a control point are covered.
_SNAP_M = 10.0  # Metres; a control point is matched with nearer points only.
_NEAREST = 10  # So many of the nearest points are looked at.
_HALF_BOX = 1e-6  # Degrees; distances to points are distances to boxes of twice this side.
_THROUGH = 2  # Neighbours of a point inside a chain.


@dataclass(frozen=True)
class Tile:
    """The square that is scored and the distances that go with its size.

    Attributes:
        side_m: its side; what lies beyond is not scored.
        margin_m: control points keep this far from its sides.
        interval_hops: control points of a chain are about so many hops of 2 m apart.
        min_route_m: a route between matched control points counts if it is longer.
        blocked_hops: so far around a match no other control point is matched.
    """

    side_m: float
    margin_m: float
    interval_hops: int
    min_route_m: float
    blocked_hops: int


SPACENET_TILE = Tile(352.0, 30.0, 10, 30.0, 3)  # As in SAM-Road; Sat2Graph has 15 hops there.
CITYSCALE_TILE = Tile(2048.0, 100.0, 25, 100.0, 4)


@dataclass(frozen=True)
class Sat2GraphApls:
    """Route similarity of a tile by Sat2Graph's rules, all three from 0 to 1.

    Attributes:
        score: arithmetic mean of both directions.
        reference_to_predicted: how far the prediction has the routes of the reference.
        predicted_to_reference: how far the reference has the routes of the prediction.
    """

    score: float
    reference_to_predicted: float
    predicted_to_reference: float


@dataclass(frozen=True)
class VertexGraph:
    """Every vertex of a road graph as a node, at a made-up place: degrees south-east of 41 N, 71 W.

    `vertex_graphs` numbers vertices as the lines of the graph meet them, and sorts segments by the
    numbers of their vertices, the lower first.

    Attributes:
        lat: shape (n,), degrees; 111,111 m each.
        lon: shape (n,), degrees; 111,111 m times the cosine of the latitude each.
        pairs: shape (m, 2), the vertices of each segment, each once.
    """

    lat: Floats
    lon: Floats
    pairs: Ints


def vertex_graphs(
    reference: RoadGraph, predicted: RoadGraph, corner: XY | None = None
) -> tuple[VertexGraph, VertexGraph]:
    """Return both graphs where the source expects them, rounded to 1 mm.

    Args:
        reference: graph of the labels.
        predicted: graph to be scored, in the same metric CRS.
        corner: x and y of the north-west corner of the tile; of all vertices if not given.

    Raises:
        ValueError: the CRSs differ, or a coordinate is not finite.
    """
    require_one_crs(reference, predicted)
    xy = shapely.get_coordinates(np.concatenate([reference.lines, predicted.lines]))
    if not np.isfinite(xy).all():
        raise ValueError("a line has a coordinate that is not finite")
    if corner is None:
        corner = (float(xy[:, 0].min()), float(xy[:, 1].max())) if len(xy) else (0.0, 0.0)
    return _vertex_graph(reference, corner), _vertex_graph(predicted, corner)


def sat2graph_apls(
    reference: RoadGraph,
    predicted: RoadGraph,
    *,
    tile: Tile = SPACENET_TILE,
    corner: XY | None = None,
) -> Sat2GraphApls:
    """Score the routes of a tile as Sat2Graph and SAM-Road do.

    1. Lines become points about 2 m apart.
    2. Control points are the points that do not have just two neighbours, and points of each chain
       longer than 1.5 `interval_hops`; only within the margin, one in a cell of 2 m, none that is
       covered.
    3. A control point covers the points within 4 hops of it; the free end of a road is never
       covered.
    4. Each is matched with the nearest of 10 points of the other graph that is nearer than 10 m and
       not blocked by an earlier match. A match blocks the points within `blocked_hops` of it.
    5. Of the unordered pairs of control points, one with a point unmatched counts 1, whether a
       route joins it or not; one with a route longer than `min_route_m` counts
       min(1, |L - L'| / L), L' being 0 where there is no route; others do not count.
    6. A direction scores 1 minus the mean, and the tile the mean of both directions.
    7. A graph without any pair that counts is empty: two score 1, one and another 0. The source
       gives NaN there and its summary leaves the tile out, so that an empty prediction costs
       nothing.

    The order of the lines and their direction matter, as they number the points: the source covers
    the points near a control point in the graph of the other side, by the number that the point has
    in its own. So another order changes the score of a Vegas chip by up to 0.023. Covering them in
    their own graph would raise SAM-Road's sample tile from 0.388 to 0.401 and change five Vegas
    chips by -0.009 to +0.007. The source also goes through its points
    in random order (up to 0.03 between runs of the sample); here it is that of their numbers. Where
    control points lie close together each blocks the match of the next, so that a graph may score
    below 1 against itself (0.998 on one of the chips).

    Args:
        reference: graph of the labels; chains need not be merged.
        predicted: graph to be scored, in the same metric CRS.
        tile: what is scored.
        corner: x and y of its north-west corner; that of all vertices of both if not given.

    Raises:
        ValueError: the CRSs differ, or a coordinate is not finite.

    Source: metrics/apls of Sat2Graph (He et al., ECCV 2020) and spacenet_metrics/apls of SAM-Road
    (Hetang et al., CVPRW 2024), reimplemented; the numbers are not those of SpaceNet's APLS.
    """
    return score_tile(*vertex_graphs(reference, predicted, corner), tile=tile)


def score_tile(reference: VertexGraph, predicted: VertexGraph, *, tile: Tile) -> Sat2GraphApls:
    """Score graphs that are in the form that the source reads, see `sat2graph_apls`."""
    # Rule 1: lines become points.
    sides = _dense(reference), _dense(predicted)
    there, back = _direction(sides[0], sides[1], tile), _direction(sides[1], sides[0], tile)
    # Rule 7: two empty graphs are alike, an empty one and another are not.
    if there is None or back is None:
        there = back = float(there is None and back is None)
    return Sat2GraphApls((there + back) / 2, there, back)


def _vertex_graph(graph: RoadGraph, corner: XY) -> VertexGraph:
    xy, line = shapely.get_coordinates(graph.lines, return_index=True)
    # South and east of the corner, in metres.
    south_east = np.round(np.column_stack([corner[1] - xy[:, 1], xy[:, 0] - corner[0]]), _DECIMALS)
    moves = (np.diff(line) == 0) & (np.diff(south_east, axis=0) != 0).any(axis=1)
    ends = np.stack([south_east[:-1][moves], south_east[1:][moves]], axis=1).reshape(-1, 2) + 0.0
    number, first = _number_by_appearance(ends)
    pairs = np.unique(np.sort(number.reshape(-1, 2), axis=1), axis=0)
    lat = _LATITUDE - ends[first, 0] / METRES_PER_DEGREE
    lon = _LONGITUDE + ends[first, 1] / METRES_PER_DEGREE / _WIDE
    return VertexGraph(lat, lon, pairs)


def _number_by_appearance(pairs: Floats) -> tuple[Ints, Ints]:
    """Number pairs in the order in which they appear; return that, and where each is first."""
    first, key = unique_pairs(pairs)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[key], first[order]


@dataclass(frozen=True)
class _Dense:
    """Points about 2 m apart.

    Attributes:
        places: shape (n, 2), latitude and longitude.
        hops: neighbours of each point, rising.
        length_cm: shape (n, n), whole centimetres of each hop.
    """

    places: Floats
    hops: list[list[int]]
    length_cm: csr_array


def _dense(graph: VertexGraph) -> _Dense:
    places = np.column_stack([graph.lat, graph.lon])
    start, goal = places[graph.pairs[:, 0]], places[graph.pairs[:, 1]]
    metres = _metres(start, goal)
    # Long segments are divided into parts of about 2 m.
    parts = np.where(metres > _PLAIN_M, (metres / _HOP_M).astype(np.int64) + 1, 1)
    segment = np.repeat(np.arange(len(parts)), parts)
    nth = ranges(np.zeros_like(parts), parts)
    ends = np.stack(
        [_between(start, goal, parts, segment, nth), _between(start, goal, parts, segment, nth + 1)]
    )
    points = ends.transpose(1, 0, 2).reshape(-1, 2)
    number, first = _number_by_appearance(np.rint(points * _KEY))
    return _connected(points[first], number.reshape(-1, 2))


def _between(start: Floats, goal: Floats, parts: Ints, segment: Ints, nth: Ints) -> Floats:
    part = (nth / parts[segment])[:, None]
    return start[segment] * (1 - part) + goal[segment] * part


def _connected(places: Floats, ends: Ints) -> _Dense:
    both = np.unique(np.concatenate([ends, ends[:, ::-1]]), axis=0)
    both = both[both[:, 0] != both[:, 1]]
    # The source counts whole centimetres.
    cost = np.trunc(_metres(places[both[:, 0]], places[both[:, 1]]) * 100)
    n = len(places)
    matrix = csr_array((cost, (both[:, 0], both[:, 1])), shape=(n, n))
    first = np.searchsorted(both[:, 0], np.arange(n + 1)).tolist()
    goals = both[:, 1].tolist()
    return _Dense(places, [goals[start:stop] for start, stop in pairwise(first)], matrix)


def _metres(start: Floats, goal: Floats) -> Floats:
    north, east = ((start - goal) * METRES_PER_DEGREE).T
    east = east * np.cos(start[:, 0] / 360.0 * 2.0 * np.pi)
    return np.asarray(np.sqrt(north * north + east * east))


def _direction(source: _Dense, target: _Dense, tile: Tile) -> float | None:
    """Score one direction; None if no pair counts."""
    # Rules 2 to 4: control points, and where they are in the other graph.
    points = sorted(_control_points(source, target, tile))
    match = _match(source.places[points], target, tile.blocked_hops)
    matched = np.flatnonzero(match >= 0)
    pairs = len(points) * (len(points) - 1) // 2
    # Rule 5: a pair with a point unmatched counts 1, other pairs by their routes.
    unmatched = pairs - len(matched) * (len(matched) - 1) // 2
    native = _routes(source.length_cm, np.array(points, dtype=np.int64)[matched])
    other = _routes(target.length_cm, match[matched])
    other[~np.isfinite(other)] = 0
    counts = np.isfinite(native) & (native > tile.min_route_m)
    counts &= np.arange(len(matched))[:, None] < np.arange(len(matched))
    ratio = np.minimum(np.abs(native[counts] - other[counts]) / native[counts], 1)
    # Rule 6: the score is 1 minus the mean over the pairs that count.
    total = unmatched + ratio.size
    return 1 - (unmatched + float(ratio.sum())) / total if total else None


def _routes(length_cm: csr_array, points: Ints) -> Floats:
    """Return the metres of the shortest route between all points; infinite if there is none."""
    if len(points) == 0:
        return np.empty((0, 0))
    return np.asarray(dijkstra(length_cm, indices=points)[:, points] / 100)


def _control_points(source: _Dense, target: _Dense, tile: Tile) -> set[int]:
    """Choose the control points of a graph by rules 2 and 3."""
    inside = _inside(source.places, tile).tolist()
    cells = np.trunc(source.places * METRES_PER_DEGREE / _HOP_M)
    cell_of = [tuple(cell) for cell in cells.tolist()]
    points: set[int] = set()
    used_cells: set[tuple[float, ...]] = set()
    covered: set[int] = set()
    for point, is_end in _candidates(source.hops, tile.interval_hops):
        is_free = is_end or point not in covered
        if inside[point] and is_free and cell_of[point] not in used_cells:
            used_cells.add(cell_of[point])
            points.add(point)
            # The source covers the points of the other graph that have these numbers.
            covered.update(_around(target.hops, point, _COVERED_HOPS))
    return points


def _inside(places: Floats, tile: Tile) -> Bools:
    """Return which places keep clear of the margin of the tile."""
    wide = math.cos(_LATITUDE * _TURN)
    side, margin = tile.side_m / METRES_PER_DEGREE, tile.margin_m / METRES_PER_DEGREE
    lat, lon = places.T
    south, east = _LATITUDE - side, _LONGITUDE + side / wide
    is_north_south = (lat > south + margin) & (lat < _LATITUDE - margin)
    is_east_west = (lon > _LONGITUDE + margin / wide) & (lon < east - margin / wide)
    return np.asarray(is_north_south & is_east_west)


def _candidates(hops: list[list[int]], interval: int) -> Iterator[tuple[int, bool]]:
    """Yield the points that may become control points, and whether each is a free end."""
    in_chains: set[int] = set()
    for point, around in enumerate(hops):
        if len(around) == _THROUGH:
            continue
        for step in around:
            if step not in in_chains:
                chain = _chain(hops, point, step)
                yield from ((inner, False) for inner in _spread(chain, interval))
                in_chains.update(chain)
        yield point, len(around) == 1


def _chain(hops: list[list[int]], first: int, second: int) -> list[int]:
    """Follow a chain from a point to the next that does not have two neighbours."""
    chain = [first, second]
    while len(hops[chain[-1]]) == _THROUGH:
        left, right = hops[chain[-1]]
        chain.append(left + right - chain[-2])
    return chain


def _spread(chain: list[int], interval: int) -> list[int]:
    if len(chain) <= int(interval * 1.5):
        return []
    parts = int(len(chain) / interval) + 1
    return [chain[int(len(chain) * (nth / parts))] for nth in range(1, parts)]


def _around(hops: list[list[int]], point: int, reach: int) -> set[int]:
    """Return a point and all within `reach` hops; the point alone if there is none so numbered."""
    reached = {point}
    ring: Iterable[int] = reached if point < len(hops) else ()
    for _ in range(reach):
        ring = {step for near in ring for step in hops[near]} - reached
        reached |= ring
    return reached


def _match(places: Floats, target: _Dense, blocked_hops: int) -> Ints:
    """Match places with points of a graph by rule 4, in their order; -1 where there is none."""
    match = np.full(len(places), -1, dtype=np.int64)
    if len(places) == 0 or len(target.places) == 0:
        return match
    near = _nearest(places, target.places)
    metres = _metres(target.places[near].reshape(-1, 2), np.repeat(places, near.shape[1], axis=0))
    is_close = metres.reshape(near.shape) < _SNAP_M
    blocked: set[int] = set()
    for row in range(len(places)):
        free = (point for point in near[row, is_close[row]].tolist() if point not in blocked)
        match[row] = next(free, -1)
        if match[row] >= 0:
            blocked |= _around(target.hops, int(match[row]), blocked_hops)
    return match


def _nearest(places: Floats, points: Floats) -> Ints:
    """Return the ten points nearest to each place, in degrees; of equally near ones the first."""
    # Twice as many by distance to the points hold the nearest by distance to their boxes.
    more = min(2 * _NEAREST, len(points))
    near = cKDTree(points).query(places, k=np.arange(1, more + 1))[1]
    apart = np.maximum(np.abs(points[near] - places[:, None]) - _HALF_BOX, 0)
    order = np.lexsort([near, (apart**2).sum(axis=2)], axis=1)[:, :_NEAREST]
    return np.asarray(np.take_along_axis(near, order, axis=1), dtype=np.int64)
