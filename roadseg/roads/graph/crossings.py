"""Crossings: where roads meet without a common node."""

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.spatial import cKDTree

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, graph_from_lines, with_vertices
from roadseg.system.text import count

_TOUCH_M = 0.05  # Metres between a road and the end of another that leads to it.


@dataclass(frozen=True)
class Unjoined:
    """Where edges of a graph cross or touch on one level without a common node.

    Attributes:
        edge: shape (k,), the row of an edge that passes such a place; a place has several.
        xy: shape (k, 2), the place, on whole millimetres.
        is_end: shape (k,), whether an edge ends there; else two cross.
    """

    edge: Ints
    xy: Floats
    is_end: Bools

    def __str__(self) -> str:
        """Return how many places there are, in words; "" if there are none."""
        places, first = np.unique(self.xy, axis=0, return_index=True)
        ends = int(self.is_end[first].sum())
        if not len(places):
            return ""
        return (
            f"{count(len(places) - ends, 'crossing')} and {count(ends, 'touching end')} without a "
            "common vertex, so these roads are not connected"
        )


def find_unjoined(graph: RoadGraph) -> Unjoined:
    """Find the places at which edges cross, or end on others, without a common node.

    An end is on a road that is no more than 5 cm away. Where the attribute `layer` differs one road
    passes over the other, and nothing is unjoined. An edge that crosses itself is not looked at.
    """
    layer = graph.column("layer", 0.0)
    tree = shapely.STRtree(graph.lines)
    one, two = tree.query(graph.lines, predicate="dwithin", distance=_TOUCH_M)
    chosen = (one < two) & (layer[one] == layer[two])
    one, two = one[chosen], two[chosen]
    ends = np.concatenate([graph.ends[one], graph.ends[two]], axis=1)
    crossing, pair = shapely.get_coordinates(
        shapely.intersection(graph.lines[one], graph.lines[two]), return_index=True
    )
    # Of each pair, all four ends that lie on the other edge are places as well.
    others = graph.lines[np.column_stack([two, two, one, one])]
    touches = shapely.distance(shapely.points(graph.nodes[ends]), others) <= _TOUCH_M
    pair = np.concatenate([pair, np.nonzero(touches)[0]])
    xy = np.concatenate([crossing, graph.nodes[ends[touches]]])
    # A place this near to an end is that end, the first of several; a common end joins both.
    apart = np.hypot(*np.moveaxis(graph.nodes[ends[pair]] - xy[:, None], -1, 0))
    node = np.where(apart <= _TOUCH_M, ends[pair], len(graph.nodes))
    is_joined = (node[:, :2, None] == node[:, None, 2:]) & (node[:, :2, None] < len(graph.nodes))
    is_open = ~is_joined.any(axis=(1, 2))
    pair, xy, node = pair[is_open], xy[is_open], node[is_open].min(axis=1, initial=len(graph.nodes))
    is_end = node < len(graph.nodes)
    xy[is_end] = graph.nodes[node[is_end]]
    xy = xy.round(DECIMALS)
    return Unjoined(np.concatenate([one[pair], two[pair]]), np.tile(xy, (2, 1)), np.tile(is_end, 2))


def join_crossings(graph: RoadGraph) -> RoadGraph:
    """Give roads a common node wherever they cross or touch without one; see `find_unjoined`."""
    found = find_unjoined(graph)
    if not len(found.edge):
        return graph
    lines = with_vertices(graph.lines, found.edge, found.xy)
    rows = np.unique(found.edge)
    # A vertex beside the new one is moved there.
    vertices = shapely.get_coordinates(lines[rows])
    places = np.vstack([found.xy, [np.inf, np.inf]])
    _, nearest = cKDTree(found.xy).query(vertices, distance_upper_bound=_TOUCH_M)
    vertices = np.where(np.isfinite(places[nearest]), places[nearest], vertices)
    lines[rows] = shapely.set_coordinates(lines[rows], vertices)
    return graph_from_lines(lines, graph.crs, graph.attributes)
