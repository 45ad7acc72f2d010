"""Strokes: roads that go straight on across junctions, each as one edge."""

from dataclasses import replace

import numpy as np
import shapely

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.directions import places_inside
from roadseg.roads.graph.groups import greedy_matching
from roadseg.roads.graph.road_graph import RoadGraph, in_parts, ranges

_LOOK_M = 10.0  # Metres along an edge that show in which direction it leaves its node.
_MOST_TURN_DEG = 70.0  # Degrees; a road that turns more ends. At a symmetrical fork it is 60.
_NODES_AT_ONCE = 20_000  # The pairs of edge ends at this many nodes are in memory together.
_THROUGH = 2  # Edge ends at a node in the middle of a road.


def strokes(graph: RoadGraph) -> tuple[RoadGraph, Ints]:
    """Join edges to strokes, each of which is a road as a person would follow it.

    1. The direction of an edge at a node is that of the straight line to the place 10 m along it,
       or to its middle if that is nearer.
    2. Two edge ends at a node continue each other by how little the road turns there: those that
       turn least are joined first, and none that turns by more than 70 degrees.
    3. At a node of two edge ends, these are always joined.

    Returns:
        A graph whose edges are the strokes, without attributes, whose nodes are at the ends of
        these only; and the node of `graph` at each end of each stroke, shape (strokes, 2).

    Source: R. Thomson and D. Richardson, "The 'good continuation' principle of perceptual
    organization applied to the generalization of road networks", ICA 1999.
    """
    at_node = graph.ends.ravel()
    # Ends that are joined share a node of their own, and every other end has one for itself.
    own = np.arange(len(at_node))
    pairs = _continued(graph)
    own[pairs[:, 1]] = pairs[:, 0]
    # Merging keeps some of the nodes, so that each has its number where its place would be.
    numbers = np.column_stack([np.arange(len(at_node))] * 2).astype(np.float64)
    merged = merge_chains(RoadGraph(graph.crs, numbers, own.reshape(-1, 2), graph.lines))
    node = at_node[merged.nodes[:, 0].astype(np.int64)]
    return replace(merged, nodes=graph.nodes[node]), node[merged.ends]


def _continued(graph: RoadGraph) -> Ints:
    """Return the pairs of edge ends that continue each other, shape (k, 2).

    Edge end 2 i + k is the end of edge i at its node `ends[i, k]`.
    """
    at_node = graph.ends.ravel()
    order = np.argsort(at_node, kind="stable")
    degree, heading = graph.degree, _headings(graph)
    first = np.cumsum(degree) - degree
    pairs = []
    for nodes in in_parts(np.flatnonzero(degree >= _THROUGH), _NODES_AT_ONCE):
        here, there = _pairs_of(order, first[nodes], degree[nodes])
        turn = 180 - np.abs((heading[here] - heading[there] + 180) % 360 - 180)
        turn[degree[at_node[here]] == _THROUGH] = 0
        straight = turn <= _MOST_TURN_DEG
        ranked = np.lexsort([there[straight], here[straight], np.round(turn[straight], 6)])
        most_straight = np.column_stack([here, there])[straight][ranked]
        pairs.append(most_straight[greedy_matching(most_straight)])
    return np.concatenate([np.zeros((0, 2), dtype=np.int64), *pairs])


def _headings(graph: RoadGraph) -> Floats:
    """Return the direction in degrees in which each edge leads away from both its nodes, (2 m,)."""
    lines, at_start = np.repeat(graph.lines, 2), np.tile([True, False], len(graph.lines))
    look_m = np.minimum(_LOOK_M, shapely.length(lines) / 2)
    x, y = (places_inside(lines, look_m, at_start) - graph.nodes[graph.ends.ravel()]).T
    return np.asarray(np.degrees(np.arctan2(y, x)))


def _pairs_of(order: Ints, first: Ints, degree: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of the edge ends of each node, which stand in `order` from `first` on."""
    here = ranges(first, degree)
    last = np.repeat(first + degree, degree)
    others = last - here - 1
    return order[np.repeat(here, others)], order[ranges(here + 1, others)]
