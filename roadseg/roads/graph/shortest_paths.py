"""Shortest paths: costs of routes between places on edges of a road graph; distances nearby.

These places, the control points, are spread along the edges of one graph, and found on another.
"""

import heapq
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import shapely
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from roadseg.arrays import Bools, Columns, Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph, ranges

Weight = Literal["length_m", "travel_time_s"]
_LEAST = 0.75  # An edge shorter than this part of the spacing has no control point.
_DECIMALS = 6  # Decimals of metres: distances that agree to 1 um are equal.


@dataclass(frozen=True)
class ControlPoints(Columns):
    """Places on the edges of a graph.

    Attributes:
        edge: shape (k,), the row of the edge.
        fraction: shape (k,), how far along the edge, 0 at its first node and 1 at its last.
    """

    edge: Ints
    fraction: Floats

    def __len__(self) -> int:
        """Return how many points there are."""
        return len(self.edge)


def place_control_points(graph: RoadGraph, *, spacing_m: float) -> tuple[ControlPoints, Floats]:
    """Place control points on all nodes that have an edge and evenly along all edges.

    An edge shorter than 0.75 `spacing_m` gets none, any other max(2, ceil(length / `spacing_m`))
    - 1: one in the middle up to and including twice the spacing.

    Args:
        spacing_m: greatest distance between control points on an edge, above 0.

    Returns:
        The points and their positions, shape (k, 2), from west to east and then south to north.
    """
    used, end = np.unique(graph.ends, return_index=True)
    length = graph.length_m
    pieces = np.maximum(np.ceil(length / spacing_m), 2).astype(np.int64)
    inner = np.where(length < _LEAST * spacing_m, 0, pieces - 1)
    edge = np.repeat(np.arange(len(length)), inner)
    nth = ranges(np.ones_like(inner), inner)
    fraction = nth / pieces[edge]
    middles = shapely.line_interpolate_point(graph.lines[edge], fraction, normalized=True)
    xy = np.concatenate([graph.nodes[used], shapely.get_coordinates(middles)])
    points = ControlPoints(
        np.concatenate([end // 2, edge]), np.concatenate([end % 2, fraction]).astype(np.float64)
    )
    order = np.lexsort([xy[:, 1], xy[:, 0]])
    return points.take(order), xy[order]


def snap_to_edges(xy: Floats, graph: RoadGraph, *, snap_m: float) -> tuple[ControlPoints, Bools]:
    """Find each position on the nearest edge; of those equally near to 1 um, the first.

    Args:
        xy: shape (k, 2), positions in metres.
        graph: roads in metres.
        snap_m: greatest distance at which an edge is found, itself included; above 0.

    Returns:
        The places on the edges, and which of the positions have an edge that near, both for all k
        positions; places of the others are meaningless.
    """
    positions = np.asarray(shapely.points(xy))
    tree = shapely.STRtree(graph.lines)
    position, near = tree.query(positions, predicate="dwithin", distance=snap_m)
    away = shapely.distance(positions[position], graph.lines[near])
    # The first edge of each position in this order is the nearest, by row among equals.
    order = np.lexsort([near, np.round(away, _DECIMALS), position])
    position, first = np.unique(position[order], return_index=True)
    edge, is_near = np.zeros(len(xy), dtype=np.int64), np.zeros(len(xy), dtype=np.bool_)
    edge[position], is_near[position] = near[order][first], True
    fraction = np.zeros(len(xy))
    lines = graph.lines[edge[position]]
    along, length = shapely.line_locate_point(lines, positions[position]), shapely.length(lines)
    fraction[position] = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
    return ControlPoints(edge, fraction), is_near


@dataclass(frozen=True)
class Routes:
    """A graph ready for routing.

    Attributes:
        ends: shape (m, 2), the nodes at which each edge starts and ends.
        cost: shape (m,), what it costs to drive along each edge, either way.
        adjacency: shape (n, n), cost of the cheapest edge between two nodes.
    """

    ends: Ints
    cost: Floats
    adjacency: csr_array

    @classmethod
    def through(cls, graph: RoadGraph, weight: Weight) -> "Routes":
        """Prepare a graph for routes that are short or fast.

        Raises:
            ValueError: `weight` is a column that the edges lack, or that is negative or not finite
                on one of them.
        """
        cost = edge_costs(graph, weight)
        return cls(graph.ends, cost, adjacency(graph.ends, cost, len(graph.nodes)))

    def costs_to(self, goals: ControlPoints) -> Callable[[ControlPoints], Floats]:
        """Return a function that returns the cost of the cheapest route from each start to goals.

        Each start becomes a node of its own, joined to both ends of its edge: one search a start.
        The costs have shape (starts, goals), and are infinite where there is no route.
        """
        arrive = self._to_ends(goals)
        first, last = self.ends[goals.edge].T
        nodes = self.adjacency.shape[0]

        def costs(starts: ControlPoints) -> Floats:
            leave = self._to_ends(starts)
            rows = np.arange(nodes, nodes + len(starts))
            reached = dijkstra(self._with_starts(starts, leave), indices=rows)[:, :nodes]
            # A route arrives at its goal by either end of the goal's edge.
            routes: Floats = np.take(reached, first, axis=1)
            routes += arrive[:, 0]
            other = np.take(reached, last, axis=1)
            other += arrive[:, 1]
            np.minimum(routes, other, out=routes)
            # Start and goal on one edge are also joined by the path along it.
            has_start = np.zeros(len(self.cost), dtype=bool)
            has_start[starts.edge] = True
            near = np.flatnonzero(has_start[goals.edge])
            start, of_near = np.nonzero(starts.edge[:, None] == goals.edge[near])
            goal = near[of_near]
            along = np.abs(leave[start, 0] - arrive[goal, 0])
            routes[start, goal] = np.minimum(routes[start, goal], along)
            return routes

        return costs

    def parts(self, points: ControlPoints) -> Ints:
        """Number the connected part of the graph that each point is in, shape (k,)."""
        edges = np.ones(len(self.adjacency.data)), self.adjacency.indices, self.adjacency.indptr
        _, part = connected_components(csr_array(edges, shape=self.adjacency.shape))
        return np.asarray(part[self.ends[points.edge, 0]], dtype=np.int64)

    def _to_ends(self, points: ControlPoints) -> Floats:
        """Return the cost along its edge from each point to both ends, shape (k, 2)."""
        both = np.column_stack([points.fraction, 1 - points.fraction])
        return both * self.cost[points.edge, None]

    def _with_starts(self, starts: ControlPoints, leave: Floats) -> csr_array:
        """Add a row for each start, with paths to the ends of its edge and none back."""
        old = self.adjacency
        size = old.shape[0] + len(starts)
        rows = old.indptr[-1] + 2 * np.arange(1, len(starts) + 1, dtype=old.indptr.dtype)
        goals = self.ends[starts.edge].ravel().astype(old.indices.dtype)
        data = np.concatenate([old.data, leave.ravel()])
        indices = np.concatenate([old.indices, goals])
        return csr_array((data, indices, np.concatenate([old.indptr, rows])), shape=(size, size))


class RoadDistances:
    """Lengths of the shortest paths along roads from some nodes, the starts, to nodes nearby.

    Args:
        starts: shape (k,), rows of nodes, at least one.
        limit_m: how far to look, from all of them or shape (k,).
    """

    def __init__(self, graph: RoadGraph, starts: Ints, limit_m: Floats | float) -> None:
        """Measure how far the nodes are."""
        self._nodes = len(graph.nodes)
        row, node, metres = _search(graph, starts, np.broadcast_to(limit_m, starts.shape))
        keys = row * self._nodes + node
        order = np.argsort(keys)
        self._keys = keys[order]
        self._metres = metres[order]

    def metres(self, start: Ints, node: Ints) -> Floats:
        """Return metres from starts to nodes (rows of both), infinite beyond the limit."""
        keys = start * self._nodes + node
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._metres[at], np.inf)


def _search(graph: RoadGraph, starts: Ints, limit_m: Floats) -> tuple[Ints, Ints, Floats]:
    """Return row of the start, node and metres between them, for all nodes up to a limit.

    Source: E. W. Dijkstra, "A note on two problems in connexion with graphs", 1959. scipy's takes
    a time for all nodes at each start, be they near or not: 20 times as long for links of a city.
    """
    short = graph.length_m <= limit_m.max()
    node, other = np.concatenate([graph.ends[short], graph.ends[short, ::-1]]).T
    order = np.argsort(node, kind="stable")
    # Arrays of numbers take a fraction of the memory of lists of objects.
    first = array("q", np.searchsorted(node[order], np.arange(len(graph.nodes) + 1)).tobytes())
    others = array("q", other[order].tobytes())
    steps = array("d", np.tile(graph.length_m[short], 2)[order].tobytes())
    rows, nodes, reached = array("q"), array("q"), array("d")
    for row, (start, limit) in enumerate(zip(starts.tolist(), limit_m.tolist(), strict=True)):
        done: set[int] = set()
        heap = [(0.0, start)]
        while heap:
            metres, here = heapq.heappop(heap)
            if here in done or metres > limit:
                continue
            done.add(here)
            rows.append(row)
            nodes.append(here)
            reached.append(metres)
            for i in range(first[here], first[here + 1]):
                heapq.heappush(heap, (metres + steps[i], others[i]))
    return np.array(rows), np.array(nodes), np.array(reached)


def edge_costs(graph: RoadGraph, weight: Weight) -> Floats:
    """Return the cost of each edge, shape (m,); a graph without edges needs no attribute.

    Raises:
        ValueError: `weight` is a column that the edges lack, or that is negative or not finite on
            one of them.
    """
    if weight == "length_m" or len(graph.lines) == 0:
        return graph.length_m
    if weight not in graph.attributes:
        raise ValueError(f"the edges have no {weight}, only {sorted(graph.attributes)}")
    cost = np.asarray(graph.attributes[weight], dtype=np.float64)
    if not np.all((cost >= 0) & np.isfinite(cost)):
        raise ValueError(f"{weight} must be finite and not negative on every edge")
    return cost


def cheapest_of_each(pair: Ints, cost: Floats) -> Ints:
    """Return the row of the least cost for each number of a pair of nodes, by rising numbers."""
    order = np.lexsort([cost, pair])
    return np.asarray(order[np.unique(pair[order], return_index=True)[1]])


def adjacency(ends: Ints, cost: Floats, nodes: int) -> csr_array:
    """Return the cost of the cheapest edge between two nodes, either way, shape (nodes, nodes).

    An edge of cost 0 is a stored zero, which scipy's graph routines count as an edge.
    """
    start, goal = np.concatenate([ends, ends[:, ::-1]]).T
    both = np.concatenate([cost, cost])
    # The constructor would add up parallel edges.
    cheapest = cheapest_of_each(start * nodes + goal, both)
    return csr_array((both[cheapest], (start[cheapest], goal[cheapest])), shape=(nodes, nodes))
