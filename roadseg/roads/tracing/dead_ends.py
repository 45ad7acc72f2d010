"""DeadEnds: where roads end, where they head, and the links that may continue them."""

import heapq
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.spatial import KDTree

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, in_parts, lines_from, ranges

_HEADING_M = 15.0  # Metres of road from which the heading of a dead end is taken.
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


@dataclass(frozen=True)
class DeadEnds:
    """Ends of roads at which no other road begins.

    Attributes:
        edge: shape (k,), the row of the edge that ends; an edge may end twice.
        node: shape (k,), the row of its node.
        place: shape (k, 2), x and y of the node in metres.
        heading: shape (k, 2), unit vector of the last 15 m of the edge.
    """

    edge: Ints
    node: Ints
    place: Floats
    heading: Floats


def find_dead_ends(graph: RoadGraph, border: shapely.Geometry | None, border_m: float) -> DeadEnds:
    """Find the dead ends of a graph that are further than `border_m` from a border."""
    edges, sides = np.nonzero(graph.degree[graph.ends] == 1)
    nodes = graph.ends[edges, sides]
    places = graph.nodes[nodes]
    if border is not None:
        tree = shapely.STRtree(shapely.get_parts(border))  # a border may be of many parts
        near = tree.query(shapely.points(places), predicate="dwithin", distance=border_m)[0]
        inner = ~np.isin(np.arange(len(places)), near)
        edges, sides, nodes, places = edges[inner], sides[inner], nodes[inner], places[inner]
    return DeadEnds(edges, nodes, places, headings(graph, edges, sides == 0))


def are_lone(graph: RoadGraph, edge: Ints) -> Bools:
    """Return which of these edges are dead ends at both ends."""
    return np.asarray((graph.degree[graph.ends[edge]] == 1).all(axis=1))


def headings(graph: RoadGraph, edge: Ints, at_start: Bools) -> Floats:
    """Return unit vectors of the last 15 m of edges towards their start, or else their end."""
    back_m = np.minimum(_HEADING_M, graph.length_m[edge])
    lines = graph.lines[edge]
    behind = shapely.line_interpolate_point(lines, np.where(at_start, back_m, -back_m))
    last = graph.nodes[np.where(at_start, graph.ends[edge, 0], graph.ends[edge, 1])]
    return unit(last - shapely.get_coordinates(behind))


@dataclass(frozen=True)
class RoadsAhead:
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
    ) -> "RoadsAhead":
        """Index the roads, and measure along them."""
        distances = RoadDistances(graph, ends.node, _DETOUR * max_gap_m)
        return cls(graph, ends, shapely.STRtree(graph.lines), distances, max_gap_m, least_cos)


@dataclass(frozen=True)
class Links:
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

    def take(self, chosen: Ints | Bools) -> "Links":
        """Return the chosen links, by row or by a boolean for each."""
        return Links(*(getattr(self, column.name)[chosen] for column in fields(self)))

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


def together(parts: Sequence[Links]) -> Links:
    """Return the links of all parts, one part after the other."""
    columns = (column.name for column in fields(Links))
    return Links(*(np.concatenate([getattr(part, c) for part in parts]) for c in columns))


def link_cost(metres: Floats, turn: Floats, *, is_facing: Bools | bool) -> Floats:
    """Return the cost of links by their length, and the mean cosine by which they turn.

    A link between dead ends that face each other counts as half as long.
    """
    factor = np.where(is_facing, _FACING_COST, 1)
    return np.asarray(metres * (1 + _TURN_COST * (1 - turn)) * factor)


def facing_links(roads: RoadsAhead) -> Links:
    """List the links between dead ends ahead of each other, by rules 1 to 3 of `link_gaps`."""
    ends = roads.ends
    # Rule 1: the ends of a link are no further apart than the longest gap.
    pairs = KDTree(ends.place).query_pairs(roads.max_gap_m, output_type="ndarray")
    left, right = pairs.T.astype(np.int64)
    steps = ends.place[right] - ends.place[left]
    gap = np.hypot(*steps.T)
    forth, back = cosine(steps, ends.heading[left]), cosine(-steps, ends.heading[right])
    cost = link_cost(gap, (forth + back) / 2, is_facing=True)
    links = _straight(ends, left, right, ends.edge[right], landing=ends.place[right], cost=cost)
    # Rule 2: it turns off the headings of both by no more than the greatest turn.
    ahead = np.minimum(forth, back) >= roads.least_cos
    # Rule 3: no road of up to 1.5 times its length joins them already.
    is_apart = roads.distances.metres(left, ends.node[right]) > _DETOUR * gap
    return links.take(ahead & is_apart)


def side_links(roads: RoadsAhead, chosen: Ints) -> Links:
    """List the best link of the chosen dead ends to the side of each edge ahead of them.

    Rules 1 to 7 of `link_gaps` hold; the best link to an edge is the one of least cost.
    """
    parts = in_parts(chosen, _ENDS_AT_ONCE)
    return together([_some_side_links(roads, some, chosen) for some in parts])


def _some_side_links(roads: RoadsAhead, some: Ints, chosen: Ints) -> Links:
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
    cost = link_cost(gap, turn, is_facing=False)
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
) -> Links:
    line = np.asarray(shapely.linestrings(np.stack([ends.place[end], landing], axis=1)))
    return Links(end, facing, edge, landing, cost, line, np.zeros(len(end)))


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
    travelled = np.cumsum(np.where(np.diff(line, prepend=-1) > 0, 1.0, steps))  # 1 m between lines
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
    rows, nodes, reached = array("q"), array("q"), array("d")  # of numbers, not of objects
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


def cosine(steps: Floats, headings: Floats) -> Floats:
    """Return the cosine of the angle between steps and headings (unit vectors)."""
    return np.asarray(np.sum(unit(steps) * headings, axis=1), dtype=np.float64)


def unit(vectors: NDArray[np.float64]) -> Floats:
    """Return vectors, shape (n, 2), with a length of 1; those of length 0 stay."""
    lengths = np.hypot(*vectors.T)[:, np.newaxis]
    return vectors / np.where(lengths > 0, lengths, 1)
