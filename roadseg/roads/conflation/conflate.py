"""Conflation: the roads that a map lacks, joined to its ways, and what has to be checked."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.conflation.joining import (
    Joints,
    crossings,
    draw_to_joints,
    find_joints,
    trim_ends,
)
from roadseg.roads.conflation.map_ways import Insertions, MapWays, PlacedNodes, place_nodes
from roadseg.roads.conflation.missing_parts import MissingParts, find_missing_parts
from roadseg.roads.conflation.obstacles import Obstacles, near_obstacles, on_other_levels
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import (
    RoadGraph,
    graph_from_lines,
    part_attributes,
    take_edges,
)
from roadseg.roads.options import ConflateOptions

CONFIDENCE, INFERRED = "confidence", "inferred"  # Attributes of predicted edges.
_VERTEX_M = 1.0  # Metres; vertices of a new road so near to a node on the map are left out.
_NOTHING = np.iinfo(np.int64).min  # Where an end of a road has no node yet.
_DETOUR = 3.0  # A short road is worth adding if the map has no way up to so many times its length.
_SHORTEST_M = 10.0  # Metres; shorter roads count as long as this.


@dataclass(frozen=True)
class NewRoads:
    """Roads that a map lacks, as ways between nodes.

    Attributes:
        crs: metric CRS of the coordinates.
        xy: shape (n, 2), positions of the new nodes.
        refs: shape (k,), the nodes of all roads, one road after the other: the number of a node of
            the map, or -1 less the row of a new node.
        sizes: shape (r,), how many nodes each road has.
        lines: shape (r,), the roads as LineStrings.
        attributes: of the predicted edges, each of shape (r,).
        reason: shape (r,), why a road has to be checked before it is added; "" for one that is
            added.
        is_linked: shape (r,), roads with a link across a gap, which nobody saw.
        insertions: the new nodes that are put into ways of the map.
        left_out_m: metres of missing roads that are too short or too doubtful.
    """

    crs: CRS
    xy: Floats
    refs: Ints
    sizes: Ints
    lines: Lines
    attributes: dict[str, NDArray[Any]]
    reason: Lines
    is_linked: Bools
    insertions: Insertions
    left_out_m: float

    @property
    def is_added(self) -> Bools:
        """Which roads are added to the map."""
        return np.asarray(self.reason == "")

    @property
    def confidence(self) -> Floats:
        """Probability that each is a road; 1 where the prediction does not say."""
        stated = self.attributes.get(CONFIDENCE, np.full(len(self.lines), np.nan))
        return np.where(np.isnan(stated.astype(np.float64)), 1.0, stated).astype(np.float64)


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
    4. A road has to be checked if it comes near an obstacle, may lie on another level than a way
       that it meets, or is not connected with the map by roads that need no check.
    5. Where the others end or cross, ways of the map get a node, unless they have one there.

    Args:
        predicted: roads in metres.
        ways: of the map, in the same metres.
        obstacles: of the map.
        options: distances and limits.
    """
    parts = find_missing_parts(predicted, ways, tolerance_m=options.tolerance_m)
    missing_m = float(parts.missing_m.sum())
    parts = _take(parts, ~(_confidence(parts.graph) < options.min_confidence))
    joints = find_joints(parts, ways, tolerance_m=options.tolerance_m, max_gap_m=options.max_gap_m)
    long = _are_long(parts, joints, ways, options.min_length_m)
    parts, joints = _take(parts, long), _joints_of(joints, parts.graph.ends[long])
    left_out_m = missing_m - float(parts.missing_m.sum())
    drawn = draw_to_joints(parts, joints, tolerance_m=options.tolerance_m)
    drawn, way, along = trim_ends(drawn, parts, joints, ways, within_m=options.tolerance_m)
    reasons = near_obstacles(drawn, obstacles)
    for row, more in enumerate(on_other_levels(drawn, ways)):
        reasons[row] |= more
    reason = np.array([", ".join(sorted(each)) for each in reasons], dtype=object)
    crossed = crossings(drawn, ways, clear_m=_VERTEX_M)
    touches = np.asarray((way >= 0).any(axis=1))
    touches[crossed[0]] = True
    is_alone = (reason == "") & ~_are_connected(parts.graph, reason == "", touches)
    reason[is_alone] = "not connected with the map"
    return _as_ways(
        _Drawn(parts.graph, drawn, way, along, crossed, reason),
        ways,
        is_linked=np.asarray(joints.is_link[parts.graph.ends].any(axis=1)),
        left_out_m=left_out_m,
    )


def merged_graph(ways: MapWays, attributes: dict[str, NDArray[Any]], new: NewRoads) -> RoadGraph:
    """Return the graph of a map with the roads that are added to it.

    Args:
        ways: of the map.
        attributes: columns of shape (w,) for these.
        new: the roads; columns that a map has not are left out.
    """
    old = with_insertions(ways, new)
    added = np.flatnonzero(new.is_added)
    lines = np.concatenate([old, new.lines[added]])
    columns = {}
    for name, column in attributes.items():
        nothing = np.full(len(added), None if column.dtype == object else np.nan)
        values = new.attributes.get(name, None)
        columns[name] = np.concatenate([column, nothing if values is None else values[added]])
    return graph_from_lines(lines, new.crs, columns)


def with_insertions(ways: MapWays, new: NewRoads) -> Lines:
    """Return the lines of a map with the nodes that are put into them."""
    lines = ways.lines.copy()
    inserted = new.insertions
    for row in np.unique(inserted.way).tolist():
        chosen = np.flatnonzero(inserted.way == row)
        before = inserted.vertex[chosen] - ways.first[row] + 1
        xy = ways.xy[ways.first[row] : ways.first[row + 1]]
        order = np.argsort(before + inserted.part[chosen], kind="stable")
        lines[row] = shapely.LineString(
            np.insert(xy, before[order], new.xy[inserted.node[chosen[order]]], axis=0)
        )
    return lines


@dataclass(frozen=True)
class _Drawn:
    """New roads before they have nodes.

    Attributes:
        graph: how they are connected, with their attributes.
        lines: shape (m,), as they are drawn.
        way: shape (m, 2), the ways to which their ends are joined, -1 for none.
        along_m: shape (m, 2), how far along these.
        crossed: where they cross ways, see `crossings`.
        reason: shape (m,), why each has to be checked.
    """

    graph: RoadGraph
    lines: Lines
    way: Ints
    along_m: Floats
    crossed: tuple[Ints, Floats, Ints, Floats]
    reason: Lines


def _confidence(graph: RoadGraph) -> Floats:
    nothing = np.full(len(graph.lines), np.nan)
    return np.asarray(graph.attributes.get(CONFIDENCE, nothing), dtype=np.float64)


def _take(parts: MissingParts, chosen: Bools) -> MissingParts:
    """Return the chosen parts."""
    used = np.unique(parts.graph.ends[chosen])
    return MissingParts(
        take_edges(parts.graph, chosen),
        parts.is_cut[used],
        parts.is_dead_end[used],
        parts.missing_m[chosen],
    )


def _joints_of(joints: Joints, ends: Ints) -> Joints:
    """Return the joints of the nodes at these ends of edges."""
    used = np.unique(ends)
    return Joints(joints.way[used], joints.along_m[used], joints.xy[used], joints.is_link[used])


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
        joints: of all nodes.
        ways: of the map.
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
    some = replace(graph, ends=graph.ends[chosen], lines=graph.lines[chosen], attributes={})
    component = components(some)[graph.ends[:, 0]] if chosen.any() else graph.ends[:, 0]
    return np.asarray(chosen & np.isin(component, component[chosen & touches]))


def _as_ways(drawn: _Drawn, ways: MapWays, *, is_linked: Bools, left_out_m: float) -> NewRoads:
    """Give new roads their nodes: those on the map, those that they share, and their vertices."""
    added = drawn.reason == ""
    joined = (drawn.way >= 0) & added[:, np.newaxis]
    road, at, way, along = (column[added[drawn.crossed[0]]] for column in drawn.crossed)
    placed = place_nodes(
        ways,
        np.concatenate([drawn.way[joined], way]),
        np.concatenate([drawn.along_m[joined], along]),
    )
    ends, crossing_ref = np.split(placed.ref, [int(joined.sum())])
    joint = np.full(drawn.way.shape, _NOTHING)
    joint[joined] = ends
    nodes = _Nodes(placed, ways, drawn, joint)
    between = _by_road(road, at, crossing_ref)
    roads = [nodes.along(row, between.get(row, [])) for row in range(len(drawn.lines))]
    sizes = np.array([len(each) for each in roads], dtype=np.int64)
    lines = np.array([nodes.line(each) for each in roads], dtype=object)
    keeps = np.flatnonzero(sizes > 1)
    part = shapely.length(lines[keeps]) / drawn.graph.length_m[keeps]
    return NewRoads(
        drawn.graph.crs,
        nodes.xy,
        np.array([ref for row in keeps for ref in roads[row]], dtype=np.int64),
        sizes[keeps],
        lines[keeps],
        part_attributes(drawn.graph.attributes, keeps, part),
        drawn.reason[keeps],
        is_linked[keeps],
        placed.insertions,
        left_out_m,
    )


def _by_road(road: Ints, at: Floats, ref: Ints) -> dict[int, list[tuple[float, int]]]:
    """Return the places along each road at which it has a node on the map, and the nodes."""
    between: dict[int, list[tuple[float, int]]] = {}
    for row, place, node in zip(road.tolist(), at.tolist(), ref.tolist(), strict=True):
        between.setdefault(row, []).append((place, node))
    return between


class _Nodes:
    """The nodes of new roads, numbered as they are needed."""

    def __init__(self, placed: PlacedNodes, ways: MapWays, drawn: _Drawn, joint: Ints) -> None:
        """Begin with the nodes on ways.

        Args:
            placed: these nodes.
            ways: of the map.
            drawn: the new roads.
            joint: shape (m, 2), the node at each end of a road that is added and joined.
        """
        self._new: list[tuple[float, float]] = [(x, y) for x, y in placed.xy.tolist()]
        self._ways, self._drawn, self._joint = ways, drawn, joint
        is_joint = joint != _NOTHING
        pairs = np.column_stack([drawn.graph.ends[is_joint], joint[is_joint]])
        self._joined = dict(pairs.tolist())
        self._shared: dict[int, int] = {}
        _, first = np.unique(ways.node, return_index=True)
        self._vertex = dict(zip(ways.node[first].tolist(), first.tolist(), strict=True))

    @property
    def xy(self) -> Floats:
        """Positions of the new nodes, shape (n, 2)."""
        return np.array(self._new, dtype=np.float64).reshape(-1, 2)

    def along(self, row: int, between: list[tuple[float, int]]) -> list[int]:
        """Return the nodes of a road: its ends, nodes at places along it, and its vertices."""
        xy = shapely.get_coordinates(self._drawn.lines[row])
        place = np.append(0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))
        fixed = np.array([0, place[-1], *(at for at, _ in between)])
        inner = [
            (float(place[v]), self._add(xy[v]))
            for v in range(1, len(xy) - 1)
            if np.abs(fixed - place[v]).min() > _VERTEX_M
        ]
        inside = [ref for _, ref in sorted([*between, *inner], key=lambda each: each[0])]
        refs = [self._end(row, 0, xy[0]), *inside, self._end(row, 1, xy[-1])]
        # Places close to each other may have become one node.
        return [ref for i, ref in enumerate(refs) if i == 0 or ref != refs[i - 1]]

    def line(self, refs: list[int]) -> shapely.LineString:
        """Return the line through nodes; an empty one if there is a single node."""
        xy = [self._new[-1 - ref] if ref < 0 else self._ways.xy[self._vertex[ref]] for ref in refs]
        return shapely.LineString(xy if len(xy) > 1 else None)

    def _end(self, row: int, side: int, place: Floats) -> int:
        """Return the node at an end of a road."""
        if self._joint[row, side] != _NOTHING:
            return int(self._joint[row, side])
        node, way = int(self._drawn.graph.ends[row, side]), int(self._drawn.way[row, side])
        if way < 0:
            if node not in self._shared:
                self._shared[node] = self._add(place)
            return self._shared[node]
        # A road that has to be checked changes no way, but may end at a node that there is.
        vertex = self._ways.vertex_near(way, float(self._drawn.along_m[row, side]))
        if vertex >= 0:
            return int(self._ways.node[vertex])
        return self._joined[node] if node in self._joined else self._add(place)

    def _add(self, place: Floats) -> int:
        self._new.append((float(place[0]), float(place[1])))
        return -len(self._new)
