"""Control points: places on the edges of a road graph between which routes are compared."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Columns, Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph, ranges

_LEAST = 0.75  # An edge shorter than this part of the spacing has no control point.
_DECIMALS = 6  # Decimals of metres: distances that agree to 1 um are equal.


@dataclass(frozen=True)
class ControlPoints(Columns):
    """Places on the edges of a graph.

    Attributes:
        edge: shape (k,), the row of the edge.
        fraction: shape (k,), how far along the edge, 0 at its first node and 1 at its last.
    """

    edge: Ints
    fraction: Floats

    def __len__(self) -> int:
        """Return how many points there are."""
        return len(self.edge)


def place_control_points(graph: RoadGraph, *, spacing_m: float) -> tuple[ControlPoints, Floats]:
    """Place control points on all nodes that have an edge and evenly along all edges.

    An edge shorter than 0.75 `spacing_m` gets none, any other max(2, ceil(length / `spacing_m`))
    - 1: one in the middle up to and including twice the spacing.

    Args:
        graph: roads in metres.
        spacing_m: greatest distance between control points on an edge, above 0.

    Returns:
        The points and their positions, shape (k, 2), from west to east and then south to north.
    """
    used, end = np.unique(graph.ends, return_index=True)
    length = graph.length_m
    pieces = np.maximum(np.ceil(length / spacing_m), 2).astype(np.int64)
    inner = np.where(length < _LEAST * spacing_m, 0, pieces - 1)
    edge = np.repeat(np.arange(len(length)), inner)
    nth = ranges(np.ones_like(inner), inner)
    fraction = nth / pieces[edge]
    middles = shapely.line_interpolate_point(graph.lines[edge], fraction, normalized=True)
    xy = np.concatenate([graph.nodes[used], shapely.get_coordinates(middles)])
    points = ControlPoints(
        np.concatenate([end // 2, edge]), np.concatenate([end % 2, fraction]).astype(np.float64)
    )
    order = np.lexsort([xy[:, 1], xy[:, 0]])
    return points.take(order), xy[order]


def snap_to_edges(xy: Floats, graph: RoadGraph, *, snap_m: float) -> tuple[ControlPoints, Bools]:
    """Find each position on the nearest edge; of those equally near to 1 um, the first.

    Args:
        xy: shape (k, 2), positions in metres.
        graph: roads in metres.
        snap_m: greatest distance at which an edge is found, itself included; above 0.

    Returns:
        The places on the edges, and which of the positions have an edge that near, both for all k
        positions; places of the others are meaningless.
    """
    positions = np.asarray(shapely.points(xy))
    tree = shapely.STRtree(graph.lines)
    position, near = tree.query(positions, predicate="dwithin", distance=snap_m)
    away = shapely.distance(positions[position], graph.lines[near])
    # The first edge of each position in this order is the nearest, by row among equals.
    order = np.lexsort([near, np.round(away, _DECIMALS), position])
    position, first = np.unique(position[order], return_index=True)
    edge, is_near = np.zeros(len(xy), dtype=np.int64), np.zeros(len(xy), dtype=np.bool_)
    edge[position], is_near[position] = near[order][first], True
    fraction = np.zeros(len(xy))
    lines = graph.lines[edge[position]]
    along, length = shapely.line_locate_point(lines, positions[position]), shapely.length(lines)
    fraction[position] = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
    return ControlPoints(edge, fraction), is_near
