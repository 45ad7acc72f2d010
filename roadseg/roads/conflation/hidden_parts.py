"""Hidden parts: short roads between ways of a map that are nearer to these than the tolerance."""

import numpy as np
import shapely

from roadseg.arrays import Bools, Ints, Lines
from roadseg.roads.conflation.joining import Joints, find_joints
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.conflation.missing_parts import MissingParts, find_missing_parts
from roadseg.roads.graph.road_graph import RoadGraph

DETOUR = 3.0  # A short road is worth adding if the map has no way up to so many times its length.
SHORTEST_M = 10.0  # Metres; shorter roads count as long as this.
INFERRED = "inferred"  # Attribute of predicted edges: 1 for links across gaps.

_FIT = 0.25  # Tolerances; how well prediction and map fit where a hidden part is believed.
_LONGEST = 3.0  # Tolerances; the longest hidden part.
_ACROSS = 0.35  # Part of its length by which a hidden part leads away from the ways that it joins.
_AROUND_M = 10.0  # Metres around a hidden part within which the prediction has to show the map.
_UNSEEN = 0.02  # Part of the map there that it may lack.


def find_hidden_parts(
    predicted: RoadGraph, ways: MapWays, edges: Ints, *, tolerance_m: float
) -> tuple[MissingParts, Joints]:
    """Find short parts of predicted roads that join ways of a map which lie close together.

    Such a part, say 12 m between two junctions, is within the tolerance of the roads around it. It
    counts as missing under these rules:

    1. It is off the map by more than a quarter of the tolerance, for at most three tolerances, and
       no link across a gap.
    2. Both its ends lie on ways to a quarter of the tolerance, and it leads away from each of them
       by at least 0.35 of its length. A road does not that changes from one carriageway to the
       other because the prediction shows both as one.
    3. The prediction shows all ways for cars within 10 m of it, to a quarter of the tolerance.
       Where it does not, it has drawn roads together, and its junctions are elsewhere.
    4. The map has no route between its ends, or one that is more than three times as long.

    Args:
        predicted: roads in metres.
        ways: of the map, in the same metres.
        edges: rows of the roads that are looked at.
        tolerance_m: distance up to which roads are the same; above 0.
    """
    fit_m = _FIT * tolerance_m
    # Rule 1.
    parts = find_missing_parts(
        predicted, ways, edges, tolerance_m=fit_m, longest_m=_LONGEST * tolerance_m
    )
    parts = parts.take(parts.graph.column(INFERRED, 0.0) != 1)
    joints = find_joints(parts, ways, tolerance_m=fit_m, max_gap_m=0)
    # Rules 2 to 4, the quickest first.
    rows = np.flatnonzero(joints.is_joined[parts.graph.ends].all(axis=1))
    rows = rows[_lead_away(parts.graph, rows, joints, ways)]
    rows = rows[_are_shown(parts.graph.lines[rows], ways, predicted, fit_m)]
    rows = rows[_are_detours(parts.graph, rows, joints, ways)]
    chosen = np.isin(np.arange(len(parts.missing_m)), rows)
    return parts.take(chosen), joints.of(parts.graph.ends[chosen])


def _lead_away(graph: RoadGraph, rows: Ints, joints: Joints, ways: MapWays) -> Bools:
    """Return which of these edges end far from the way on which they begin, both ways round."""
    ends = graph.ends[rows]
    others = np.asarray(shapely.points(joints.xy[ends[:, ::-1]]))
    away = shapely.distance(ways.lines[joints.way[ends]], others).min(axis=1, initial=np.inf)
    return np.asarray(away >= _ACROSS * graph.length_m[rows])


def _are_shown(lines: Lines, ways: MapWays, predicted: RoadGraph, fit_m: float) -> Bools:
    """Return around which lines a prediction shows all ways for cars."""
    around = shapely.buffer(lines, _AROUND_M)
    mapped = _within(around, ways.lines[ways.is_open])
    # Roads that lie further out can show what lies within.
    shown = shapely.buffer(
        _within(shapely.buffer(lines, _AROUND_M + fit_m), predicted.lines), fit_m
    )
    unseen = shapely.length(shapely.difference(mapped, shown))
    return np.asarray(unseen <= _UNSEEN * shapely.length(mapped))


def _within(areas: Lines, lines: Lines) -> Lines:
    """Return what lies within each area of all lines, in one geometry each."""
    area, line = shapely.STRtree(lines).query(areas, predicate="intersects")
    order = np.argsort(area, kind="stable")
    area, line = area[order], line[order]
    within = shapely.intersection(lines[line], areas[area])
    parts = np.split(within, np.searchsorted(area, np.arange(1, len(areas))))
    return np.array([*map(shapely.union_all, parts), None], dtype=object)[: len(areas)]


def _are_detours(graph: RoadGraph, rows: Ints, joints: Joints, ways: MapWays) -> Bools:
    """Return between the ends of which edges a map has a long route, or none."""
    limit_m = DETOUR * np.maximum(graph.length_m[rows], SHORTEST_M)
    apart = [
        ways.distances(joints.way[ends], joints.along_m[ends], limit_m=limit)[0, 1]
        for ends, limit in zip(graph.ends[rows], limit_m.tolist(), strict=True)
    ]
    return np.asarray(np.array(apart) > limit_m)
