"""DeadEnds: where roads end, where they head there, and how links may continue them."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.directions import end_steps, unit
from roadseg.roads.graph.road_graph import RoadGraph, lines_from

BORDER_M = 2.0  # Metres; roads that end this close to the border of the scene go on outside.
# Longest link to the side of a road, as a share of the length of the edge that it continues: if
# that edge goes on at its other end, and if it ends there too, such as a piece between two gaps.
SHARES = 0.75, 0.4
_TURN_COST = 2.0  # Weight of turning in the cost of a link, see `link_costs`.
_CLEAR_M = 0.05  # Metres at both ends of a link that may touch the roads that it joins.
_HEADING_M = 15.0  # Metres of road that give the heading of a dead end.


@dataclass(frozen=True)
class DeadEnds:
    """Ends of roads at which no other road begins.

    Attributes:
        edge: shape (k,), the row of the edge that ends; an edge may end twice.
        node: shape (k,), the row of its node.
        place: shape (k, 2), x and y of the node in metres.
        heading: shape (k, 2), unit vector along the last 15 m of the edge, outwards.
    """

    edge: Ints
    node: Ints
    place: Floats
    heading: Floats


def find_dead_ends(
    graph: RoadGraph, border: shapely.Geometry | None, border_m: float = BORDER_M
) -> DeadEnds:
    """Find the dead ends of a graph; with a border, those further than `border_m` from it."""
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
    """Return unit vectors along the last 15 m of edges, towards their start or else their end."""
    return unit(end_steps(graph.lines[edge], at_start, over_m=_HEADING_M))


def link_costs(metres: Floats, turn: Floats) -> Floats:
    """Return length * (1 + 2 * (1 - cosine of the turn)); a turn of 60 degrees doubles it."""
    return np.asarray(metres * (1 + _TURN_COST * (1 - turn)))


def longest_links_m(graph: RoadGraph, edge: Ints, shares: tuple[float, float] = SHARES) -> Floats:
    """Return how long a link to the side of a road may be that continues each edge (`SHARES`)."""
    return np.where(are_lone(graph, edge), shares[1], shares[0]) * graph.length_m[edge]


def are_clear(links: Lines, *trees: shapely.STRtree) -> Bools:
    """Return which links touch no line of these trees, except at their own ends."""
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
