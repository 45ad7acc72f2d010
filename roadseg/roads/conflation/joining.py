"""Joining: draw the ends of new roads to the ways of a map."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines, Shapes
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.conflation.missing_parts import MissingParts
from roadseg.roads.graph.directions import cosine
from roadseg.roads.graph.road_graph import RoadGraph, end_points, vertices_along
from roadseg.roads.tracing.dead_ends import are_clear, headings, link_costs, longest_links_m

_LEAST_COS = np.cos(np.radians(60))  # A link turns off the heading of a dead end by this at most.
_PASS_M = 2.0  # Metres; a road that passes a dead end for cars this near to it meets it.
_TOUCH_M = 0.05  # Metres; the same for a dead end of another way, in spite of rounding.
_CLEAR_M = 0.05  # Metres from its ends from which on a link meets no other way.
VERTEX_M = 1.0  # Metres; vertices of a new road this near to a node on the map are left out.
_KINK_M = 1.0  # Metres; vertices this near to a new end of a road are left out.


@dataclass(frozen=True)
class Joints:
    """Where the nodes of new roads are joined to a map.

    Attributes:
        way: shape (n,), row of the way of each node, -1 for none.
        along_m: shape (n,), distance of the place from the start of the way.
        xy: shape (n, 2), the place; that of the node itself where it is not joined.
        is_link: shape (n,), joined across a gap, which the prediction does not show.
    """

    way: Ints
    along_m: Floats
    xy: Floats
    is_link: Bools

    @property
    def is_joined(self) -> Bools:
        """Which nodes are joined to the map."""
        return self.way >= 0

    def at_nodes(self, ends: Ints) -> "Joints":
        """Return those of the nodes at ends of chosen edges."""
        used = np.unique(ends)
        return Joints(self.way[used], self.along_m[used], self.xy[used], self.is_link[used])


def find_joints(
    parts: MissingParts, ways: MapWays, *, tolerance_m: float, max_gap_m: float
) -> Joints:
    """Find the places of the map to which new roads are drawn.

    1. A node within `tolerance_m` of a way is joined to the nearest one for cars, or to the nearest
       of all ways if there is none: there the prediction has both roads.
    2. A dead end is joined to it only within half of that. Further on it is linked: to the way
       within `max_gap_m` to which it turns by 60 degrees at most, on a straight line that meets
       nothing on its way, no longer than three quarters of the road that it continues (0.4 if that
       has two dead ends). Of several ways the nearest counts, turning by 60 degrees as twice the
       distance.

    Args:
        tolerance_m: distance up to which roads are the same, metres.

    Source: the rules of `roads.tracing.linking` without a raster.
    """
    nodes = parts.graph.nodes
    way = np.full(len(nodes), -1, dtype=np.int64)
    reach = np.where(parts.is_dead_end, tolerance_m / 2, tolerance_m)
    for chosen in (np.flatnonzero(ways.is_open), np.arange(len(ways.lines))):
        free = np.flatnonzero(way < 0)
        way[free] = _nearest(nodes[free], reach[free], ways.lines, chosen)
    is_near = way >= 0
    ends = np.flatnonzero(parts.is_dead_end & ~is_near)
    way[ends] = _link(parts.graph, ends, ways, max_gap_m)
    joined = np.flatnonzero(way >= 0)
    along, xy = np.zeros(len(nodes)), nodes.copy()
    lines = ways.lines[way[joined]]
    along[joined] = shapely.line_locate_point(lines, shapely.points(nodes[joined]))
    xy[joined] = shapely.get_coordinates(shapely.line_interpolate_point(lines, along[joined]))
    is_link = ~is_near & (np.hypot(*(xy - nodes).T) > tolerance_m)
    return Joints(way, along, xy, is_link)


def draw_to_joints(parts: MissingParts, joints: Joints, *, tolerance_m: float) -> Lines:
    """Return the lines of new roads, drawn to the places at which they are joined.

    An end is moved to a place within half the tolerance, and one that several roads share always;
    a longer way is drawn as a straight piece.
    """
    graph = parts.graph
    apart = np.hypot(*(joints.xy - graph.nodes).T)
    is_moved = (apart <= tolerance_m / 2) | (graph.degree > 1)
    lines = graph.lines.copy()
    changes = joints.is_joined[graph.ends].any(axis=1)
    for row in np.flatnonzero(changes).tolist():
        lines[row] = _draw_to_map(graph, row, joints, apart, is_moved)
    return lines


def meetings(lines: Lines, ways: MapWays) -> tuple[Ints, Floats, Ints, Floats]:
    """Find the places at which new roads cross ways of a map, or pass dead ends of them.

    The last metre before the ends of a new road is not looked at.

    Args:
        ways: of the map; those on other levels are not crossed.

    Returns:
        The row of the new road and the distance along it, the row of the way and the distance along
        that, each of shape (c,).
    """
    columns = zip(_crossings(lines, ways), _passed_ends(lines, ways), strict=True)
    line, points, way, there = map(np.concatenate, columns)
    along = shapely.line_locate_point(lines[line], points)
    inside = np.minimum(along, shapely.length(lines[line]) - along) > VERTEX_M
    return line[inside], along[inside], way[inside], there[inside]


def _crossings(lines: Lines, ways: MapWays) -> tuple[Ints, Shapes, Ints, Floats]:
    """Return where lines cross ways: line, place, way, and distance along the way."""
    level = np.flatnonzero(~ways.is_apart)
    line, hit = shapely.STRtree(ways.lines[level]).query(lines, predicate="intersects")
    crossings = shapely.intersection(lines[line], ways.lines[level[hit]])
    xy, at = shapely.get_coordinates(crossings, return_index=True)
    points, way = np.asarray(shapely.points(xy)), level[hit[at]]
    return line[at], points, way, np.asarray(shapely.line_locate_point(ways.lines[way], points))


def _passed_ends(lines: Lines, ways: MapWays) -> tuple[Ints, Shapes, Ints, Floats]:
    """Return which lines pass dead ends of ways: line, place, way, and distance along the way."""
    way, side = np.nonzero(ways.is_dead_end)
    reach = np.where(ways.is_open[way], _PASS_M, _TOUCH_M)
    places = np.asarray(shapely.get_point(ways.lines[way], np.where(side == 0, 0, -1)))
    end, line = shapely.STRtree(lines).query(places, predicate="dwithin", distance=reach)
    return line, places[end], way[end], shapely.length(ways.lines[way[end]]) * side[end]


def _nearest(places: Floats, reach: Floats, lines: Lines, chosen: Ints) -> Ints:
    """Return the row of the nearest of the chosen lines within reach of each place, or -1."""
    nearest = np.full(len(places), -1, dtype=np.int64)
    if len(places) == 0 or len(chosen) == 0:
        return nearest
    (row, hit), distance = shapely.STRtree(lines[chosen]).query_nearest(
        shapely.points(places), return_distance=True, all_matches=False
    )
    # A cut end lies just beyond the tolerance.
    near = distance <= reach[row] + 2 * _CLEAR_M
    nearest[row[near]] = chosen[hit[near]]
    return nearest


def _link(graph: RoadGraph, ends: Ints, ways: MapWays, max_gap_m: float) -> Ints:
    """Return for each of these dead ends the way to which it is linked, or -1."""
    linked = np.full(len(ends), -1, dtype=np.int64)
    edges, sides = np.nonzero(np.isin(graph.ends, ends))
    end = np.searchsorted(ends, graph.ends[edges, sides])
    chosen = np.flatnonzero(ways.is_open)
    if len(end) == 0 or len(chosen) == 0 or max_gap_m <= 0:
        return linked
    heading = headings(graph, edges, sides == 0)
    points = np.asarray(shapely.points(graph.nodes[ends[end]]))
    tree = shapely.STRtree(ways.lines[chosen])
    row, hit = tree.query(points, predicate="dwithin", distance=max_gap_m)
    link = np.asarray(shapely.shortest_line(points[row], ways.lines[chosen[hit]]))
    length = shapely.length(link)
    start, stop = end_points(link).transpose(1, 0, 2)
    turn = cosine(stop - start, heading[row])
    cost = link_costs(length, turn)
    fits = (turn >= _LEAST_COS) & (length <= longest_links_m(graph, edges)[row])
    fits &= are_clear(link, tree, shapely.STRtree(graph.lines))
    for candidate in np.argsort(cost, kind="stable").tolist():
        at = end[row[candidate]]
        if fits[candidate] and linked[at] < 0:
            linked[at] = chosen[hit[candidate]]
    return linked


def _draw_to_map(
    graph: RoadGraph, row: int, joints: Joints, apart: Floats, is_moved: Bools
) -> shapely.LineString:
    """Draw the joined ends of one line to their places on the map."""
    xy, _, along = vertices_along(graph.lines[row])
    keeps = np.ones(len(xy), dtype=bool)
    ends = [xy[:0], xy[:0]]
    nodes = graph.ends[row].tolist()
    for side, node in enumerate(nodes):
        if joints.way[node] >= 0:
            ends[side] = joints.xy[node : node + 1]
            if is_moved[node]:
                # What lies behind the new end would be a hook.
                from_end = along if side == 0 else along[-1] - along
                keeps &= from_end > apart[node] + _KINK_M
    for vertex, node in zip((0, -1), nodes, strict=True):
        keeps[vertex] = joints.way[node] < 0 or not is_moved[node]
    return shapely.LineString(np.concatenate([ends[0], xy[keeps], ends[1]]))
