"""Linking: continue the dead ends of a road graph across gaps to the road ahead."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import shapely
from scipy.spatial import KDTree

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.noding import is_off_grid, noded, with_vertices
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, in_parts, lines_from
from roadseg.roads.tracing.dead_ends import (
    DeadEnds,
    RoadDistances,
    are_lone,
    cosine,
    find_dead_ends,
    places_along,
)
from roadseg.roads.tracing.least_cost import ReadRoad, TracedLinks, trace_links

INFERRED, CONFIDENCE = "inferred", "confidence"

_BOTH = 2  # ends of an edge

_LEAVING_M = 5.0  # length of link from which its own heading is taken
_TURN_COST = 2.0  # how much longer a link counts for turning; straight on, it counts as it is
_FACING_COST = 0.5  # a link between two dead ends that face each other counts as half as long
_DETOUR = 1.5  # places are joined already if the road between them is up to so many gaps long
_WINDING = 1.5  # a link through the raster is up to so many times as long as the longest gap
_OWN = 0.75  # a link to the side of a road is no longer than this part of the edge it continues
_OWN_LONE = 0.4  # the same of an edge with two dead ends: it may lie across a road
_ALONGSIDE = np.cos(np.radians(30))  # between two roads at this angle or less
_LANE_CHANGE = np.cos(np.radians(12))  # a link that turns by more than this joins none
_TARGETS = 2  # of a dead end that are looked at closely
_CLEAR_M = 0.05  # from its ends on, a link touches no other road
_ENDS_AT_ONCE = 2_000  # around which places are looked at


@dataclass(frozen=True)
class _Limits:
    """What a link must keep to, and the raster through which it is laid, if any."""

    max_gap_m: float
    least_cos: float  # of the angle by which it turns off the heading of a dead end
    min_probability: float
    grid: Grid | None
    read_road: ReadRoad | None


@dataclass(frozen=True)
class _Roads:
    """Roads, their dead ends, and how far it is along them between these."""

    graph: RoadGraph
    ends: DeadEnds
    tree: shapely.STRtree
    distances: RoadDistances

    @classmethod
    def of(cls, graph: RoadGraph, ends: DeadEnds, limits: _Limits) -> "_Roads":
        distances = RoadDistances(graph, ends.node, _DETOUR * limits.max_gap_m)
        return cls(graph, ends, shapely.STRtree(graph.lines), distances)


@dataclass(frozen=True)
class _Links:
    """Links that may be: from a dead end to a place on an edge, which may be a dead end too."""

    end: Ints  # row of the dead end
    facing: Ints  # row of the dead end at the other end, -1 for the side of a road
    edge: Ints  # row of the edge on which it lands
    landing: Floats
    cost: Floats  # metres, more for turning and less where the raster shows road
    line: Lines
    confidence: Floats

    @property
    def is_facing(self) -> Bools:
        return self.facing >= 0

    def take(self, chosen: Ints | Bools) -> "_Links":
        return _Links(*(getattr(self, column.name)[chosen] for column in fields(self)))


def link_gaps(
    graph: RoadGraph,
    *,
    max_gap_m: float,
    max_turn_deg: float = 60.0,
    min_probability: float = 0.0,
    grid: Grid | None = None,
    read_road: ReadRoad | None = None,
    border: shapely.Geometry | None = None,
    border_m: float = 0.0,
) -> RoadGraph:
    """Link dead ends to the road ahead of them, be it another dead end or the side of a road.

    Dead ends that face each other are linked first, the shortest and straightest links before
    others, unless the side of a road is nearer ahead of one of them. The rest are linked to the
    side of a road or of a link. A dead end is linked once, and not to where a road of up to 1.5
    times the link leads already. Between dead ends a link may cross roads and joins them.

    A link to the side of a road meets no other road on its way. It is at most three quarters as
    long as the edge that it continues, as a short one tells little about where it heads, and 0.4
    times as long if that ends at its other end too, as what is left between two gaps; turning by
    60 degrees counts as twice the length; and to a road alongside, within 30 degrees of the same
    direction, it turns by 12 degrees at most, as where roads merge. Within 5 m of another dead end
    it also keeps to the greatest turn there.

    A lone piece of road shorter than `max_gap_m` is linked at both its ends or not at all: it is a
    rest between two gaps, or it is no road.

    With a raster a link follows the least cost over 1 less the probability of road
    (`least_cost.trace_links`), without it is straight.

    Args:
        graph: roads in metres, without attributes, crossing each other at nodes only.
        max_gap_m: greatest distance between both ends of a link, which are ends of centrelines;
            along a raster a link may be 1.5 times as long. 0 links nothing.
        max_turn_deg: greatest angle between the heading of a dead end and its link, at the side
            of a road there is none.
        min_probability: least mean probability of road along a link, both ends included, 0 to 1;
            only with a raster. 0 also links where it shows nothing.
        grid: where the pixels of the raster lie, with the CRS of the graph as its metric CRS.
        read_road: reads a window of the raster: probability of any road, 255
            for certain; None for straight links.
        border: dead ends here go on outside and are not linked, such as the edge of the scene.
        border_m: distance from `border` up to which that holds.

    Returns:
        The roads and links with the attributes `inferred`, 1 for links and else 0, and
        `confidence`, which is NaN for roads. Of a link it is the mean probability along it where
        the raster has values other than 0 and 1 around it; elsewhere the mean cosine of its turns
        times a factor that falls from 1 to a half as its length grows to `max_gap_m`. Roads and
        links merge with their like only.

    Raises:
        ValueError: if the graph has attributes, or there is `read_road` without `grid`.

    Source: SpaceNet 5's winners link ends to ends, and ends to the sides of roads, by distance
    and heading (CRESI, ikibardin); the costs and their figures are ours.
    """
    if graph.attributes:
        raise ValueError(f"gaps are linked before edges get attributes: {sorted(graph.attributes)}")
    if read_road is not None and grid is None:
        raise ValueError("read_road needs the grid of its pixels")
    least_cos = float(np.cos(np.radians(max_turn_deg)))
    limits = _Limits(max_gap_m, least_cos, min_probability, grid, read_road)
    ends = find_dead_ends(graph, border, border_m)
    if max_gap_m <= 0 or len(ends.edge) == 0:
        return _as_roads(graph)
    pairs = _facing_links(graph, ends, limits)
    bridged = _bridged(graph, ends, pairs)
    rest = np.setdiff1d(np.arange(len(ends.edge)), [pairs.end, pairs.facing])
    sides = _side_links(bridged, ends, rest, limits) if len(rest) else pairs.take(rest)
    kept = _without_strays(_together([pairs, sides]), graph, ends, max_gap_m)
    return merge_chains(_joined(graph, kept))


def _facing_links(graph: RoadGraph, ends: DeadEnds, limits: _Limits) -> _Links:
    """Choose links between dead ends, the cheapest first, unless a side of a road is cheaper."""
    roads = _Roads.of(graph, ends, limits)
    facing = _facing(ends, roads.distances, limits)
    if len(facing.end) == 0:
        return facing
    sides = _sides(roads, np.unique([facing.end, facing.facing]), limits)
    links = _priced(_closest(_together([facing, sides])), roads, limits)
    settled: set[int] = set()
    chosen = []
    for row in np.argsort(links.cost, kind="stable").tolist():
        members = {int(links.end[row]), int(links.facing[row])} - {-1}
        if settled.isdisjoint(members):
            settled |= members
            chosen.append(row)
    first = links.take(np.array(chosen, dtype=np.int64))
    return first.take(first.is_facing)


def _side_links(graph: RoadGraph, ends: DeadEnds, rest: Ints, limits: _Limits) -> _Links:
    """Choose for each of these dead ends the cheapest link to the side of a road."""
    roads = _Roads.of(graph, ends, limits)
    links = _priced(_closest(_sides(roads, rest, limits)), roads, limits)
    links = links.take(np.lexsort([links.cost, links.end]))
    links = links.take(np.unique(links.end, return_index=True)[1])
    own, other = ends.edge[links.end].tolist(), links.edge.tolist()
    cost = dict(zip(zip(own, other, strict=True), links.cost.tolist(), strict=True))
    back = [cost.get(pair, np.inf) for pair in zip(other, own, strict=True)]
    return links.take(links.cost <= back)  # not also from that road to the side of this one


def _facing(ends: DeadEnds, roads: RoadDistances, limits: _Limits) -> _Links:
    """List links between dead ends ahead of each other that no short road joins."""
    pairs = KDTree(ends.place).query_pairs(limits.max_gap_m, output_type="ndarray")
    left, right = pairs.T.astype(np.int64)
    steps = ends.place[right] - ends.place[left]
    gap = np.hypot(*steps.T)
    forth, back = cosine(steps, ends.heading[left]), cosine(-steps, ends.heading[right])
    cost = gap * (1 + _TURN_COST * (1 - (forth + back) / 2)) * _FACING_COST
    links = _straight(ends, left, right, ends.edge[right], landing=ends.place[right], cost=cost)
    ahead = np.minimum(forth, back) >= limits.least_cos
    return links.take(ahead & (roads.metres(left, ends.node[right]) > _DETOUR * gap))


def _sides(roads: _Roads, chosen: Ints, limits: _Limits) -> _Links:
    """List the best link of these dead ends to each edge ahead that no short road leads to."""
    parts = in_parts(chosen, _ENDS_AT_ONCE)
    return _together([_some_sides(roads, some, chosen, limits) for some in parts])


def _some_sides(roads: _Roads, some: Ints, chosen: Ints, limits: _Limits) -> _Links:
    """List those of some of the chosen dead ends."""
    graph, ends, distances = roads.graph, roads.ends, roads.distances
    places, edge, along = places_along(graph, roads.tree, ends.place[some], limits.max_gap_m)
    near = KDTree(ends.place[some]).sparse_distance_matrix(
        KDTree(places), limits.max_gap_m, output_type="ndarray"
    )
    end, landing, gap = some[near["i"]], near["j"], near["v"]
    turn = cosine(places[landing] - ends.place[end], ends.heading[end])
    ahead = (turn >= limits.least_cos) & (gap > 0)
    end, landing, gap, turn = end[ahead], landing[ahead], gap[ahead], turn[ahead]
    target, metres = edge[landing], along[landing]
    by_start = distances.metres(end, graph.ends[target, 0]) + metres
    by_stop = distances.metres(end, graph.ends[target, 1]) + graph.length_m[target] - metres
    cost = gap * (1 + _TURN_COST * (1 - turn))
    own = ends.edge[end]
    share = np.where(are_lone(graph, own), _OWN_LONE, _OWN)
    fits = cost <= np.minimum(limits.max_gap_m, share * graph.length_m[own])
    fits &= ~_is_beside(places, edge, landing, ends.heading[end], turn)
    fits &= ~_is_behind(places[landing], end, ends, chosen, limits.least_cos)
    fits = np.flatnonzero(fits & (np.minimum(by_start, by_stop) > _DETOUR * gap))
    order = fits[np.argsort(cost[fits], kind="stable")]
    key = end[order] * len(graph.lines) + target[order]
    best = order[np.unique(key, return_index=True)[1]]
    end, none, target = end[best], np.full(len(best), -1), target[best]
    links = _straight(ends, end, none, target, landing=places[landing[best]], cost=cost[best])
    return links.take(_is_clear(links, roads.tree))


def _is_beside(places: Floats, edge: Ints, landing: Ints, heading: Floats, turn: Floats) -> Bools:
    """Tell which landings lie on a road that runs alongside, so that a link changes lanes."""
    last = len(edge) - 1
    after = np.minimum(landing + 1, last)
    before = landing - (edge[landing - 1] == edge[landing])
    after = np.where(edge[after] == edge[landing], after, landing)
    along = np.abs(cosine(places[after] - places[before], heading))
    return np.asarray((along > _ALONGSIDE) & (turn < _LANE_CHANGE))


def _is_behind(landing: Floats, end: Ints, ends: DeadEnds, chosen: Ints, least_cos: float) -> Bools:
    """Tell which landings lie at another of the chosen dead ends that would have to turn back."""
    away, near = KDTree(ends.place[chosen]).query(landing, 2, distance_upper_bound=_LEAVING_M)
    other = np.append(chosen, -1)[near]
    turns = [cosine(ends.place[end] - ends.place[k], ends.heading[k]) for k in other.T]
    is_other = (away < np.inf) & (other != end[:, None])
    return np.asarray((is_other & (np.column_stack(turns) < least_cos)).any(axis=1))


def _straight(
    ends: DeadEnds, end: Ints, facing: Ints, edge: Ints, *, landing: Floats, cost: Floats
) -> _Links:
    line = np.asarray(shapely.linestrings(np.stack([ends.place[end], landing], axis=1)))
    return _Links(end, facing, edge, landing, cost, line, np.zeros(len(end)))


def _together(parts: Sequence[_Links]) -> _Links:
    columns = (column.name for column in fields(_Links))
    return _Links(*(np.concatenate([getattr(part, c) for part in parts]) for c in columns))


def _closest(links: _Links) -> _Links:
    """Keep the few cheapest links of each dead end."""
    order = np.lexsort([links.cost, links.end])
    end = links.end[order]
    return links.take(order[np.arange(len(end)) - np.searchsorted(end, end) < _TARGETS])


def _priced(links: _Links, roads: _Roads, limits: _Limits) -> _Links:
    """Lay links through the raster, find cost and confidence, and drop those beyond the limits."""
    ends = roads.ends
    traced = _traced(links, ends, limits)
    length = shapely.length(traced.lines)
    forth = cosine(_leaving(traced.lines, 0), ends.heading[links.end])
    back = cosine(_leaving(traced.lines, -1), ends.heading[links.facing])
    back = np.where(links.is_facing, back, forth)
    turn = (forth + back) / 2
    shape = np.clip(turn, 0, 1) * (1 - np.minimum(length / limits.max_gap_m, 1) / 2)
    factor = np.where(links.is_facing, _FACING_COST, 1)
    laid = replace(
        links,
        line=traced.lines,
        cost=traced.cost_m * (1 + _TURN_COST * (1 - turn)) * factor,
        confidence=np.where(traced.is_informed, traced.probability, shape),
    )
    fits = (length <= _WINDING * limits.max_gap_m) & (np.minimum(forth, back) >= limits.least_cos)
    fits &= traced.probability >= limits.min_probability
    return laid.take(fits & (links.is_facing | _is_clear(laid, roads.tree)))


def _traced(links: _Links, ends: DeadEnds, limits: _Limits) -> TracedLinks:
    if limits.grid is None or limits.read_road is None:
        certain, is_informed = np.ones(len(links.end)), np.zeros(len(links.end), dtype=bool)
        return TracedLinks(links.line, shapely.length(links.line), certain, is_informed)
    places = ends.place[links.end], links.landing
    return trace_links(*places, grid=limits.grid, read_road=limits.read_road)


def _leaving(lines: Lines, side: int) -> Floats:
    """Return the steps from one side of lines, 0 or -1, to a place a little along them."""
    metres = np.minimum(_LEAVING_M, shapely.length(lines))
    inside = shapely.line_interpolate_point(lines, metres if side == 0 else -metres)
    at_end = shapely.get_point(lines, side)
    return np.asarray(shapely.get_coordinates(inside) - shapely.get_coordinates(at_end))


def _is_clear(links: _Links, tree: shapely.STRtree) -> Bools:
    """Tell which links meet no road between their ends."""
    xy, row = shapely.get_coordinates(links.line, return_index=True)
    clear = np.minimum(_CLEAR_M, shapely.length(links.line) / 2)
    for side, metres in (
        (np.diff(row, prepend=-1) > 0, clear),
        (np.diff(row, append=-1) != 0, -clear),
    ):
        xy[side] = shapely.get_coordinates(shapely.line_interpolate_point(links.line, metres))
    inner = lines_from(xy, np.bincount(row, minlength=len(links.line)))
    met, _ = tree.query(inner, predicate="intersects")
    is_clear = np.ones(len(inner), dtype=bool)
    is_clear[met] = False
    return is_clear


def _bridged(graph: RoadGraph, ends: DeadEnds, pairs: _Links) -> RoadGraph:
    """Return the graph with links between dead ends; where they cross roads is no node."""
    nodes = np.column_stack([ends.node[pairs.end], ends.node[pairs.facing]])
    lines = np.concatenate([graph.lines, pairs.line])
    return RoadGraph(graph.crs, graph.nodes, np.concatenate([graph.ends, nodes]), lines)


def _without_strays(links: _Links, graph: RoadGraph, ends: DeadEnds, max_gap_m: float) -> _Links:
    """Leave out the links of lone short pieces of road that are not linked at both ends.

    One of these links has to face another dead end: a patch between two roads is no road. Links
    that land on one left out go too.
    """
    roads = len(graph.lines)
    is_lone = np.bincount(ends.edge, minlength=roads) == _BOTH
    is_lone &= graph.length_m < max_gap_m
    while True:
        facing = np.concatenate([links.end[links.is_facing], links.facing[links.is_facing]])
        linked = np.concatenate([facing, links.end[~links.is_facing]])
        is_stray = is_lone & (np.bincount(ends.edge[linked], minlength=roads) < _BOTH)
        is_stray |= is_lone & (np.bincount(ends.edge[facing], minlength=roads) == 0)
        on_stray = np.append(is_stray, np.zeros(len(links.end), dtype=bool))[links.edge]
        wrong = on_stray | is_stray[ends.edge[links.end]]
        wrong |= np.append(is_stray, wrong)[links.edge]
        if not wrong.any():
            return links
        rows = np.append(np.arange(roads), roads + np.cumsum(~wrong) - 1)
        links = replace(links, edge=rows[links.edge]).take(~wrong)


def _joined(graph: RoadGraph, links: _Links) -> RoadGraph:
    """Make one graph of roads and links, joined where they meet; most roads stay as they are."""
    lines = np.concatenate([graph.lines, links.line])
    is_link = np.arange(len(lines)) >= len(graph.lines)
    changes = is_link | is_off_grid(lines)
    lines[changes] = shapely.transform(lines[changes], lambda xy: np.round(xy, DECIMALS))
    lines = with_vertices(lines, links.edge, links.landing)
    link, other = shapely.STRtree(lines).query(lines[is_link], predicate="crosses")
    link += len(graph.lines)
    crossings, at = shapely.get_coordinates(
        shapely.intersection(lines[link], lines[other]), return_index=True
    )
    crossed = np.concatenate([link[at], other[at]])
    lines = with_vertices(lines, crossed, np.tile(crossings.round(DECIMALS), (2, 1)))
    changes[links.edge] = changes[crossed] = True
    confidence = np.concatenate([np.full(len(graph.lines), np.nan), links.confidence])
    attributes = {INFERRED: is_link.astype(np.uint8), CONFIDENCE: confidence}
    return noded(graph, lines, attributes, changes)


def _as_roads(graph: RoadGraph) -> RoadGraph:
    """Return the graph with the attributes of roads that are no links."""
    none, unknown = np.zeros(len(graph.lines), dtype=np.uint8), np.full(len(graph.lines), np.nan)
    return replace(graph, attributes={INFERRED: none, CONFIDENCE: unknown})
