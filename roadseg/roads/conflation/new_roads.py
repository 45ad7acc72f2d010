"""NewRoads: roads that a map lacks, as ways between nodes, some of which the map has."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.arrays import Bools, Floats, Ints, Lines, Objects
from roadseg.roads.conflation.joining import VERTEX_M, Joints
from roadseg.roads.conflation.map_ways import Insertions, MapWays, place_nodes
from roadseg.roads.graph.road_graph import RoadGraph, lines_from, part_attributes, vertices_along

CONFIDENCE = "confidence"  # Attribute of predicted edges.
IS_APART = "is_apart"  # The same: 1 for bridges and tunnels.
_NOTHING = np.iinfo(np.int64).min  # Where an end of a road has no node yet.


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
    reason: Objects
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

    def ways_with_nodes(self, ways: MapWays) -> Lines:
        """Return the lines of the map with the new nodes that are put into them."""
        xy = self.insertions.put_in(ways.xy, self.xy)
        return lines_from(xy, np.diff(self.insertions.first_of(ways.first)))


def with_nodes(
    graph: RoadGraph,
    ways: MapWays,
    joints: Joints,
    crossed: tuple[Ints, Floats, Ints, Floats],
    *,
    reason: Objects,
    left_out_m: float,
) -> NewRoads:
    """Give new roads their nodes: those on the map, those that they share, and their vertices.

    Where the map, or a road before it, has a piece between the same two nodes as a road, that piece
    is left out, and the road is parted there.

    Args:
        graph: the roads as they are drawn to the map.
        joints: where their nodes are joined to it.
        crossed: where they meet its ways, see `meetings`.
        reason: shape (m,), why each has to be checked; "" for one that is added.
        left_out_m: metres of roads that are not among them.
    """
    added = reason == ""
    end_way, end_along_m = joints.way[graph.ends], joints.along_m[graph.ends]
    joined = (end_way >= 0) & added[:, np.newaxis]
    road, at, way, along = (column[added[crossed[0]]] for column in crossed)
    placed, xy, insertions = place_nodes(
        ways,
        np.concatenate([end_way[joined], way]),
        np.concatenate([end_along_m[joined], along]),
    )
    ends, crossing_ref = np.split(placed, [int(joined.sum())])
    joint = np.full(end_way.shape, _NOTHING)
    joint[joined] = ends
    nodes = _Nodes(xy, ways, graph, joints, joint)
    between = _by_road(road, at, crossing_ref)
    roads = [nodes.along(row, between.get(row, [])) for row in range(len(graph.lines))]
    source, roads = _without_doubles(roads, added, ways, insertions)
    lines = np.array([*map(nodes.line, roads), None], dtype=object)[:-1]
    part = shapely.length(lines) / graph.length_m[source]
    return NewRoads(
        graph.crs,
        nodes.xy,
        np.array([ref for refs in roads for ref in refs], dtype=np.int64),
        np.array([len(refs) for refs in roads], dtype=np.int64),
        lines,
        part_attributes(graph.attributes, source, part),
        reason[source],
        np.asarray(joints.is_link[graph.ends[source]].any(axis=1)),
        insertions,
        left_out_m,
    )


def _without_doubles(
    roads: list[list[int]], added: Bools, ways: MapWays, insertions: Insertions
) -> tuple[Ints, list[list[int]]]:
    """Return the nodes of roads without the pieces that are there already.

    Args:
        added: shape (m,), which are added; these come before those to check.

    Returns:
        The row that each road had, and its nodes, of which there are at least two.
    """
    nodes = insertions.put_in(ways.node, -1 - np.arange(len(insertions.node)))
    is_used = np.isin(nodes, [ref for refs in roads for ref in refs])
    is_piece = is_used[:-1] & is_used[1:]
    # The last node of a way and the first of the next are no piece.
    is_piece[insertions.first_of(ways.first)[1:-1] - 1] = False
    taken = {*map(frozenset, zip(nodes[:-1][is_piece], nodes[1:][is_piece], strict=True))}
    parts = {row: _untaken(roads[row], taken) for row in np.argsort(~added, kind="stable").tolist()}
    kept = [(row, part) for row in range(len(roads)) for part in parts[row] if len(part) > 1]
    return np.array([row for row, _ in kept], dtype=np.int64), [part for _, part in kept]


def _untaken(refs: list[int], taken: set[frozenset[int]]) -> list[list[int]]:
    """Return the parts of a road without the pieces that are taken; take the others."""
    parts = [refs[:1]]
    for before, after in pairwise(refs):
        piece = frozenset((before, after))
        if piece in taken:
            parts.append([after])
        else:
            taken.add(piece)
            parts[-1].append(after)
    return parts


def _by_road(road: Ints, at: Floats, ref: Ints) -> dict[int, list[tuple[float, int]]]:
    """Return the places along each road at which it has a node on the map, and the nodes."""
    between: dict[int, list[tuple[float, int]]] = {}
    for row, place, node in zip(road.tolist(), at.tolist(), ref.tolist(), strict=True):
        between.setdefault(row, []).append((place, node))
    return between


class _Nodes:
    """The nodes of new roads, numbered as they are needed."""

    def __init__(
        self, xy: Floats, ways: MapWays, graph: RoadGraph, joints: Joints, joint: Ints
    ) -> None:
        """Begin with the nodes on ways.

        Args:
            xy: shape (n, 2), positions of these nodes.
            joint: shape (m, 2), the node at each end of a road that is added and joined.
        """
        self._new: list[tuple[float, float]] = [(x, y) for x, y in xy.tolist()]
        self._ways, self._graph, self._joints, self._joint = ways, graph, joints, joint
        is_joint = joint != _NOTHING
        pairs = np.column_stack([graph.ends[is_joint], joint[is_joint]])
        self._at_end: dict[int, int] = dict(pairs.tolist())  # By the node of the prediction.
        _, first = np.unique(ways.node, return_index=True)
        self._vertex = dict(zip(ways.node[first].tolist(), first.tolist(), strict=True))

    @property
    def xy(self) -> Floats:
        """Positions of the new nodes, shape (n, 2)."""
        return np.array(self._new, dtype=np.float64).reshape(-1, 2)

    def along(self, row: int, between: list[tuple[float, int]]) -> list[int]:
        """Return the nodes of a road: its ends, nodes at places along it, and its vertices."""
        xy, _, place = vertices_along(self._graph.lines[row])
        fixed = np.array([0, place[-1], *(at for at, _ in between)])
        inner = [
            (float(place[v]), self._add(xy[v]))
            for v in range(1, len(xy) - 1)
            if np.abs(fixed - place[v]).min() > VERTEX_M
        ]
        inside = [ref for _, ref in sorted([*between, *inner], key=lambda each: each[0])]
        refs = [self._end(row, 0, xy[0]), *inside, self._end(row, 1, xy[-1])]
        # Places close to each other may have become one node.
        return [ref for i, ref in enumerate(refs) if i == 0 or ref != refs[i - 1]]

    def line(self, refs: list[int]) -> shapely.LineString:
        """Return the line through nodes, of which there are at least two."""
        xy = [self._new[-1 - ref] if ref < 0 else self._ways.xy[self._vertex[ref]] for ref in refs]
        return shapely.LineString(xy)

    def _end(self, row: int, side: int, place: Floats) -> int:
        """Return the node at an end of a road."""
        if self._joint[row, side] != _NOTHING:
            return int(self._joint[row, side])
        node = int(self._graph.ends[row, side])
        way = int(self._joints.way[node])
        if way >= 0:
            # A road that has to be checked changes no way, but may end at a node that there is.
            vertex = self._ways.vertex_near(way, float(self._joints.along_m[node]))
            if vertex >= 0:
                return int(self._ways.node[vertex])
        if node not in self._at_end:
            self._at_end[node] = self._add(place)
        return self._at_end[node]

    def _add(self, place: Floats) -> int:
        self._new.append((float(place[0]), float(place[1])))
        return -len(self._new)
