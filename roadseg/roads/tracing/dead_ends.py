"""DeadEnds: where roads end, where they head, and how far along roads other places are."""

import heapq
from array import array
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, ranges

_HEADING_M = 15.0  # length of road from which the heading of a dead end is taken
_SPACING_M = 1.0  # of places along roads


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
    """Tell which of these edges end at both ends."""
    return np.asarray((graph.degree[graph.ends[edge]] == 1).all(axis=1))


def headings(graph: RoadGraph, edge: Ints, at_start: Bools) -> Floats:
    """Return unit vectors of the last 15 m of edges towards their start, or else their end."""
    back_m = np.minimum(_HEADING_M, graph.length_m[edge])
    lines = graph.lines[edge]
    behind = shapely.line_interpolate_point(lines, np.where(at_start, back_m, -back_m))
    last = graph.nodes[np.where(at_start, graph.ends[edge, 0], graph.ends[edge, 1])]
    return unit(last - shapely.get_coordinates(behind))


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
    """How far it is along roads from some nodes, the starts, to nodes that are near.

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
