"""Clipping: the part of a road graph that lies in a polygon."""

import numpy as np
import shapely

from roadseg.arrays import Floats, Ints, Lines
from roadseg.roads.graph.groups import join_spans
from roadseg.roads.graph.road_graph import (
    RoadGraph,
    end_points,
    part_attributes,
    take_edges,
    vertices_along,
)

_TOUCHING_M = 1e-6  # Metres; pieces of a line no further apart are one piece.


def clip_graph(graph: RoadGraph, polygon: shapely.Polygon | shapely.MultiPolygon) -> RoadGraph:
    """Return exactly the part of a graph that lies in a polygon, with new nodes at the cuts.

    The boundary belongs to the polygon. Edges cut at one place without a common node there stay
    unconnected. Nodes without an edge in the polygon are dropped. Pieces keep the attributes of
    their edge, and of `travel_time_s` their part by length.

    Args:
        polygon: valid area in the CRS of the graph.
    """
    # Most edges lie inside or outside as a whole; only the others are cut.
    is_inside = shapely.covers(polygon, graph.lines)
    whole = np.flatnonzero(is_inside)
    cut = np.flatnonzero(shapely.intersects(polygon, graph.lines) & ~is_inside)
    spans_of_cut = [_spans_of(graph.lines[row], polygon) for row in cut]
    edge = np.repeat(cut, [len(each) for each in spans_of_cut]).astype(np.int64)
    spans = np.concatenate([np.zeros((0, 2)), *spans_of_cut])
    nodes, ends, pieces = _cut_out(graph, edge, spans)
    source = np.concatenate([whole, edge])
    part = np.concatenate([np.ones(len(whole)), spans[:, 1] - spans[:, 0]])
    clipped = RoadGraph(
        graph.crs,
        nodes,
        np.concatenate([graph.ends[whole], ends]),
        np.concatenate([graph.lines[whole], pieces]),
        part_attributes(graph.attributes, source, part),
    )
    return take_edges(clipped, np.argsort(source, kind="stable"))


def _spans_of(line: shapely.LineString, polygon: shapely.Geometry) -> Floats:
    """Return the parts of a line inside as spans of its length, 0 to 1, shape (k, 2).

    Segments are cut one by one, because cutting a whole line that crosses itself would also cut
    it at the crossing.
    """
    xy, _, along = vertices_along(line)
    segments = shapely.linestrings(np.stack([xy[:-1], xy[1:]], axis=1))
    parts, segment = shapely.get_parts(shapely.intersection(segments, polygon), return_index=True)
    # Segments that only touch the polygon leave a point or an empty line.
    has_length = shapely.length(parts) > 0
    parts, segment = parts[has_length], segment[has_length]
    from_start = np.hypot(*(end_points(parts) - xy[segment][:, None]).transpose(2, 0, 1))
    spans = np.sort(along[segment][:, None] + from_start, axis=1)
    low, high = join_spans(*spans.T, within=_TOUCHING_M)
    # Ends near those of the line are put on these.
    length = float(along[-1])
    low = np.where(low <= _TOUCHING_M, 0, low)
    high = np.where(high >= length - _TOUCHING_M, length, high)
    has_length = high - low > _TOUCHING_M
    return np.column_stack([low, high])[has_length] / length


def _cut_out(graph: RoadGraph, edges: Ints, spans: Floats) -> tuple[Floats, Ints, Lines]:
    """Return nodes (the old ones first), ends and lines of parts of edges."""
    pieces = [_part(graph.lines[edge], span) for edge, span in zip(edges, spans, strict=True)]
    # An end that is not that of the edge is cut, and gets a node of its own.
    is_cut = (spans > 0) & (spans < 1)
    at_ends = np.array([piece[[0, -1]] for piece in pieces]).reshape(-1, 2, 2)
    new_rows = len(graph.nodes) + np.cumsum(is_cut.ravel()).reshape(-1, 2) - 1
    ends = np.where(is_cut, new_rows, graph.ends[edges])
    lines = np.array([shapely.LineString(piece) for piece in pieces], dtype=object)
    return np.concatenate([graph.nodes, at_ends[is_cut]]), ends, lines


def _part(line: shapely.LineString, span: Floats) -> Floats:
    """Return the coordinates of a part of a line, given as a span of its length."""
    xy, _, along = vertices_along(line)
    low, high = span * along[-1]
    inner = (along > low + _TOUCHING_M) & (along < high - _TOUCHING_M)
    cuts = np.column_stack([np.interp([low, high], along, axis) for axis in xy.T])
    return np.concatenate([cuts[:1], xy[inner], cuts[1:]])
