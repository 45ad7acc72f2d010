"""Vertex graphs: every vertex of a road graph as a node, at the places of Sat2Graph's TOPO."""

import math
from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Floats, Ints
from roadseg.roads.graph.road_graph import RoadGraph, require_one_crs, unique_pairs

METRES_PER_DEGREE = 111111.0  # Metres of a degree of latitude in the source.

_LATITUDE, _LONGITUDE = 41.0, -71.0  # Degrees; the source pretends that every tile lies here.
_WIDE = math.cos(math.radians(_LATITUDE))  # Width of a degree of longitude there.
_DECIMALS = 3  # Decimals of metres to which coordinates are rounded before they are compared.


@dataclass(frozen=True)
class VertexGraph:
    """Every vertex of a road graph as a node, at a made-up place: degrees south-east of 41 N, 71 W.

    `vertex_graphs` numbers vertices as the lines of the graph meet them, and sorts segments by the
    numbers of their vertices, the lower first.

    Attributes:
        lat: shape (n,), degrees; 111,111 m each.
        lon: shape (n,), degrees; 111,111 m times the cosine of the latitude each.
        pairs: shape (m, 2), the vertices of each segment, each once.
    """

    lat: Floats
    lon: Floats
    pairs: Ints


def vertex_graphs(reference: RoadGraph, predicted: RoadGraph) -> tuple[VertexGraph, VertexGraph]:
    """Return both graphs where the source expects them, rounded to 1 mm.

    Args:
        predicted: graph to be scored, in the same metric CRS.

    Raises:
        ValueError: the CRSs differ, or a coordinate is not finite.
    """
    require_one_crs(reference, predicted)
    xy = shapely.get_coordinates(np.concatenate([reference.lines, predicted.lines]))
    if not np.isfinite(xy).all():
        raise ValueError("a line has a coordinate that is not finite")
    corner = (float(xy[:, 0].min()), float(xy[:, 1].max())) if len(xy) else (0.0, 0.0)
    return _vertex_graph(reference, corner), _vertex_graph(predicted, corner)


def _vertex_graph(graph: RoadGraph, corner: tuple[float, float]) -> VertexGraph:
    xy, line = shapely.get_coordinates(graph.lines, return_index=True)
    # South and east of the corner, in metres.
    south_east = np.round(np.column_stack([corner[1] - xy[:, 1], xy[:, 0] - corner[0]]), _DECIMALS)
    moves = (np.diff(line) == 0) & (np.diff(south_east, axis=0) != 0).any(axis=1)
    ends = np.stack([south_east[:-1][moves], south_east[1:][moves]], axis=1).reshape(-1, 2) + 0.0
    number, first = _number_by_appearance(ends)
    pairs = np.unique(np.sort(number.reshape(-1, 2), axis=1), axis=0)
    lat = _LATITUDE - ends[first, 0] / METRES_PER_DEGREE
    lon = _LONGITUDE + ends[first, 1] / METRES_PER_DEGREE / _WIDE
    return VertexGraph(lat, lon, pairs)


def _number_by_appearance(pairs: Floats) -> tuple[Ints, Ints]:
    """Number pairs in the order in which they appear; return that, and where each is first."""
    first, key = unique_pairs(pairs)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[key], first[order]
