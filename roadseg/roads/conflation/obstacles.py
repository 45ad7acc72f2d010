"""Obstacles: what new roads of a map must not cross or come near to without a look by a person."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Lines, Objects, Shapes
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.graph.directions import cosine, places_inside, unit

_ABUTMENT_M = 5.0  # Metres; a road may meet a bridge or tunnel this close to where it ends.
_TOUCH_M = 0.05  # Metres; lines this near to each other meet.
_RAMP_COS = np.cos(np.radians(45))  # A ramp leaves a motorway at this angle at most.
_LOOK_M = 15.0  # Metres of a road that show at which angle it meets another.


@dataclass(frozen=True)
class Obstacles:
    """Railways, runways, water and buildings of a map.

    Attributes:
        kind: shape (o,), what each is called in a message, such as "railway".
        shapes: shape (o,), LineStrings and Polygons.
        reach_m: shape (o,), distance up to which a road is near it.
    """

    kind: Objects
    shapes: Shapes
    reach_m: Floats


def near_obstacles(lines: Lines, obstacles: Obstacles) -> list[set[str]]:
    """Return for each line why it has to be checked: what it is near to."""
    reasons: list[set[str]] = [set() for _ in lines]
    if len(lines) == 0 or len(obstacles.shapes) == 0:
        return reasons
    tree = shapely.STRtree(lines)
    obstacle, line = tree.query(obstacles.shapes, predicate="dwithin", distance=obstacles.reach_m)
    for row, kind in zip(line.tolist(), obstacles.kind[obstacle].tolist(), strict=True):
        reasons[row].add(f"near a {kind}")
    return reasons


def on_other_levels(lines: Lines, ways: MapWays) -> list[set[str]]:
    """Return for each line why it has to be checked: the ways that it may pass over or under.

    That is a bridge or tunnel that it meets further than 5 m from its ends, and a motorway that it
    crosses, or meets at more than 45 degrees.
    """
    reasons: list[set[str]] = [set() for _ in lines]
    special = np.flatnonzero(ways.is_apart | ways.is_motorway)
    if len(lines) == 0 or len(special) == 0:
        return reasons
    tree = shapely.STRtree(ways.lines[special])
    line, hit = tree.query(lines, predicate="dwithin", distance=_TOUCH_M)
    way = special[hit]
    places = shapely.get_point(shapely.shortest_line(lines[line], ways.lines[way]), 1)
    along = shapely.line_locate_point(ways.lines[way], places)
    inside = np.minimum(along, shapely.length(ways.lines[way]) - along)
    is_ramp = _are_ramps(lines[line], ways.lines[way], along)
    for row, each, depth, ramp in zip(line, way, inside, is_ramp, strict=True):
        if ways.is_apart[each] and depth > _ABUTMENT_M:
            reasons[row].add("meets a bridge or tunnel")
        if ways.is_motorway[each] and not ramp:
            reasons[row].add("meets a motorway")
    return reasons


def _are_ramps(lines: Lines, ways: Lines, along: Floats) -> Bools:
    """Return whether lines end at ways, at places on these, at the angle of a ramp."""
    places = shapely.line_interpolate_point(ways, along)
    ends = shapely.get_point(lines[:, np.newaxis], [0, -1])
    apart = shapely.distance(ends, places[:, np.newaxis])
    is_end = apart.min(axis=1) <= 2 * _TOUCH_M
    at_start = apart[:, 0] <= apart[:, 1]
    ahead = places_inside(lines, np.minimum(_LOOK_M, shapely.length(lines)), at_start)
    before, after = (
        shapely.get_coordinates(shapely.line_interpolate_point(ways, np.maximum(along + step, 0)))
        for step in (-5, 5)
    )
    leaving = unit(ahead - shapely.get_coordinates(places))
    return np.asarray(is_end & (np.abs(cosine(after - before, leaving)) >= _RAMP_COS))
