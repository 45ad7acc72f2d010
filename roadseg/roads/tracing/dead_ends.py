"""DeadEnds: where roads end, where they head there, and how links may continue them."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.directions import end_steps, unit
from roadseg.roads.graph.road_graph import RoadGraph, lines_from

BORDER_M = 2.0  # Metres; a dead end this close to the border of the scene goes on outside of it.
# To the side of a road, a link is at most so long as these parts of the edge that it continues: of
# one that goes on at its other end, and of one that ends there too, as what is left between gaps.
SHARES = 0.75, 0.4
_TURN_COST = 2.0  # A link counts as so much longer for turning; straight on it counts as it is.
_CLEAR_M = 0.05  # Metres from its ends from which on a link touches no other road.
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


def link_costs(metres: Floats, turn: Floats) -> Floats:
    """Return the costs of links by length and the cosine of their turn; 60 degrees double them."""
    return np.asarray(metres * (1 + _TURN_COST * (1 - turn)))


def longest_links_m(graph: RoadGraph, edge: Ints, shares: tuple[float, float] = SHARES) -> Floats:
    """Return how long links to the side of a road may be that continue these edges."""
    return np.where(are_lone(graph, edge), shares[1], shares[0]) * graph.length_m[edge]


def are_clear(links: Lines, *trees: shapely.STRtree) -> Bools:
    """Return which links meet none of the lines of these trees between their ends."""
    xy, row = shapely.get_coordinates(links, return_index=True)
    clear_m = np.minimum(_CLEAR_M, shapely.length(links) / 2)
    for side, metres in (
        (np.diff(row, prepend=-1) > 0, clear_m),
        (np.diff(row, append=-1) != 0, -clear_m),
    ):
        xy[side] = shapely.get_coordinates(shapely.line_interpolate_point(links, metres))
    inner = lines_from(xy, np.bincount(row, minlength=len(links)))
    is_clear = np.ones(len(inner), dtype=bool)
    for tree in trees:
        is_clear[tree.query(inner, predicate="intersects")[0]] = False
    return is_clear
