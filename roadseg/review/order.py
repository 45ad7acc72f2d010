"""Order of looks: at which edges a person should look first; pure."""

import numpy as np
from scipy.sparse.csgraph import dijkstra

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.graph.shortest_paths import adjacency, cheapest_of_each

_STARTS = 24  # Places from which paths to all others are searched.
_CARRIED = 4.0  # Weight of the share of roads that is reached through an edge.
_NOT_KNOWN = 0.5  # Probability of edges of which none is known.


def worth_of_looks(graph: RoadGraph, probability: Floats) -> Floats:
    """Return what it is worth to look at each edge, shape (m,): the higher, the sooner.

    That is doubt x length x (1 + 4 x the share of the roads that is reached through it). Without a
    look an edge stays in the graph, so the doubt is the probability that it is not a road. It is
    squared, as on ground that a network has not seen, edges of middling confidence are mostly real
    or mostly not; `scripts/bench_review.py` measures that fewer looks are needed then.

    Args:
        graph: roads in metres.
        probability: shape (m,), that each edge is a road, 0 to 1; NaN where it is not known.
    """
    doubt = (1 - np.where(np.isnan(probability), _NOT_KNOWN, probability)) ** 2
    return doubt * graph.length_m * (1 + _CARRIED * carried_share(graph))


def carried_share(graph: RoadGraph) -> Floats:
    """Return the share of the roads of its connected part that is reached through each edge.

    It is the mean over shortest paths from evenly spread nodes to all edges, so that it is high for
    what would be cut off, or have a long detour, without the edge: at most one half, as of an edge
    between two halves the smaller one counts. It takes time in proportion to the size of the graph,
    times its logarithm.

    Source: betweenness centrality, estimated from a sample of sources as by U. Brandes and C. Pich,
    "Centrality estimation in large networks", 2007; that paths are weighted by length is ours.
    """
    length = graph.length_m
    shares = np.zeros(len(length))
    if not len(length):
        return shares
    part = components(graph)
    metres = np.bincount(part[graph.ends[:, 0]], weights=length).astype(np.float64)
    starts = _spread(part, metres)
    nodes = len(graph.nodes)
    low, high = np.sort(graph.ends, axis=1).T
    pair = low * nodes + high
    cheapest = cheapest_of_each(pair, length)
    ways = adjacency(graph.ends, length, nodes)
    # Half of each edge hangs on either end, so that a sum over nodes is a sum over edges.
    own = np.bincount(graph.ends.ravel(), weights=np.repeat(length / 2, 2), minlength=nodes)
    reached, before = dijkstra(ways, indices=starts, return_predecessors=True)
    for start, away, parent in zip(starts, reached, before, strict=True):
        # From the farthest node on, each hands what hangs on it to the one before it.
        hanging = own.tolist()
        parents = parent.tolist()
        for node in np.argsort(-np.where(np.isfinite(away), away, -1)).tolist():
            if parents[node] >= 0:
                hanging[parents[node]] += hanging[node]
        below = np.flatnonzero(parent >= 0)
        ends = np.sort(np.column_stack([below, parent[below]]), axis=1)
        edge = cheapest[np.searchsorted(pair[cheapest], ends[:, 0] * nodes + ends[:, 1])]
        beyond = np.array(hanging)[below] / metres[part[start]]
        of_part = np.count_nonzero(part[starts] == part[start])
        shares[edge] += np.minimum(beyond, 1 - beyond).clip(0) / of_part
    return shares


def _spread(part: Ints, metres: Floats) -> Ints:
    """Return nodes from which to search: more in longer connected parts, and evenly among theirs.

    Parts that are too short for one have none: no path of importance leads through them.
    """
    starts = []
    for number in np.flatnonzero(metres * _STARTS >= metres.sum()):
        count = max(round(_STARTS * metres[number] / metres.sum()), 1)
        members = np.flatnonzero(part == number)
        starts.append(members[np.linspace(0, len(members) - 1, count + 2).astype(int)[1:-1]])
    return np.concatenate([np.zeros(0, dtype=np.int64), *starts]).astype(np.int64)
