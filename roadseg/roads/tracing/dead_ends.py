"""DeadEnds: where roads end, and where they head there."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.directions import end_steps, unit
from roadseg.roads.graph.road_graph import RoadGraph

BORDER_M = 2.0  # Metres; a dead end this close to the border of the scene goes on outside of it.
_HEADING_M = 15.0  # Metres of road from which the heading of a dead end is taken.


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
    """Return which of these edges are dead ends at both ends."""
    return np.asarray((graph.degree[graph.ends[edge]] == 1).all(axis=1))


def headings(graph: RoadGraph, edge: Ints, at_start: Bools) -> Floats:
    """Return unit vectors of the last 15 m of edges towards their start, or else their end."""
    return unit(end_steps(graph.lines[edge], at_start, over_m=_HEADING_M))
