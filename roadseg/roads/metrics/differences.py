"""Differences: the roads of one network that another one lacks."""

from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Floats, Ints, Lines
from roadseg.roads.graph.cleaning import drop_components
from roadseg.roads.graph.groups import join_spans
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    cut_lines,
    end_points,
    part_attributes,
    unique_pairs,
)
from roadseg.roads.metrics.buffer import check_sides, near_parts, segments_by_line

_CROSSING = 3.0  # Tolerances; this much of a road is near another that it crosses at 42 degrees.
_ROUNDING_M = 0.001  # Metres; shorter spans are nothing, and distances so alike are equal.

Spans = tuple[Floats, Floats]  # where each begins and ends, rising, on the axis of `_Axis`


@dataclass(frozen=True)
class _Axis:
    """One axis on which all edges lie, one behind the other and a metre apart.

    Attributes:
        begin: shape (m,), where each edge begins.
        end: shape (m,), where each edge ends.
    """

    begin: Floats
    end: Floats

    @classmethod
    def along(cls, length_m: Floats) -> "_Axis":
        """Place edges of the given lengths, shape (m,), one behind the other."""
        end = np.cumsum(length_m + 1)
        return cls(end - length_m, end)

    def edges(self, place: Floats) -> Ints:
        """Return the rows of the edges on which places lie."""
        return np.searchsorted(self.begin, place, side="right") - 1


def missing_roads(
    graph: RoadGraph, other: RoadGraph, *, tolerance_m: float, min_length_m: float
) -> RoadGraph:
    """Return the parts of roads that have no counterpart in another network.

    Edges are cut where they leave the places within `tolerance_m` of any road of the other
    network. A road that only crosses another one, or starts at it, has no counterpart there: what
    is near for at most three times the tolerance (half of that where it reaches an end of its
    edge), and no longer than what is apart beside it, counts as apart. So crossings down to about
    42 degrees leave no gap. Parts that meet are measured together; those that are shorter than
    `min_length_m` in all are left out.

    Args:
        graph: roads whose parts are returned.
        other: roads in the same metric CRS.
        tolerance_m: greatest distance of a counterpart, that distance included; above 0.
        min_length_m: shortest road of connected parts, that length included.

    Returns:
        The parts, in the order of their edges, with the attributes of these, of `travel_time_s` its
        part.

    Raises:
        ValueError: the CRSs differ, or `tolerance_m` is not above 0.
    """
    check_sides(graph, other, tolerance_m)
    axis = _Axis.along(graph.length_m)
    # Spans of the edges that are near are joined, crossings dropped, and what is between is apart.
    near = _near(graph.lines, axis, other.lines, tolerance_m + _ROUNDING_M)
    near = join_spans(*near, within=_ROUNDING_M)
    begin, end = _apart(axis, _without_crossings(axis, near, _CROSSING * tolerance_m))
    edge = axis.edges((begin + end) / 2)
    lines = cut_lines(graph.lines[edge], begin - axis.begin[edge], end - axis.begin[edge])
    part = (end - begin) / graph.length_m[edge]
    parts = _graph_of(graph, lines, edge, part)
    return drop_components(parts, min_component_m=min_length_m)


def _near(lines: Lines, axis: _Axis, others: Lines, reach_m: float) -> Spans:
    """Return where segments are near segments of others, in any order and overlapping."""
    segments, edge = segments_by_line(lines)
    start = _starts(edge, np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1), axis)
    spans: list[Spans] = [(np.zeros(0), np.zeros(0))]
    for block, row, low, high in near_parts(segments, segments_by_line(others)[0], reach_m):
        is_near = low <= high
        before = start[block][row[is_near]]
        spans.append((before + low[is_near], before + high[is_near]))
    lows, highs = zip(*spans, strict=True)
    return np.concatenate(lows), np.concatenate(highs)


def _starts(edge: Ints, length: Floats, axis: _Axis) -> Floats:
    """Return where on the axis segments begin, given their edges, rising, and lengths."""
    before = np.cumsum(length) - length
    _, first = np.unique(edge, return_index=True)
    of_edge = np.repeat(before[first], np.diff(np.append(first, len(edge))))
    return np.asarray(axis.begin[edge] + before - of_edge)


def _without_crossings(axis: _Axis, near: Spans, longest_m: float) -> Spans:
    """Leave out spans that are short, and no longer than what is apart on both sides of them."""
    low, high = near
    edge = axis.edges((low + high) / 2)
    before = low - np.maximum(axis.begin[edge], np.append(-np.inf, high)[:-1])
    after = np.minimum(axis.end[edge], np.append(low, np.inf)[1:]) - high
    # A road that starts at another one is near it to one side only, for half as long.
    is_at_end = np.minimum(low - axis.begin[edge], axis.end[edge] - high) <= _ROUNDING_M
    longest = np.where(is_at_end, longest_m / 2, longest_m)
    crosses = (high - low <= np.minimum(longest, before + after) + _ROUNDING_M) & (
        before + after > _ROUNDING_M
    )
    return low[~crosses], high[~crosses]


def _apart(axis: _Axis, near: Spans) -> Spans:
    """Return the parts of the edges that lie between spans."""
    begin = np.sort(np.concatenate([axis.begin, near[1]]))
    end = np.sort(np.concatenate([axis.end, near[0]]))
    has_length = end - begin > _ROUNDING_M
    return begin[has_length], end[has_length]


def _graph_of(graph: RoadGraph, lines: Lines, edge: Ints, part: Floats) -> RoadGraph:
    """Make a graph of parts of edges, joined where their ends agree to 1 mm."""
    xy = end_points(lines).reshape(-1, 2)
    first, rows = unique_pairs(np.round(xy, DECIMALS))
    attributes = part_attributes(graph.attributes, edge, part)
    return RoadGraph(graph.crs, xy[first], rows.reshape(-1, 2), lines, attributes)
