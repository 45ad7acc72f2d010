"""Routing: the cheapest way from one node of a road graph to another, edge by edge."""

import numpy as np
import shapely
from scipy.sparse.csgraph import dijkstra
from shapely.ops import substring

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph, part_attributes
from roadseg.roads.graph.shortest_paths import Routes, Weight

_AT_END_M = 0.001  # Metres; a place no further from the end of its edge is the node there.


def add_node(graph: RoadGraph, xy: Floats) -> tuple[RoadGraph, int, float]:
    """Make the place on the roads that is nearest to a position a node.

    Its edge is split there, unless the place is at an end of it. The first part stays in its row,
    the second becomes the last edge.

    Args:
        graph: roads in metres, at least one.
        xy: shape (2,), a position in metres.

    Returns:
        The graph, the row of the node in it, and the distance of the position from it in metres.
    """
    point = shapely.Point(xy)
    tree = shapely.STRtree(graph.lines)
    rows, away = tree.query_nearest(point, all_matches=False, return_distance=True)
    edge = int(rows[0])
    along, length = graph.lines[edge].project(point), graph.lines[edge].length
    # A place at the end of its edge is the node there, so that no edge without length is made.
    if min(along, length - along) <= _AT_END_M:
        node = graph.ends[edge, 0 if along <= length / 2 else 1]
        return graph, int(node), float(away[0])
    return _split(graph, edge, along), len(graph.nodes), float(away[0])


def find_way(graph: RoadGraph, start: int, goal: int, *, weight: Weight) -> RoadGraph | None:
    """Find the cheapest way between two nodes.

    Args:
        graph: roads in metres.
        start: row of the node at which the way begins.
        goal: row of the node at which it ends.
        weight: what is least in sum.

    Returns:
        The edges of the way in the order and direction in which they are driven, from one node to
        the next: node 0 is the start, the last one the goal; no edges if start and goal are one.
        None if the nodes are not connected.

    Raises:
        ValueError: `weight` is a column that the edges lack, or that is negative or not finite on
            one of them.

    Source: E. W. Dijkstra, "A note on two problems in connexion with graphs", Numerische
    Mathematik 1 (1959), as scipy has it.
    """
    routes = Routes.through(graph, weight)
    _, (before,) = dijkstra(routes.adjacency, indices=[start], return_predecessors=True)
    if start != goal and before[goal] < 0:
        return None
    # The way is read back from the goal, from each node to the one before it.
    passed = [goal]
    while passed[-1] != start:
        passed.append(int(before[passed[-1]]))
    nodes = np.array(passed[::-1], dtype=np.int64)
    edges = _cheapest(routes, nodes)
    lines, order = graph.lines[edges], np.arange(len(nodes))
    # Edges that are driven backwards are turned round.
    is_back = graph.ends[edges, 0] != nodes[:-1]
    return RoadGraph(
        graph.crs,
        graph.nodes[nodes],
        np.column_stack([order[:-1], order[1:]]),
        np.where(is_back, shapely.reverse(lines), lines),
        {name: column[edges] for name, column in graph.attributes.items()},
    )


def line_of(way: RoadGraph) -> shapely.LineString:
    """Return a way, as `find_way` returns it, as one line; of one without edges a point twice."""
    xy = shapely.get_coordinates(way.lines)
    if len(xy) == 0:
        return shapely.LineString(way.nodes[[0, 0]])
    moved = np.ones(len(xy), dtype=np.bool_)
    moved[1:] = (xy[1:] != xy[:-1]).any(axis=1)
    return shapely.LineString(xy[moved])


def _split(graph: RoadGraph, edge: int, along_m: float) -> RoadGraph:
    line, node = graph.lines[edge], len(graph.nodes)
    source = np.append(np.arange(len(graph.lines)), edge)
    lines, ends, part = graph.lines[source], graph.ends[source], np.ones(len(source))
    lines[edge], lines[-1] = substring(line, 0, along_m), substring(line, along_m, line.length)
    ends[edge, 1] = ends[-1, 0] = node
    part[edge] = along_m / line.length
    part[-1] = 1 - part[edge]
    nodes = np.concatenate([graph.nodes, shapely.get_coordinates(lines[edge])[-1:]])
    return RoadGraph(graph.crs, nodes, ends, lines, part_attributes(graph.attributes, source, part))


def _cheapest(routes: Routes, nodes: Ints) -> Ints:
    """Return the row of the cheapest edge between each node and the next."""
    size = routes.adjacency.shape[0]
    low, high = np.sort(routes.ends, axis=1).T
    pair = low * size + high
    order = np.lexsort([routes.cost, pair])
    pairs, first = np.unique(pair[order], return_index=True)
    low, high = np.sort([nodes[:-1], nodes[1:]], axis=0)
    return np.asarray(order[first[np.searchsorted(pairs, low * size + high)]], dtype=np.int64)
