"""Acute ends: draw new roads that leave a way at a small angle straight to it, as mappers do."""

from dataclasses import replace

import numpy as np
import shapely

from roadseg.roads.conflation.joining import Joints
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.conflation.missing_parts import MissingParts
from roadseg.roads.graph.road_graph import RoadGraph

_BENT_M = 1.2  # Metres beside the way at which a fork lies that shows two roads as one.
_CLEAR_M = 5.0  # Metres from all ways from which on a road shows its own line.
_BASE_M = 12.0  # Metres of road beyond that show its line.
_LEAST_BASE_M = 5.0  # Metres; less road says little.
_KINK_M = 0.5  # Metres; vertices so near to the end of a new piece are left out.
_MOST_M = 60.0  # Metres; longer ends are not drawn anew.
_MOST_SIN = np.sin(np.radians(40))  # An acute end meets the way at this angle at most.
_BESIDE_M = 4.0  # Metres between an end and its straight line, and between this and the prediction.


def draw_acute_ends(
    parts: MissingParts, joints: Joints, ways: MapWays, predicted: RoadGraph
) -> tuple[MissingParts, Joints]:
    """Draw the ends of new roads that leave a way at a small angle straight to this way.

    Where a ramp leaves a road, an image shows both as one for up to some 40 m. Tracing draws one
    line between the two there, and the ramp begins where they part. The end of a new road is drawn
    anew under these rules:

    1. It begins 1.2 m or more beside the way: elsewhere tracing has seen both roads.
    2. The straight line through the 12 m of road (at least 5 m) that begin 5 m from all ways leads
       to a way within 60 m, at up to 40 degrees.
    3. This line lies within 4 m of the end as it was, and of predicted roads.

    Args:
        joints: where their nodes are joined to the map.
        predicted: all roads of the prediction, in the same metres.

    Returns:
        The roads and their joints, with those ends moved.
    """
    graph = parts.graph
    lines, nodes = graph.lines.copy(), graph.nodes.copy()
    way, along_m, xy = joints.way.copy(), joints.along_m.copy(), joints.xy.copy()
    is_end = joints.is_joined & ~joints.is_link & ~parts.is_dead_end & (graph.degree == 1)
    is_bent = is_end & (np.hypot(*(xy - nodes).T) >= _BENT_M)
    chosen = np.flatnonzero(ways.is_open)
    map_tree, predicted_tree = shapely.STRtree(ways.lines[chosen]), shapely.STRtree(predicted.lines)
    for edge, side in np.argwhere(is_bent[graph.ends] & (len(chosen) > 0)).tolist():
        line = lines[edge] if side == 0 else lines[edge].reverse()
        drawn = _straight(line, map_tree, predicted_tree)
        if drawn is None:
            continue
        lines[edge] = drawn if side == 0 else drawn.reverse()
        node, place = graph.ends[edge, side], shapely.get_point(drawn, 0)
        way[node] = chosen[map_tree.nearest(place)]
        along_m[node] = ways.lines[way[node]].project(place)
        xy[node] = nodes[node] = shapely.get_coordinates(place)[0]
    moved = replace(graph, lines=lines, nodes=nodes)
    return replace(parts, graph=moved), Joints(way, along_m, xy, joints.is_link)


def _straight(
    line: shapely.LineString, map_tree: shapely.STRtree, predicted_tree: shapely.STRtree
) -> shapely.LineString | None:
    """Return a line that begins at a joint with its beginning drawn anew; None to leave it."""
    places = np.arange(0, min(line.length, _MOST_M))
    points = np.asarray(shapely.line_interpolate_point(line, places))
    distance = map_tree.query_nearest(points, return_distance=True, all_matches=False)[1]
    foot = int(np.argmax(distance >= _CLEAR_M))
    if distance[foot] < _CLEAR_M or line.length < foot + _LEAST_BASE_M:
        return None
    at = np.arange(foot, min(foot + _BASE_M, line.length))
    base = shapely.get_coordinates(shapely.line_interpolate_point(line, at))
    heading = (at - at.mean()) @ base
    heading /= np.hypot(*heading)
    start = base.mean(axis=0) - (at.mean() - foot) * heading
    ray = shapely.LineString([start, start - _MOST_M * heading])
    ways = map_tree.geometries[map_tree.query(ray, predicate="intersects")]
    crossings = shapely.get_coordinates(shapely.intersection(ray, ways))
    if len(crossings) == 0:
        return None
    place = crossings[np.argmin(np.hypot(*(crossings - start).T))]
    stem = shapely.LineString([place, start])
    is_acute = distance[foot] <= _MOST_SIN * stem.length
    fits = shapely.distance(points[: foot + 1], stem).max() <= _BESIDE_M
    if not (is_acute and fits and _is_predicted(stem, predicted_tree)):
        return None
    vertices = shapely.get_coordinates(line)
    beyond = shapely.line_locate_point(line, shapely.points(vertices)) > foot + _KINK_M
    first = shapely.get_coordinates(points[foot])
    return shapely.LineString(np.concatenate([[place], first, vertices[beyond]]))


def _is_predicted(stem: shapely.LineString, predicted_tree: shapely.STRtree) -> bool:
    """Return whether predicted roads are near all of a line."""
    points = shapely.line_interpolate_point(stem, np.arange(stem.length))
    distance = predicted_tree.query_nearest(points, return_distance=True, all_matches=False)[1]
    return bool((distance <= _BESIDE_M).all())
