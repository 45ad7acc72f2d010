"""RoadDistances: how far it is along roads between nodes nearby, and places along roads."""

import heapq
from array import array

import numpy as np
import shapely

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, ranges

_SPACING_M = 1.0  # Metres between the places along roads at which links may land.


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
