"""Crossings: where roads meet but are not joined, and where they are joined but may be bridges."""

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.spatial import cKDTree

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.cleaning import between_junctions, components
from roadseg.roads.graph.groups import group_means
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    graph_from_lines,
    ranges,
    with_vertices,
)
from roadseg.roads.graph.strokes import headings
from roadseg.system.text import count

_ONE_PLACE_M = 10.0  # Junctions that a shorter edge joins are one place: thinning splits crossings.
_TOUCH_M = 0.05  # Metres between a road and the end of another that leads to it.
_LOOK_M = 20.0  # Metres along an edge that show where it leads.
_MOST_BEND_DEG = 20.0  # Degrees; a road that bends by no more goes straight on.
_FAST_KPH = 80.0  # Roads so fast rarely have crossings: motorways, trunk roads.
_SLOWER_KPH = 25.0  # The other road is slower by this much at least.
_SHORT_M = 35.0  # Shorter edges lie between two crossings, and show the speed of what they cross.
_HOPS = 3  # Short edges in a row that are looked beyond.


@dataclass(frozen=True)
class Unjoined:
    """Where edges of a graph cross or touch on one level without a common node.

    Attributes:
        edge: shape (k,), the row of an edge that passes such a place; a place has several.
        xy: shape (k, 2), the place, on whole millimetres.
        is_end: shape (k,), whether an edge ends there; else two cross.
    """

    edge: Ints
    xy: Floats
    is_end: Bools

    def __str__(self) -> str:
        """Return how many places there are, in words; "" if there are none."""
        places, first = np.unique(self.xy, axis=0, return_index=True)
        ends = int(self.is_end[first].sum())
        if not len(places):
            return ""
        return (
            f"{count(len(places) - ends, 'crossing')} and {count(ends, 'touching end')} without a "
            "common vertex, so these roads are not connected"
        )


def find_unjoined(graph: RoadGraph) -> Unjoined:
    """Find the places at which edges cross, or end on others, without a common node.

    An end is on a road that is no more than 5 cm away. Where the attribute `layer` differs one road
    passes over the other, and nothing is unjoined. An edge that crosses itself is not looked at.

    Args:
        graph: roads in metres.
    """
    layer = graph.attributes.get("layer", np.zeros(len(graph.lines)))
    tree = shapely.STRtree(graph.lines)
    one, two = tree.query(graph.lines, predicate="dwithin", distance=_TOUCH_M)
    chosen = (one < two) & (layer[one] == layer[two])
    one, two = one[chosen], two[chosen]
    ends = np.concatenate([graph.ends[one], graph.ends[two]], axis=1)
    crossing, pair = shapely.get_coordinates(
        shapely.intersection(graph.lines[one], graph.lines[two]), return_index=True
    )
    # Of each pair, all four ends that lie on the other edge are places as well.
    others = graph.lines[np.column_stack([two, two, one, one])]
    touches = shapely.distance(shapely.points(graph.nodes[ends]), others) <= _TOUCH_M
    pair = np.concatenate([pair, np.nonzero(touches)[0]])
    xy = np.concatenate([crossing, graph.nodes[ends[touches]]])
    # A place so near to an end is that end, the first of several; a common end joins both.
    apart = np.hypot(*np.moveaxis(graph.nodes[ends[pair]] - xy[:, None], -1, 0))
    node = np.where(apart <= _TOUCH_M, ends[pair], len(graph.nodes))
    is_joined = (node[:, :2, None] == node[:, None, 2:]) & (node[:, :2, None] < len(graph.nodes))
    is_open = ~is_joined.any(axis=(1, 2))
    pair, xy, node = pair[is_open], xy[is_open], node[is_open].min(axis=1, initial=len(graph.nodes))
    is_end = node < len(graph.nodes)
    xy[is_end] = graph.nodes[node[is_end]]
    xy = xy.round(DECIMALS)
    return Unjoined(np.concatenate([one[pair], two[pair]]), np.tile(xy, (2, 1)), np.tile(is_end, 2))


def join_crossings(graph: RoadGraph) -> RoadGraph:
    """Give roads a common node wherever they cross or touch without one; see `find_unjoined`."""
    found = find_unjoined(graph)
    if not len(found.edge):
        return graph
    lines = with_vertices(graph.lines, found.edge, found.xy)
    rows = np.unique(found.edge)
    # A vertex beside the new one is moved there.
    vertices = shapely.get_coordinates(lines[rows])
    places = np.vstack([found.xy, [np.inf, np.inf]])
    _, nearest = cKDTree(found.xy).query(vertices, distance_upper_bound=_TOUCH_M)
    vertices = np.where(np.isfinite(places[nearest]), places[nearest], vertices)
    lines[rows] = shapely.set_coordinates(lines[rows], vertices)
    return graph_from_lines(lines, graph.crs, graph.attributes)


@dataclass(frozen=True)
class _EdgeEnds:
    """The ends of all edges: 2 i is the start of edge i, and 2 i + 1 its end.

    Attributes:
        place: shape (2 m,), the number of the place at which it lies.
        heading: shape (2 m,), the direction in degrees in which its edge leads.
        opposite: shape (2 m,), the edge end of the same place that leads most nearly the other
            way; itself if there is none.
        bend: shape (2 m,), by how many degrees that is not straight on, 0 to 180.
        length_m: shape (2 m,), of its edge.
        speed_kph: shape (2 m,), of its edge.
    """

    place: Ints
    heading: Floats
    opposite: Ints
    bend: Floats
    length_m: Floats
    speed_kph: Floats


def likely_bridges(graph: RoadGraph) -> Bools:
    """Return the nodes at which one road probably passes over or under the other.

    Seen from above a bridge looks like a crossing, and a traced graph joins the two roads there.
    Nothing is cut, as a wrong cut loses ways that exist; the nodes are only marked, for a person to
    look at. The rule is a heuristic:

    1. Junctions that edges of less than 10 m join are one place. Edge ends that lead opposite ways
       from it, to 20 degrees as seen 20 m along the edges, form a road that goes straight on.
    2. The speed of a road is that of its two edges. Instead of edges of less than 35 m, which lie
       between the carriageways of a motorway, those that go straight on from them are asked.
    3. A place is a bridge if one of its roads is fast (both edges at least 80 km/h) and both edges
       of another are slower than either of these by at least 25 km/h.

    Bridges between roads of like speed are not found, nor those whose crossing was traced as two
    junctions that lie further apart.

    Args:
        graph: roads in metres; without the attribute `speed_kph` nothing is marked.

    Returns:
        Shape (n,), true where the roads are probably on two levels.
    """
    if "speed_kph" not in graph.attributes or len(graph.lines) == 0:
        return np.zeros(len(graph.nodes), dtype=np.bool_)
    inside = between_junctions(graph) & (graph.length_m < _ONE_PLACE_M)
    place = components(RoadGraph(graph.crs, graph.nodes, graph.ends[inside], graph.lines[inside]))
    ends = _edge_ends(graph, place, ~inside)
    is_bridge = np.zeros(len(graph.nodes), dtype=np.bool_)  # By place, of which there are no more.
    is_bridge[_of_fast_and_slow(ends, _through_roads(ends))] = True
    return np.asarray(is_bridge[place])


def _edge_ends(graph: RoadGraph, place: Ints, chosen: Bools) -> _EdgeEnds:
    """Return the ends of the chosen edges, seen from the middle of their places."""
    at, lines = place[graph.ends[chosen].ravel()], graph.lines[chosen]
    heading = headings(lines, group_means(graph.nodes, place)[at], look_m=_LOOK_M)
    speed_kph = np.asarray(graph.attributes["speed_kph"], dtype=np.float64)[chosen]
    opposite, bend = _opposites(at, heading)
    length_m = np.repeat(shapely.length(lines), 2)
    return _EdgeEnds(at, heading, opposite, bend, length_m, np.repeat(speed_kph, 2))


def _opposites(place: Ints, heading: Floats) -> tuple[Ints, Floats]:
    """Return for each edge end that which leads most nearly the other way, and by what bend."""
    one, other = _pairs(place)
    bend = np.abs((heading[other] - heading[one]) % 360 - 180)
    order = np.lexsort([bend, one])
    straightest, at = np.unique(one[order], return_index=True)
    opposite, least = np.arange(len(place)), np.full(len(place), 180.0)
    opposite[straightest] = other[order][at]
    least[straightest] = bend[order][at]
    return opposite, least


def _pairs(place: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of two rows of the same place, in both orders."""
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], place)
    sizes = np.bincount(place)[place]
    one, other = np.repeat(np.arange(len(place)), sizes), order[ranges(first, sizes)]
    apart = one != other
    return one[apart], other[apart]


def _through_roads(ends: _EdgeEnds) -> Ints:
    """Return one edge end of each road that goes straight on; its opposite is the other one."""
    rows = np.arange(len(ends.place))
    is_mutual = ends.opposite[ends.opposite] == rows
    return np.flatnonzero(is_mutual & (ends.bend <= _MOST_BEND_DEG) & (rows < ends.opposite))


def _of_fast_and_slow(ends: _EdgeEnds, road: Ints) -> Ints:
    """Return the places at which one of these roads is fast, and another much slower."""
    beyond = _speeds_beyond(ends)
    speeds = np.stack([beyond[road], beyond[ends.opposite[road]]])
    least, most = speeds.min(axis=0), speeds.max(axis=0)
    one, other = _pairs(ends.place[road])
    differ = (least[one] >= _FAST_KPH) & (most[other] <= least[one] - _SLOWER_KPH)
    return np.asarray(ends.place[road[one[differ]]])


def _speeds_beyond(ends: _EdgeEnds) -> Floats:
    """Return the speed of each edge, of short ones that of the edge that goes straight on."""
    row = np.arange(len(ends.place))
    for _ in range(_HOPS):
        far = row ^ 1
        beyond = (ends.length_m[row] < _SHORT_M) & (ends.bend[far] <= _MOST_BEND_DEG)
        row = np.where(beyond, ends.opposite[far], row)
    return np.asarray(ends.speed_kph[row])
