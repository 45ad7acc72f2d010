"""Contraction: nodes of a road graph that are one junction become one node."""

import numpy as np
import shapely
from scipy.spatial import cKDTree

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import RoadGraph, lines_from, take_edges


def nearest_pairs(places: Floats, group: Ints, *, within: float) -> Ints:
    """Pair places of different groups, the nearest first; each is in one pair at most.

    Args:
        places: shape (n, 2).
        group: shape (n,), the group of each.
        within: greatest distance of a pair, in the unit of the places.

    Returns:
        Rows of the places of each pair, shape (k, 2).
    """
    nothing = np.empty((0, 2), dtype=np.int64)
    if len(places) == 0:
        return nothing
    pairs = cKDTree(places).query_pairs(within, output_type="ndarray").astype(np.int64)
    pairs = pairs[group[pairs[:, 0]] != group[pairs[:, 1]]]
    apart = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T)
    chosen, taken = [], set[int]()
    for pair in pairs[np.lexsort([*pairs.T, apart])].tolist():
        if taken.isdisjoint(pair):
            taken.update(pair)
            chosen.append(pair)
    return np.array(chosen, dtype=np.int64) if chosen else nothing


_JUNCTION = 3  # edge ends at a node where roads meet


def contract_edges(graph: RoadGraph, chosen: Bools) -> RoadGraph:
    """Take edges out and make one node of all the nodes that they joined, in their middle.

    The ends of the edges that stay are drawn to the new node. Edges whose both ends become one
    node stay as loops unless they were chosen.

    Args:
        graph: roads in metres.
        chosen: shape (m,), the edges to contract.
    """
    if not chosen.any():
        return graph
    links = RoadGraph(graph.crs, graph.nodes, graph.ends[chosen], graph.lines[chosen])
    group = components(links)
    counts = np.bincount(group)
    nodes = np.column_stack([np.bincount(group, weights=axis) / counts for axis in graph.nodes.T])
    ends = group[graph.ends]
    merged = counts[group] > 1
    lines = graph.lines.copy()
    touched = np.flatnonzero(merged[graph.ends].any(axis=1) & ~chosen)
    lines[touched] = _drawn_to(graph, touched, nodes[ends[touched]])
    attributes = dict(graph.attributes)
    return take_edges(RoadGraph(graph.crs, nodes, ends, lines, attributes), ~chosen)


def merge_near_junctions(graph: RoadGraph, *, within_m: float) -> RoadGraph:
    """Make one junction of those that an edge shorter than `within_m` joins.

    Thinning draws the crossing of two wide roads as two junctions with a short edge in between.
    Dead ends are no junctions, and loops are not contracted.

    Args:
        graph: roads in metres.
        within_m: edges of just this length stay; 0 merges nothing.
    """
    no_loop = graph.ends[:, 0] != graph.ends[:, 1]
    return contract_edges(graph, between_junctions(graph) & no_loop & (graph.length_m < within_m))


def between_junctions(graph: RoadGraph) -> Bools:
    """Tell of which edges both ends are junctions, shape (m,)."""
    return np.asarray((graph.degree[graph.ends] >= _JUNCTION).all(axis=1))


def _drawn_to(graph: RoadGraph, rows: Ints, places: Floats) -> Lines:
    """Return lines that start and end at other places, shape (k, 2, 2).

    Vertices no further from the new end than the old end is are left out, so that the line does
    not turn back; loops keep all.
    """
    xy, line = shapely.get_coordinates(graph.lines[rows], return_index=True)
    sizes = np.bincount(line)
    last = np.cumsum(sizes) - 1
    first = last - sizes + 1
    stays = np.ones(len(xy), dtype=bool)
    for vertex, place in ((first, places[:, 0]), (last, places[:, 1])):
        moved = np.hypot(*(xy[vertex] - place).T)
        stays &= np.hypot(*(xy - place[line]).T) > moved[line]
    stays |= (graph.ends[rows, 0] == graph.ends[rows, 1])[line]
    stays[first] = stays[last] = True
    xy[first], xy[last] = places[:, 0], places[:, 1]
    return lines_from(xy[stays], np.bincount(line[stays]))
