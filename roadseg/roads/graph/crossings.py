"""Crossings: where two roads of a graph that meet in one node probably pass over each other."""

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats
from roadseg.roads.graph.road_graph import RoadGraph

_ROADS_MEET = 4  # Edge ends at a crossing of two roads.
_LOOK_M = 20.0  # Metres along an edge that show where it leads.
_MOST_BEND_DEG = 20.0  # Degrees; a road that bends by no more goes straight on.
_FAST_KPH = 80.0  # Roads so fast rarely have crossings: motorways, trunk roads.
_SLOWER_KPH = 25.0  # The other road is slower by this much at least.


def likely_bridges(graph: RoadGraph) -> Bools:
    """Return the nodes at which one road probably passes over or under the other.

    Seen from above a bridge looks like a crossing, and a traced graph joins the two roads there.
    Nothing is cut, as a wrong cut loses ways that exist; the node is only marked, for a person to
    look at. The rule is a heuristic: four edge ends meet; those opposite each other form two roads
    that both go straight on, to 20 degrees, as seen 20 m along the edges; one road is fast (both
    its edges at least 80 km/h) and both edges of the other are slower than either of these by at
    least 25 km/h. Bridges between roads of like speed are not found, nor those whose crossing was
    traced as two nodes.

    Args:
        graph: roads in metres; without the attribute `speed_kph` nothing is marked.

    Returns:
        Shape (n,), true where the roads are probably on two levels.
    """
    is_bridge = np.zeros(len(graph.nodes), dtype=np.bool_)
    nodes = np.flatnonzero(graph.degree == _ROADS_MEET)
    if "speed_kph" not in graph.attributes or len(nodes) == 0:
        return is_bridge
    at_node = graph.ends.ravel()
    halves = np.flatnonzero(np.isin(at_node, nodes))
    heading = _headings(graph)[halves]
    # Sorted by direction, the edge ends 0 and 2 of a node are opposite, and so are 1 and 3.
    order = np.lexsort([heading, at_node[halves]])
    rows = (-1, _ROADS_MEET)
    heading = heading[order].reshape(rows)
    speed = np.asarray(graph.attributes["speed_kph"], dtype=np.float64)[halves // 2]
    is_bridge[nodes] = _is_straight(heading) & _differ(speed[order].reshape(rows))
    return is_bridge


def _headings(graph: RoadGraph) -> Floats:
    """Return the direction in degrees in which each edge leaves both its nodes, shape (2 m,)."""
    look = np.minimum(_LOOK_M, graph.length_m / 2)
    ahead = shapely.line_interpolate_point(np.repeat(graph.lines, 2), _both_ways(look))
    x, y = (shapely.get_coordinates(ahead) - graph.nodes[graph.ends.ravel()]).T
    return np.asarray(np.degrees(np.arctan2(y, x)))


def _both_ways(length: Floats) -> Floats:
    """Return lengths from the start of each line, then from its end, which are negative."""
    return np.column_stack([length, -length]).ravel()


def _is_straight(heading: Floats) -> Bools:
    """Return where both pairs of opposite directions, shape (k, 4) and rising, lead straight on."""
    bend = np.abs(heading[:, 2:] - heading[:, :2] - 180)
    return np.asarray((bend <= _MOST_BEND_DEG).all(axis=1))


def _differ(speed: Floats) -> Bools:
    """Return where one road, edges 0 and 2 or 1 and 3 of (k, 4), is fast, the other much slower."""
    least = np.minimum(speed[:, :2], speed[:, 2:])
    most = np.maximum(speed[:, :2], speed[:, 2:])
    is_fast = least >= _FAST_KPH
    is_slower = most[:, ::-1] <= least - _SLOWER_KPH
    return np.asarray((is_fast & is_slower).any(axis=1))
