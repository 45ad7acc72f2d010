"""Conflation: the roads that a map lacks, joined to its ways, and what has to be checked."""

from dataclasses import replace
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.conflation.joining import (
    Joints,
    draw_to_joints,
    find_joints,
    meetings,
)
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.conflation.missing_parts import EDGE, MissingParts, find_missing_parts
from roadseg.roads.conflation.new_roads import (
    CONFIDENCE,
    IS_APART,
    NewRoads,
    with_nodes,
)
from roadseg.roads.conflation.obstacles import Obstacles, near_obstacles, on_other_levels
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import (
    RoadGraph,
    graph_from_lines,
    part_attributes,
)
from roadseg.roads.options import ConflateOptions

# A short road is worth adding if the map has no way of up to this many times its length.
_DETOUR = 3.0
_SHORTEST_M = 10.0  # Metres; shorter roads count as long as this.
_INFERRED = "inferred"  # Attribute of predicted edges: 1 for links across gaps.
_MOST_LINKED = 0.5  # Part of a new road that can be links across gaps.


def find_new_roads(
    predicted: RoadGraph, ways: MapWays, obstacles: Obstacles, options: ConflateOptions
) -> NewRoads:
    """Find the roads that a map lacks, and join them to its ways.

    1. What is further than `tolerance_m` from every way of the map is missing
       (`find_missing_parts`).
    2. Parts whose confidence is below `min_confidence` are left out; so are connected parts that
       are shorter than `min_length_m`, unless they join two places of the map that its ways join
       by a detour of three times their length or not at all.
    3. Ends are drawn to the ways of the map (`find_joints`).
    4. A road has to be checked if it comes near an obstacle, is a bridge or tunnel, may lie on
       another level than a way that it meets, is mostly a link across a gap, or is not connected
       with the map by roads that need no check.
    5. Where the others end or cross, ways of the map get a node, unless they have one there. Where
       they pass a dead end of the map, they get its node.

    Args:
        predicted: roads in metres.
        ways: of the map, in the same metres.
    """
    within_m = options.tolerance_m
    # Rule 1: what is far from all ways.
    parts = find_missing_parts(predicted, ways, tolerance_m=within_m)
    missing_m = float(parts.missing_m.sum())
    # Rule 2: what is sure enough, and then what is long enough or joins two places.
    confidence = np.asarray(parts.graph.column(CONFIDENCE, np.nan), dtype=np.float64)
    parts = parts.take(~(confidence < options.min_confidence))
    joints = find_joints(parts, ways, tolerance_m=within_m, max_gap_m=options.max_gap_m)
    long = _are_long(parts, joints, ways, options.min_length_m)
    parts, joints = parts.take(long), joints.at_nodes(parts.graph.ends[long])
    left_out_m = missing_m - float(parts.missing_m.sum())
    # Rule 3: what ends lead to.
    graph = parts.graph
    lines = draw_to_joints(parts, joints, tolerance_m=within_m)
    # Rule 4: which roads have to be checked, and why.
    reasons = near_obstacles(lines, obstacles)
    for row, more in enumerate(on_other_levels(lines, ways)):
        reasons[row] |= more
    for row in np.flatnonzero(_are_unseen(parts)).tolist():
        reasons[row].add("no image shows it")
    for row in np.flatnonzero(graph.column(IS_APART, 0.0)).tolist():
        reasons[row].add("is a bridge or tunnel")
    reason = np.array([", ".join(sorted(each)) for each in reasons], dtype=object)
    crossed = meetings(lines, ways)
    touches = np.asarray(joints.is_joined[graph.ends].any(axis=1))
    touches[crossed[0]] = True
    is_alone = (reason == "") & ~_are_connected(graph, reason == "", touches)
    reason[is_alone] = "not connected with the map"
    # Rule 5: nodes where roads meet ways.
    edge = graph.attributes[EDGE]
    part = shapely.length(lines) / predicted.length_m[edge]
    attributes = part_attributes(predicted.attributes, edge, part)
    drawn = replace(graph, lines=lines, attributes=attributes)
    return with_nodes(drawn, ways, joints, crossed, reason=reason, left_out_m=left_out_m)


def merged_graph(ways: MapWays, attributes: dict[str, NDArray[Any]], new: NewRoads) -> RoadGraph:
    """Return the graph of a map with the roads that are added to it.

    Args:
        attributes: columns of shape (w,) for these.
        new: the roads; columns that a map has not are left out.
    """
    added = np.flatnonzero(new.is_added)
    lines = np.concatenate([new.ways_with_nodes(ways), new.lines[added]])
    columns = {}
    for name, column in attributes.items():
        nothing = np.full(len(added), None if column.dtype == object else np.nan)
        values = new.attributes.get(name)
        columns[name] = np.concatenate([column, nothing if values is None else values[added]])
    return graph_from_lines(lines, new.crs, columns)


def _are_unseen(parts: MissingParts) -> Bools:
    """Return which edges belong to connected parts that are mostly links across gaps."""
    graph = parts.graph
    inferred = graph.column(_INFERRED, 0.0) == 1
    if not inferred.any():
        return np.zeros(len(graph.lines), dtype=bool)
    component = components(graph)[graph.ends[:, 0]]
    linked_m = np.bincount(component, parts.missing_m * inferred)
    return np.asarray(linked_m > _MOST_LINKED * np.bincount(component, parts.missing_m))[component]


def _are_long(parts: MissingParts, joints: Joints, ways: MapWays, min_length_m: float) -> Bools:
    """Return which edges belong to connected parts that are worth adding."""
    graph = parts.graph
    if len(graph.lines) == 0:
        return np.zeros(0, dtype=bool)
    component = components(graph)
    sizes = np.bincount(component[graph.ends[:, 0]], parts.missing_m, component.max() + 1)
    metres = np.asarray(sizes, dtype=np.float64)
    is_long = metres >= min_length_m
    joined = np.flatnonzero(joints.is_joined & ~joints.is_link & ~is_long[component])
    is_long |= _close_gaps(component[joined], joined, joints, ways, metres)
    return np.asarray(is_long[component[graph.ends[:, 0]]])


def _close_gaps(
    component: Ints, joined: Ints, joints: Joints, ways: MapWays, metres: Floats
) -> Bools:
    """Return which short parts join two places that ways of the map join by a long detour, or not.

    Args:
        component: shape (j,), the part of each joined node.
        joined: shape (j,), rows of these nodes.
        metres: shape (c,), length of each part.
    """
    closes = np.zeros(len(metres), dtype=bool)
    order = np.argsort(component, kind="stable")
    component, joined = component[order], joined[order]
    for part in np.unique(component[1:][np.diff(component) == 0]).tolist():
        here = joined[component == part]
        limit_m = _DETOUR * max(float(metres[part]), _SHORTEST_M)
        apart = ways.distances(joints.way[here], joints.along_m[here], limit_m=limit_m)
        closes[part] = bool((apart > limit_m).any())
    return closes


def _are_connected(graph: RoadGraph, chosen: Bools, touches: Bools) -> Bools:
    """Return which of the chosen edges are connected by such edges with one that touches a map."""
    part = replace(graph, ends=graph.ends[chosen], lines=graph.lines[chosen], attributes={})
    component = components(part)[graph.ends[:, 0]] if chosen.any() else graph.ends[:, 0]
    return np.asarray(chosen & np.isin(component, component[chosen & touches]))
