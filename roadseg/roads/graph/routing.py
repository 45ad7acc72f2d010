"""Routing: the cheapest route from one node of a road graph to another, edge by edge."""

import numpy as np
import shapely
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.groups import begin_runs
from roadseg.roads.graph.road_graph import ONE_WAY, RoadGraph, cut_lines, part_attributes
from roadseg.roads.graph.shortest_paths import Weight, cheapest_of_each, edge_costs

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


def shortest_path(graph: RoadGraph, start: int, goal: int, *, weight: Weight) -> RoadGraph | None:
    """Find the cheapest route between two nodes.

    Edges are driven both ways, unless the attribute `oneway` is 1 (along the line only) or -1
    (against it only).

    Args:
        start: row of the node at which the route begins.
        goal: row of the node at which it ends.

    Returns:
        The edges of the route in the order and direction in which they are driven, from one node to
        the next: node 0 is the start, the last one the goal; no edges if start and goal are one.
        None if no route leads from one to the other.

    Raises:
        ValueError: `weight` is a column that the edges lack, or that is negative or not finite on
            one of them.

    Source: E. W. Dijkstra, "A note on two problems in connexion with graphs", Numerische
    Mathematik 1 (1959), as scipy has it.
    """
    (pair, cost, edge), count = _cheapest(graph, weight), len(graph.nodes)
    drives = csr_array((cost, np.divmod(pair, count)), shape=(count, count))
    _, (before,) = dijkstra(drives, indices=[start], return_predecessors=True)
    if start != goal and before[goal] < 0:
        return None
    # The route is read back from the goal, from each node to the one before it.
    passed = [goal]
    while passed[-1] != start:
        passed.append(int(before[passed[-1]]))
    nodes = np.array(passed[::-1], dtype=np.int64)
    edges = edge[np.searchsorted(pair, nodes[:-1] * count + nodes[1:])]
    lines, order = graph.lines[edges], np.arange(len(nodes))
    # Edges that are driven backwards are turned round.
    is_back = graph.ends[edges, 0] != nodes[:-1]
    attributes = {name: column[edges] for name, column in graph.attributes.items()}
    if ONE_WAY in attributes:
        attributes[ONE_WAY] = np.where(is_back, -attributes[ONE_WAY], attributes[ONE_WAY])
    return RoadGraph(
        graph.crs,
        graph.nodes[nodes],
        np.column_stack([order[:-1], order[1:]]),
        np.where(is_back, shapely.reverse(lines), lines),
        attributes,
    )


def route_line(route: RoadGraph) -> shapely.LineString:
    """Return a route of `shortest_path` as one line; one without edges as a point twice."""
    xy = shapely.get_coordinates(route.lines)
    if len(xy) == 0:
        return shapely.LineString(route.nodes[[0, 0]])
    return shapely.LineString(xy[begin_runs(*xy.T)])


def _split(graph: RoadGraph, edge: int, along_m: float) -> RoadGraph:
    line, node = graph.lines[edge], len(graph.nodes)
    source = np.append(np.arange(len(graph.lines)), edge)
    lines, ends, part = graph.lines[source], graph.ends[source], np.ones(len(source))
    begin, end = np.array([0, along_m]), np.array([along_m, line.length])
    lines[[edge, -1]] = cut_lines(lines[[edge, edge]], begin, end)
    ends[edge, 1] = ends[-1, 0] = node
    part[edge] = along_m / line.length
    part[-1] = 1 - part[edge]
    nodes = np.concatenate([graph.nodes, shapely.get_coordinates(lines[edge])[-1:]])
    return RoadGraph(graph.crs, nodes, ends, lines, part_attributes(graph.attributes, source, part))


def _cheapest(graph: RoadGraph, weight: Weight) -> tuple[Ints, Floats, Ints]:
    """Return the cheapest edge from one node to another, for each two that one joins.

    Returns:
        First node times the number of nodes, plus last node, rising; the cost; and the row of the
        edge, all of shape (k,).
    """
    cost = edge_costs(graph, weight)
    one_way = graph.column(ONE_WAY, 0.0)
    along, back = np.flatnonzero(one_way >= 0), np.flatnonzero(one_way <= 0)
    edge = np.concatenate([along, back])
    ends = np.concatenate([graph.ends[along], graph.ends[back, ::-1]])
    pair = ends[:, 0] * len(graph.nodes) + ends[:, 1]
    cheapest = cheapest_of_each(pair, cost[edge])
    edge = edge[cheapest]
    return pair[cheapest], cost[edge], edge
