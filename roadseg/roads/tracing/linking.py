"""Linking: continue the dead ends of a road graph across gaps to the road ahead.

From top to bottom: the rules, and the order in which links are chosen; the links that may be; their
ways through the raster; how far it is along roads; links and roads as one graph.
"""

import heapq
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import shapely
from scipy.spatial import KDTree
from skimage.graph import MCP_Geometric

from roadseg.arrays import Bools, Bytes, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    in_parts,
    is_off_grid,
    lines_from,
    node_lines,
    ranges,
    with_vertices,
)
from roadseg.roads.tracing.dead_ends import DeadEnds, are_lone, cosine, find_dead_ends

INFERRED, CONFIDENCE = "inferred", "confidence"

_SPACING_M = 1.0  # Metres between the places along roads at which links may land.
_TURN_COST = 2.0  # A link counts as so much longer for turning; straight on it counts as it is.
_FACING_COST = 0.5  # A link between two dead ends that face each other counts as half as long.
_DETOUR = 1.5  # Places that a road of up to so many gaps joins need no link.
_OWN = 0.75  # A link to the side of a road is no longer than this part of the edge it continues.
_OWN_LONE = 0.4  # The same for an edge with two dead ends, which may lie across a road.
_ALONGSIDE = np.cos(np.radians(30))  # Roads at this angle or less run alongside each other.
_LANE_CHANGE = np.cos(np.radians(12))  # A link between such roads turns by no more than this.
_NEARBY_M = 5.0  # Metres from a landing within which other dead ends have a say.
_CLEAR_M = 0.05  # Metres from its ends from which on a link touches no other road.
_ENDS_AT_ONCE = 2_000  # The places around so many dead ends are in memory together.
_BOTH = 2  # Ends of an edge.
_TARGETS = 2  # Links of a dead end that are laid through the raster, the cheapest first.
_LEAVING_M = 5.0  # Metres of a link from which its own heading is taken.
_WINDING = 1.5  # A link through the raster is up to so many times as long as the longest gap.
_STEP_COST = 0.1  # Cost of a metre where road is certain; where none is seen it is 1 more.
_MARGIN_M = 3.0  # Metres by which a way may leave the box around its ends.
_WORTH = 0.9  # A way costs less than this part of the straight line, or the straight line is taken.
_TOLERANCE_PX = 1.5  # Pixels by which a way may lie off the line that is drawn of it.
_CELL_PX = 512  # Windows that start in one cell of this many pixels are read together.

ReadRoad = Callable[[Window], Bytes]


@dataclass(frozen=True)
class _Raster:
    """A raster of the probability of road, read by window."""

    grid: Grid
    read_road: ReadRoad


@dataclass(frozen=True)
class _RoadsAhead:
    """Roads to which dead ends may be linked.

    Attributes:
        graph: roads in metres.
        ends: their dead ends, as rows of this graph.
        tree: of the lines of the graph.
        distances: along roads, from each dead end.
        max_gap_m: greatest length of a link.
        least_cos: cosine of the greatest angle by which a link turns off the heading of a dead end.
    """

    graph: RoadGraph
    ends: DeadEnds
    tree: shapely.STRtree
    distances: "RoadDistances"
    max_gap_m: float
    least_cos: float

    @classmethod
    def of(
        cls, graph: RoadGraph, ends: DeadEnds, *, max_gap_m: float, least_cos: float
    ) -> "_RoadsAhead":
        """Index the roads, and measure along them."""
        distances = RoadDistances(graph, ends.node, _DETOUR * max_gap_m)
        return cls(graph, ends, shapely.STRtree(graph.lines), distances, max_gap_m, least_cos)


@dataclass(frozen=True)
class _Links:
    """Links that may be: from a dead end to a place on an edge, which may be a dead end too.

    Attributes:
        end: shape (k,), row of the dead end.
        facing: shape (k,), row of the dead end at the other end, -1 for the side of a road.
        edge: shape (k,), row of the edge on which the link lands.
        landing: shape (k, 2), x and y of the place there.
        cost: shape (k,), metres, more for turning and less where the raster shows road.
        line: shape (k,), LineStrings.
        confidence: shape (k,), 0 to 1.
    """

    end: Ints
    facing: Ints
    edge: Ints
    landing: Floats
    cost: Floats
    line: Lines
    confidence: Floats

    @property
    def is_facing(self) -> Bools:
        """Whether each link joins two dead ends."""
        return self.facing >= 0

    def take(self, chosen: Ints | Bools) -> "_Links":
        """Return the chosen links, by row or by a boolean for each."""
        return _Links(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def is_clear(self, tree: shapely.STRtree) -> Bools:
        """Return which links meet none of the lines of a tree between their ends."""
        xy, row = shapely.get_coordinates(self.line, return_index=True)
        clear = np.minimum(_CLEAR_M, shapely.length(self.line) / 2)
        for side, metres in (
            (np.diff(row, prepend=-1) > 0, clear),
            (np.diff(row, append=-1) != 0, -clear),
        ):
            xy[side] = shapely.get_coordinates(shapely.line_interpolate_point(self.line, metres))
        inner = lines_from(xy, np.bincount(row, minlength=len(self.line)))
        met, _ = tree.query(inner, predicate="intersects")
        is_clear = np.ones(len(inner), dtype=bool)
        is_clear[met] = False
        return is_clear


def _together(parts: Sequence[_Links]) -> _Links:
    """Return the links of all parts, one part after the other."""
    columns = (column.name for column in fields(_Links))
    return _Links(*(np.concatenate([getattr(part, c) for part in parts]) for c in columns))


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

    A link keeps to these rules:

    1. Its ends are no further apart than `max_gap_m`.
    2. It turns off the headings of the dead ends that it joins by no more than `max_turn_deg`.
    3. No road of up to 1.5 times its length joins its ends already.
    4. To the side of a road it is at most three quarters as long as the edge that it continues,
       as a short edge tells little about where it heads, and 0.4 times as long if that edge ends
       at its other end too, as what is left between two gaps. Turning by 60 degrees counts as
       twice the length.
    5. To a road alongside, within 30 degrees of the same direction, it turns by 12 degrees at
       most, as where roads merge.
    6. Within 5 m of another dead end it also keeps to the greatest turn there.
    7. To the side of a road it meets no other road on its way. Between dead ends it may cross
       roads, and joins them.
    8. With a raster it follows the least cost over 1 less the probability of road
       (`trace_links`), is at most 1.5 times as long as `max_gap_m`, and has `min_probability`
       unless the raster around is a mask of 0 and 1. Without a raster it is straight.
    9. A dead end is linked once, the cheapest links first. First come those between dead ends
       that face each other, at half their cost, unless the side of a road is cheaper for one of
       them; then those to the side of a road or of a link.
    10. A lone piece of road shorter than `max_gap_m` is linked at both its ends or not at all,
        and to another dead end at one of them: it is a rest between two gaps, or it is no road.

    Args:
        graph: roads in metres, without attributes, crossing each other at nodes only.
        max_gap_m: greatest distance between both ends of a link, which are ends of centrelines.
            0 links nothing.
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
    raster = None if grid is None or read_road is None else _Raster(grid, read_road)
    ends = find_dead_ends(graph, border, border_m)
    if max_gap_m <= 0 or len(ends.edge) == 0:
        return _as_roads(graph)
    least_cos = float(np.cos(np.radians(max_turn_deg)))
    roads = _RoadsAhead.of(graph, ends, max_gap_m=max_gap_m, least_cos=least_cos)
    # Rule 9: dead ends that face each other come first.
    pairs = _choose_facing(roads, raster, min_probability)
    rest = np.setdiff1d(np.arange(len(ends.edge)), [pairs.end, pairs.facing])
    sides = pairs.take(rest[:0])
    if len(rest):
        bridged = _with_pairs(graph, ends, pairs)
        roads = _RoadsAhead.of(bridged, ends, max_gap_m=max_gap_m, least_cos=least_cos)
        sides = _choose_sides(roads, rest, raster, min_probability)
    # Rule 10: both ends of a lone short piece are linked, or none.
    links = _without_strays(_together([pairs, sides]), graph, ends, max_gap_m)
    linked = _join_links(graph, links)
    return merge_chains(linked)


def _choose_facing(roads: _RoadsAhead, raster: _Raster | None, min_probability: float) -> _Links:
    """Choose links between dead ends, the cheapest first, unless a side of a road is cheaper."""
    facing = _facing_links(roads)
    if len(facing.end) == 0:
        return facing
    sides = _side_links(roads, np.unique([facing.end, facing.facing]))
    links = _lay_links(
        _cheapest_targets(_together([facing, sides])), roads, raster, min_probability
    )
    settled: set[int] = set()
    chosen = []
    for row in np.argsort(links.cost, kind="stable").tolist():
        members = {int(links.end[row]), int(links.facing[row])} - {-1}
        if settled.isdisjoint(members):
            settled |= members
            chosen.append(row)
    first = links.take(np.array(chosen, dtype=np.int64))
    return first.take(first.is_facing)


def _choose_sides(
    roads: _RoadsAhead, rest: Ints, raster: _Raster | None, min_probability: float
) -> _Links:
    """Choose for each of these dead ends the cheapest link to the side of a road."""
    likely = _cheapest_targets(_side_links(roads, rest))
    links = _lay_links(likely, roads, raster, min_probability)
    links = links.take(np.lexsort([links.cost, links.end]))
    links = links.take(np.unique(links.end, return_index=True)[1])
    own, other = roads.ends.edge[links.end].tolist(), links.edge.tolist()
    cost = dict(zip(zip(own, other, strict=True), links.cost.tolist(), strict=True))
    back = [cost.get(pair, np.inf) for pair in zip(other, own, strict=True)]
    # Of two links, one from either road to the side of the other, the cheaper one is enough.
    return links.take(links.cost <= back)


def _cheapest_targets(links: _Links) -> _Links:
    """Keep the few cheapest links of each dead end."""
    order = np.lexsort([links.cost, links.end])
    end = links.end[order]
    return links.take(order[np.arange(len(end)) - np.searchsorted(end, end) < _TARGETS])


def _lay_links(
    links: _Links, roads: _RoadsAhead, raster: _Raster | None, min_probability: float
) -> _Links:
    """Lay links through the raster, set their cost and confidence, and drop those off limits."""
    ends, max_gap_m = roads.ends, roads.max_gap_m
    ways = _trace_all(links, ends, raster)
    length = shapely.length(ways.lines)
    forth = cosine(_leaving(ways.lines, 0), ends.heading[links.end])
    back = cosine(_leaving(ways.lines, -1), ends.heading[links.facing])
    back = np.where(links.is_facing, back, forth)
    turn = (forth + back) / 2
    shape = np.clip(turn, 0, 1) * (1 - np.minimum(length / max_gap_m, 1) / 2)
    laid = replace(
        links,
        line=ways.lines,
        cost=_link_cost(ways.cost_m, turn, is_facing=links.is_facing),
        confidence=np.where(ways.is_informed, ways.probability, shape),
    )
    # Rule 8: the way winds little and shows road. Rules 2 and 7 hold for it, too.
    # A mask has no probabilities in a gap, so it is not asked for them.
    fits = length <= _WINDING * max_gap_m
    fits &= ~ways.is_informed | (ways.probability >= min_probability)
    fits &= np.minimum(forth, back) >= roads.least_cos
    return laid.take(fits & (links.is_facing | laid.is_clear(roads.tree)))


def _trace_all(links: _Links, ends: DeadEnds, raster: _Raster | None) -> "TracedLinks":
    """Trace links through the raster; without one they stay straight, as if road were certain."""
    if raster is None:
        certain, is_informed = np.ones(len(links.end)), np.zeros(len(links.end), dtype=bool)
        return TracedLinks(links.line, shapely.length(links.line), certain, is_informed)
    places = ends.place[links.end], links.landing
    return trace_links(*places, grid=raster.grid, read_road=raster.read_road)


def _leaving(lines: Lines, side: int) -> Floats:
    """Return the steps from one side of lines, 0 or -1, to a place a little along them."""
    metres = np.minimum(_LEAVING_M, shapely.length(lines))
    inside = shapely.line_interpolate_point(lines, metres if side == 0 else -metres)
    at_end = shapely.get_point(lines, side)
    return np.asarray(shapely.get_coordinates(inside) - shapely.get_coordinates(at_end))


def _link_cost(metres: Floats, turn: Floats, *, is_facing: Bools | bool) -> Floats:
    """Return the cost of links by their length, and the mean cosine by which they turn.

    A link between dead ends that face each other counts as half as long.
    """
    factor = np.where(is_facing, _FACING_COST, 1)
    return np.asarray(metres * (1 + _TURN_COST * (1 - turn)) * factor)


def _facing_links(roads: _RoadsAhead) -> _Links:
    """List the links between dead ends ahead of each other, by rules 1 to 3 of `link_gaps`."""
    ends = roads.ends
    # Rule 1: the ends of a link are no further apart than the longest gap.
    pairs = KDTree(ends.place).query_pairs(roads.max_gap_m, output_type="ndarray")
    left, right = pairs.T.astype(np.int64)
    steps = ends.place[right] - ends.place[left]
    gap = np.hypot(*steps.T)
    forth, back = cosine(steps, ends.heading[left]), cosine(-steps, ends.heading[right])
    cost = _link_cost(gap, (forth + back) / 2, is_facing=True)
    links = _straight(ends, left, right, ends.edge[right], landing=ends.place[right], cost=cost)
    # Rule 2: it turns off the headings of both by no more than the greatest turn.
    ahead = np.minimum(forth, back) >= roads.least_cos
    # Rule 3: no road of up to 1.5 times its length joins them already.
    is_apart = roads.distances.metres(left, ends.node[right]) > _DETOUR * gap
    return links.take(ahead & is_apart)


def _side_links(roads: _RoadsAhead, chosen: Ints) -> _Links:
    """List the best link of the chosen dead ends to the side of each edge ahead of them.

    Rules 1 to 7 of `link_gaps` hold; the best link to an edge is the one of least cost.
    """
    parts = in_parts(chosen, _ENDS_AT_ONCE)
    return _together([_some_side_links(roads, some, chosen) for some in parts])


def _some_side_links(roads: _RoadsAhead, some: Ints, chosen: Ints) -> _Links:
    """List those of some of the chosen dead ends."""
    graph, ends, distances = roads.graph, roads.ends, roads.distances
    places, edge, along = places_along(graph, roads.tree, ends.place[some], roads.max_gap_m)
    # Rule 1: the ends of a link are no further apart than the longest gap.
    near = KDTree(ends.place[some]).sparse_distance_matrix(
        KDTree(places), roads.max_gap_m, output_type="ndarray"
    )
    end, landing, gap = some[near["i"]], near["j"], near["v"]
    # Rule 2: it turns off the heading of its dead end by no more than the greatest turn.
    turn = cosine(places[landing] - ends.place[end], ends.heading[end])
    ahead = (turn >= roads.least_cos) & (gap > 0)
    end, landing, gap, turn = end[ahead], landing[ahead], gap[ahead], turn[ahead]
    target, metres = edge[landing], along[landing]
    # Rule 3: no road of up to 1.5 times its length joins them already.
    by_start = distances.metres(end, graph.ends[target, 0]) + metres
    by_stop = distances.metres(end, graph.ends[target, 1]) + graph.length_m[target] - metres
    fits = np.minimum(by_start, by_stop) > _DETOUR * gap
    # Rule 4: it is short beside the edge that it continues, the more so for a lone edge.
    cost = _link_cost(gap, turn, is_facing=False)
    own = ends.edge[end]
    share = np.where(are_lone(graph, own), _OWN_LONE, _OWN)
    fits &= cost <= np.minimum(roads.max_gap_m, share * graph.length_m[own])
    # Rules 5 and 6: it changes no lanes, and fits the dead ends beside its landing.
    fits &= ~_is_beside(places, edge, landing, ends.heading[end], turn)
    fits &= ~_is_behind(places[landing], end, ends, chosen, roads.least_cos)
    # Of the links of a dead end to one edge only the cheapest is looked at further.
    rows = np.flatnonzero(fits)
    order = rows[np.argsort(cost[rows], kind="stable")]
    key = end[order] * len(graph.lines) + target[order]
    best = order[np.unique(key, return_index=True)[1]]
    end, none, target = end[best], np.full(len(best), -1), target[best]
    links = _straight(ends, end, none, target, landing=places[landing[best]], cost=cost[best])
    # Rule 7: it meets no other road on its way.
    return links.take(links.is_clear(roads.tree))


def _is_beside(places: Floats, edge: Ints, landing: Ints, heading: Floats, turn: Floats) -> Bools:
    """Return which landings lie on a road that runs alongside, so that a link changes lanes."""
    last = len(edge) - 1
    after = np.minimum(landing + 1, last)
    # Row 0 wraps to -1, the last row: of the same edge only if no other edge is near, and then it
    # is compared with the far end of that edge.
    before = landing - (edge[landing - 1] == edge[landing])
    after = np.where(edge[after] == edge[landing], after, landing)
    along = np.abs(cosine(places[after] - places[before], heading))
    return np.asarray((along > _ALONGSIDE) & (turn < _LANE_CHANGE))


def _is_behind(landing: Floats, end: Ints, ends: DeadEnds, chosen: Ints, least_cos: float) -> Bools:
    """Return which landings lie at another chosen dead end that would have to turn back."""
    away, near = KDTree(ends.place[chosen]).query(landing, 2, distance_upper_bound=_NEARBY_M)
    other = np.append(chosen, -1)[near]
    turns = [cosine(ends.place[end] - ends.place[k], ends.heading[k]) for k in other.T]
    is_other = (away < np.inf) & (other != end[:, None])
    return np.asarray((is_other & (np.column_stack(turns) < least_cos)).any(axis=1))


def _straight(
    ends: DeadEnds, end: Ints, facing: Ints, edge: Ints, *, landing: Floats, cost: Floats
) -> _Links:
    line = np.asarray(shapely.linestrings(np.stack([ends.place[end], landing], axis=1)))
    return _Links(end, facing, edge, landing, cost, line, np.zeros(len(end)))


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
    for (row, col), stop, links in _neighbourhoods(low, high, start.ravel()):
        road = read_road(Window(row, col, int(stop[0]) - row, int(stop[1]) - col))
        for link in np.split(links, np.flatnonzero(np.diff(start.ravel()[links])) + 1):
            first, last = low[link[0]], high[link[0]]
            (top, left), (bottom, right) = first - (row, col), last - (row, col)
            local = pixels[:, link] - first
            laid = _ways(road[top:bottom, left:right], local[0, 0], local[1], pixel_m)
            for i, way in zip(link.tolist(), laid, strict=True):
                ways[i] = way
    return TracedLinks(
        _draw_ways(ways, low, starts, goals, grid),
        np.array([way.cost_m for way in ways], dtype=np.float64),
        np.array([way.probability for way in ways], dtype=np.float64),
        np.array([way.is_informed for way in ways], dtype=bool),
    )


def _neighbourhoods(
    low: Ints, high: Ints, start: Ints
) -> Iterator[tuple[tuple[int, int], Ints, Ints]]:
    """Group windows that are read at once: those that start in the same cell of 512 pixels.

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
    straight = [
        _straight_way(road, start, goal, pixel_m, is_informed=is_informed) for goal in goals
    ]
    if not is_informed:
        return straight
    # One search from the start serves all its goals.
    search = MCP_Geometric(1 + _STEP_COST - road / CERTAIN, sampling=pixel_m)
    costs, _ = search.find_costs([tuple(start)], goals)
    least = costs[tuple(goals.T)].tolist()
    return [
        _winding_way(road, np.array(search.traceback(goal)), cost)
        if cost < _WORTH * way.cost_m
        else way
        for goal, cost, way in zip(goals, least, straight, strict=True)
    ]


def _straight_way(
    road: Bytes, start: Ints, goal: Ints, pixel_m: tuple[float, float], *, is_informed: bool
) -> _Way:
    step = goal - start
    along = np.linspace(0, 1, int(np.abs(step).max()) + 1)[:, None]
    rows, cols = np.rint(start + along * step).astype(np.int64).T
    probability = float(road[rows, cols].mean()) / CERTAIN
    cost_m = float(np.hypot(*(step * pixel_m))) * (1 + _STEP_COST - probability)
    return _Way(np.stack([start, goal]), cost_m, probability, is_informed)


def _winding_way(road: Bytes, pixels: Ints, cost_m: float) -> _Way:
    probability = float(road[tuple(pixels.T)].mean()) / CERTAIN
    return _Way(pixels, cost_m, probability, is_informed=True)


def _draw_ways(ways: list[_Way], low: Ints, starts: Floats, goals: Floats, grid: Grid) -> Lines:
    """Draw ways in metres, from start to goal exactly."""
    sizes = np.array([len(way.pixels) for way in ways], dtype=np.int64)
    pixels = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(way.pixels for way in ways)])
    xy = grid.to_metric(pixels + np.repeat(low, sizes, axis=0) + 0.5)
    last = np.cumsum(sizes) - 1
    xy[last - sizes + 1], xy[last] = starts, goals
    tolerance_m = _TOLERANCE_PX * max(grid.pixel_size_m)
    return np.asarray(shapely.simplify(lines_from(xy, sizes), tolerance_m))


def places_along(
    graph: RoadGraph, tree: shapely.STRtree, places: Floats, reach_m: float
) -> tuple[Floats, Ints, Floats]:
    """Spread places 1 m apart along the edges near to some others, nodes included.

    Args:
        graph: roads in metres.
        tree: of its lines.
        places: shape (n, 2), x and y.
        reach_m: edges no further than this from one of them count.

    Returns:
        Of each place x and y to the millimetre, the row of its edge, and metres from its start.
    """
    near = np.unique(tree.query(shapely.points(places), predicate="dwithin", distance=reach_m)[1])
    xy, line = shapely.get_coordinates(graph.lines[near], return_index=True)
    steps = np.hypot(*np.diff(xy, axis=0, prepend=0.0).T)
    # All lines are laid on one axis, 1 m apart, so that one interpolation serves them all.
    travelled = np.cumsum(np.where(np.diff(line, prepend=-1) > 0, 1.0, steps))
    first = travelled[np.searchsorted(line, np.arange(len(near)))]
    length = graph.length_m[near]
    parts = np.maximum(np.ceil(length / _SPACING_M), 1).astype(np.int64)
    row = np.repeat(np.arange(len(near)), parts + 1)
    along = ranges(np.zeros_like(parts), parts + 1) / parts[row] * length[row]
    at = first[row] + along
    landings = np.column_stack([np.interp(at, travelled, axis) for axis in xy.T])
    return np.round(landings, DECIMALS), near[row], along


class RoadDistances:
    """Lengths of the shortest ways along roads from some nodes, the starts, to nodes nearby.

    Args:
        graph: roads in metres.
        starts: shape (k,), rows of nodes, at least one.
        limit_m: how far to look.
    """

    def __init__(self, graph: RoadGraph, starts: Ints, limit_m: float) -> None:
        """Measure how far the nodes are."""
        self._nodes = len(graph.nodes)
        row, node, metres = _search(graph, starts, limit_m)
        keys = row * self._nodes + node
        order = np.argsort(keys)
        self._keys = keys[order]
        self._metres = metres[order]

    def metres(self, start: Ints, node: Ints) -> Floats:
        """Return metres from starts to nodes (rows of both), infinite beyond the limit."""
        keys = start * self._nodes + node
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._metres[at], np.inf)


def _search(graph: RoadGraph, starts: Ints, limit_m: float) -> tuple[Ints, Ints, Floats]:
    """Return row of the start, node and metres between them, for all nodes up to a limit.

    Source: E. W. Dijkstra, "A note on two problems in connexion with graphs", 1959. scipy's returns
    a row of all nodes for each start, be they near or not.
    """
    first, others, steps = _neighbours(graph, limit_m)
    # Arrays of numbers take a fraction of the memory of lists of objects.
    rows, nodes, reached = array("q"), array("q"), array("d")
    for row, start in enumerate(starts.tolist()):
        done: set[int] = set()
        heap = [(0.0, start)]
        while heap:
            metres, node = heapq.heappop(heap)
            if node in done or metres > limit_m:
                continue
            done.add(node)
            rows.append(row)
            nodes.append(node)
            reached.append(metres)
            for i in range(first[node], first[node + 1]):
                heapq.heappush(heap, (metres + steps[i], others[i]))
    return np.array(rows), np.array(nodes), np.array(reached)


def _neighbours(graph: RoadGraph, limit_m: float) -> "tuple[array[int], array[int], array[float]]":
    """List the neighbours of all nodes: where those of each begin, their nodes, and metres."""
    length_m = graph.length_m
    short = length_m <= limit_m
    node, other = np.concatenate([graph.ends[short], graph.ends[short, ::-1]]).T
    order = np.argsort(node, kind="stable")
    first = np.searchsorted(node[order], np.arange(len(graph.nodes) + 1))
    return (
        array("q", first.tobytes()),
        array("q", other[order].tobytes()),
        array("d", np.tile(length_m[short], 2)[order].tobytes()),
    )


def _with_pairs(graph: RoadGraph, ends: DeadEnds, pairs: _Links) -> RoadGraph:
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
        # A stray is linked at one end, or by no link that faces another dead end.
        is_stray = is_lone & (np.bincount(ends.edge[linked], minlength=roads) < _BOTH)
        is_stray |= is_lone & (np.bincount(ends.edge[facing], minlength=roads) == 0)
        # A link goes that starts on a stray, lands on one, or lands on a link that goes.
        on_stray = np.append(is_stray, np.zeros(len(links.end), dtype=bool))[links.edge]
        wrong = on_stray | is_stray[ends.edge[links.end]]
        wrong |= np.append(is_stray, wrong)[links.edge]
        if not wrong.any():
            return links
        rows = np.append(np.arange(roads), roads + np.cumsum(~wrong) - 1)
        links = replace(links, edge=rows[links.edge]).take(~wrong)


def _join_links(graph: RoadGraph, links: _Links) -> RoadGraph:
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
    return node_lines(graph, lines, attributes, changes)


def _as_roads(graph: RoadGraph) -> RoadGraph:
    """Return the graph with the attributes of roads that are no links."""
    none, unknown = np.zeros(len(graph.lines), dtype=np.uint8), np.full(len(graph.lines), np.nan)
    return replace(graph, attributes={INFERRED: none, CONFIDENCE: unknown})
