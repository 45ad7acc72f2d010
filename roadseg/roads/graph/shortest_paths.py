"""Routes: the cheapest ways between places on the edges of a road graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from roadseg.arrays import Columns, Floats, Ints
from roadseg.roads.graph.control_points import ControlPoints
from roadseg.roads.graph.road_graph import RoadGraph, ranges

Weight = Literal["length_m", "travel_time_s"]

_MOST_NEIGHBOURS = 4  # A node with more neighbours is not replaced by shortcuts.
_FEW_NODES = 500  # A search through so few nodes is as fast without shortcuts.
_LEAST_SHARE = 0.02  # A level is worth it if it takes out this share of the nodes left.


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
        return cls(graph.ends, cost, _adjacency(graph.ends, cost, len(graph.nodes)))

    def costs(self, starts: ControlPoints, goals: ControlPoints) -> Floats:
        """Return the cost of the cheapest route from each start to each goal.

        Each start becomes a node of its own, joined to both ends of its edge: one search a start.

        Returns:
            Shape (starts, goals), infinite where there is no route.
        """
        return self.costs_to(goals)(starts)

    def costs_to(self, goals: ControlPoints) -> Callable[[ControlPoints], Floats]:
        """Return a function of starts that returns the costs to the same goals every time."""
        arrive = self._to_ends(goals)
        first, last = self.ends[goals.edge].T

        def costs(starts: ControlPoints) -> Floats:
            leave = self._to_ends(starts)
            reached = self._reached(starts, leave)
            # A route arrives at its goal by either end of the goal's edge.
            routes: Floats = np.take(reached, first, axis=1)
            routes += arrive[:, 0]
            other = np.take(reached, last, axis=1)
            other += arrive[:, 1]
            np.minimum(routes, other, out=routes)
            # Start and goal on one edge are also joined by the way along it.
            start, goal = self._on_one_edge(starts, goals)
            along = np.abs(leave[start, 0] - arrive[goal, 0])
            routes[start, goal] = np.minimum(routes[start, goal], along)
            return routes

        return costs

    def parts(self, points: ControlPoints) -> Ints:
        """Number the connected part of the graph that each point is in, shape (k,)."""
        edges = np.ones(len(self.adjacency.data)), self.adjacency.indices, self.adjacency.indptr
        _, part = connected_components(csr_array(edges, shape=self.adjacency.shape))
        return np.asarray(part[self.ends[points.edge, 0]], dtype=np.int64)

    @cached_property
    def _shortcuts(self) -> "_Shortcuts":
        return _Shortcuts.through(self.adjacency)

    def _reached(self, starts: ControlPoints, leave: Floats) -> Floats:
        """Return the cost of the cheapest route from each start to each node, (starts, nodes)."""
        nodes = self.adjacency.shape[0]
        indices = np.arange(nodes, nodes + len(starts))
        climbed = dijkstra(self._with_starts(starts, leave), indices=indices)
        return self._shortcuts.descend(climbed[:, :nodes])

    def _to_ends(self, points: ControlPoints) -> Floats:
        """Return the cost along its edge from each point to both ends, shape (k, 2)."""
        both = np.column_stack([points.fraction, 1 - points.fraction])
        return both * self.cost[points.edge, None]

    def _on_one_edge(self, starts: ControlPoints, goals: ControlPoints) -> tuple[Ints, Ints]:
        """Return the rows of all starts and goals that lie on the same edge."""
        has_start = np.zeros(len(self.cost), dtype=bool)
        has_start[starts.edge] = True
        near = np.flatnonzero(has_start[goals.edge])
        start, goal = np.nonzero(starts.edge[:, None] == goals.edge[near])
        return start, near[goal]

    def _with_starts(self, starts: ControlPoints, leave: Floats) -> csr_array:
        """Add a row for each start, with ways to the ends of its edge and none back."""
        old = self._shortcuts.upwards
        size = old.shape[0] + len(starts)
        rows = old.indptr[-1] + 2 * np.arange(1, len(starts) + 1, dtype=old.indptr.dtype)
        goals = self.ends[starts.edge].ravel().astype(old.indices.dtype)
        data = np.concatenate([old.data, leave.ravel()])
        indices = np.concatenate([old.indices, goals])
        return csr_array((data, indices, np.concatenate([old.indptr, rows])), shape=(size, size))


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


@dataclass(frozen=True)
class _Ways(Columns):
    """Ways between two nodes, sorted by start and then by goal; shape (k,) each."""

    start: Ints
    goal: Ints
    cost: Floats

    @classmethod
    def cheapest(cls, ways: "Sequence[_Ways]", nodes: int) -> "_Ways":
        """Keep of all ways from one node to another the cheapest."""
        every = cls.joined(ways)
        order = np.lexsort([every.cost, every.goal, every.start])
        pair = every.start[order] * nodes + every.goal[order]
        return every.take(order[np.unique(pair, return_index=True)[1]])

    def matrix(self, nodes: int) -> csr_array:
        """Return them as a matrix, shape (nodes, nodes).

        Its constructor would add up ways alike. It keeps a way of cost 0 as a stored zero, which
        scipy's graph routines count as an edge.
        """
        return csr_array((self.cost, (self.start, self.goal)), shape=(nodes, nodes))


def _adjacency(ends: Ints, cost: Floats, nodes: int) -> csr_array:
    """Return the cost of the cheapest edge between two nodes, either way, shape (nodes, nodes)."""
    first, last = ends.T
    both = _Ways(first, last, cost), _Ways(last, first, cost)
    return _Ways.cheapest(both, nodes).matrix(nodes)


class _Level(NamedTuple):
    """Nodes taken out of a graph at once; no two of them are neighbours.

    Attributes:
        nodes: shape (k,).
        neighbours: shape (k, 4), of higher levels; the node itself where it has fewer.
        cost: shape (k, 4), of the way to each, infinite where there are fewer.
    """

    nodes: Ints
    neighbours: Ints
    cost: Floats

    def ways(self) -> _Ways:
        """Return the ways up from these nodes."""
        row, slot = np.nonzero(np.isfinite(self.cost))
        return _Ways(self.nodes[row], self.neighbours[row, slot], self.cost[row, slot])

    def shortcuts(self) -> _Ways:
        """Return ways between the neighbours of each node that cost as much as through it."""
        cost = self.cost[:, :, None] + self.cost[:, None, :]
        both = self.neighbours[:, :, None], self.neighbours[:, None, :]
        start, goal = np.broadcast_arrays(*both)
        is_way = np.isfinite(cost) & (start != goal)
        return _Ways(start[is_way], goal[is_way], cost[is_way])


@dataclass(frozen=True)
class _Shortcuts:
    """A graph in which a search meets few nodes, and what it takes to learn of the others.

    Level by level, nodes with few neighbours are taken out and shortcuts between those put in, so
    that what it costs between the nodes left stays. A search climbs from its start to the nodes
    left; then costs come down level by level, for all nodes of one and all starts together.

    Attributes:
        upwards: shape (n, n), the ways up, and both ways between the nodes left.
        levels: what was taken out, in this order.

    Source: R. Geisberger et al., "Contraction Hierarchies: Faster and Simpler Hierarchical Routing
    in Road Networks", WEA 2008; the way down as in D. Delling et al., "PHAST: Hardware-Accelerated
    Shortest Path Trees", IPDPS 2011. We do not ask whether a shortcut is the cheapest way, and
    leave nodes with many neighbours in the graph.
    """

    upwards: csr_array
    levels: Sequence[_Level]

    @classmethod
    def through(cls, adjacency: csr_array) -> "_Shortcuts":
        """Take nodes out of a graph until few are left, or few of them have few neighbours."""
        nodes = adjacency.shape[0]
        if nodes <= _FEW_NODES:
            return cls(adjacency, [])
        (start, goal), cost = adjacency.tocoo().coords, adjacency.data
        ways = _Ways(start.astype(np.int64), goal.astype(np.int64), cost).take(start != goal)
        # Any order of nodes with as many neighbours will do, but that by place makes many levels.
        order = np.random.default_rng(0).permutation(nodes)
        levels: list[_Level] = []
        while (left := len(np.unique(ways.start))) > _FEW_NODES:
            level = _level(ways, order)
            if len(level.nodes) < _LEAST_SHARE * left:
                break
            levels.append(level)
            # What is left are the ways between other nodes, and those through the nodes taken out.
            is_out = np.zeros(nodes, dtype=bool)
            is_out[level.nodes] = True
            rest = ways.take(~(is_out[ways.start] | is_out[ways.goal]))
            ways = _Ways.cheapest([rest, level.shortcuts()], nodes)
        up = [ways, *(level.ways() for level in levels)]
        return cls(_Ways.cheapest(up, nodes).matrix(nodes), levels)

    def descend(self, reached: Floats) -> Floats:
        """Complete what it costs to reach each node, where a search knows the ways up only.

        Args:
            reached: shape (starts, n).
        """
        costs = np.ascontiguousarray(reached.T)
        # From the last level taken out to the first, each learns from its neighbours above.
        for level in reversed(self.levels):
            best = costs.take(level.nodes, axis=0)
            for neighbour, cost in zip(level.neighbours.T, level.cost.T, strict=True):
                np.minimum(best, costs.take(neighbour, axis=0) + cost[:, None], out=best)
            costs[level.nodes] = best
        return np.ascontiguousarray(costs.T)


def _level(ways: _Ways, order: Ints) -> _Level:
    """Choose nodes with few neighbours, each with fewer than its neighbours, or before them."""
    nodes, first, degree = np.unique(ways.start, return_index=True, return_counts=True)
    rank = np.zeros(len(order), dtype=np.int64)
    rank[nodes] = degree * len(order) + order[nodes]
    # A node that ranks before all its neighbours has none of them in its level.
    is_first = rank[nodes] < np.minimum.reduceat(rank[ways.goal], first)
    chosen = np.flatnonzero(is_first & (degree <= _MOST_NEIGHBOURS))
    neighbours = np.repeat(nodes[chosen, None], _MOST_NEIGHBOURS, axis=1)
    cost = np.full(neighbours.shape, np.inf)
    row = np.repeat(np.arange(len(chosen)), degree[chosen])
    slot = ranges(np.zeros_like(chosen), degree[chosen])
    way = first[chosen][row] + slot
    neighbours[row, slot], cost[row, slot] = ways.goal[way], ways.cost[way]
    return _Level(nodes[chosen], neighbours, cost)
