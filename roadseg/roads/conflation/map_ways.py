"""MapWays: the ways of a map, the nodes that they share, and places along them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.road_graph import cut_lines, ranges, vertices_along
from roadseg.roads.graph.shortest_paths import adjacency

_SNAP_M = 2.0  # Metres; a node of a way this near is taken instead of a new one.
_MOST_CUT = 0.49  # Part of a way that is cut at an end.
_LEAST_M = 1e-6  # Metres between vertices; 0 would be no step at all.
_SNAP_JUNCTION_M = 5.0  # Metres; the same for a node where ways meet or end.


@dataclass(frozen=True)
class MapWays:
    """Ways of a map in metres.

    Attributes:
        lines: shape (w,), LineStrings.
        node: shape (k,), number of the node at every vertex, one way after the other; vertices of
            one number are one node, at which ways meet.
        is_open: shape (w,), ways for cars; new roads are drawn to these first.
        is_apart: shape (w,), ways on another level: bridges and tunnels.
        is_motorway: shape (w,), ways that cars enter and leave on ramps only.
    """

    lines: Lines
    node: Ints
    is_open: Bools
    is_apart: Bools
    is_motorway: Bools

    @cached_property
    def xy(self) -> Floats:
        """Position of every vertex, shape (k, 2)."""
        return np.asarray(shapely.get_coordinates(self.lines), dtype=np.float64)

    @cached_property
    def first(self) -> Ints:
        """Vertex at which each way begins, shape (w + 1,), and the number of vertices."""
        return np.append(0, np.cumsum(shapely.get_num_coordinates(self.lines)))

    @cached_property
    def along(self) -> Floats:
        """Distance of every vertex from the start of its way, shape (k,), metres."""
        return vertices_along(self.lines)[2]

    @cached_property
    def is_junction(self) -> Bools:
        """Whether at every vertex, shape (k,), ways meet or a way ends."""
        is_junction: Bools = (np.bincount(self.node) > 1)[self.node]
        is_junction[self.first[:-1]] = is_junction[self.first[1:] - 1] = True
        return is_junction

    @cached_property
    def is_dead_end(self) -> Bools:
        """Whether each way begins, and ends, where no other goes on, shape (w, 2)."""
        ends = np.column_stack([self.node[self.first[:-1]], self.node[self.first[1:] - 1]])
        return np.asarray((np.bincount(self.node, minlength=1) == 1)[ends])

    @cached_property
    def tree(self) -> shapely.STRtree:
        """Spatial index of the ways."""
        return shapely.STRtree(self.lines)

    def without_dead_ends(self, cut_m: float) -> Lines:
        """Return the lines without the last metres of ways that end where no other way goes on.

        At most 0.49 of the length of a way is cut at each of its ends.
        """
        length = np.asarray(shapely.length(self.lines))
        begin, end = (self.is_dead_end * np.minimum(cut_m, _MOST_CUT * length)[:, np.newaxis]).T
        return cut_lines(self.lines, begin, length - end)

    def distances(self, way: Ints, along_m: Floats, *, limit_m: float) -> Floats:
        """Return the distances along ways between places on them.

        Args:
            way: shape (q,), rows of ways.
            along_m: shape (q,), distance of each place from the start of its way.

        Returns:
            Metres, shape (q, q), infinite beyond the limit.
        """
        points = shapely.line_interpolate_point(self.lines[way], along_m)
        near = np.unique(self.tree.query(points, predicate="dwithin", distance=limit_m)[1])
        sizes = np.diff(self.first)[near]
        vertex = ranges(self.first[near], sizes)
        nodes, number = np.unique(self.node[vertex], return_inverse=True)
        is_step = np.diff(np.repeat(near, sizes)) == 0
        before = self.vertices_before(way, along_m)
        place = len(nodes) + np.arange(len(way))
        sides = [np.searchsorted(nodes, self.node[vertices]) for vertices in (before, before + 1)]
        steps = np.concatenate(
            [
                np.diff(self.along[vertex])[is_step],
                along_m - self.along[before],
                self.along[before + 1] - along_m,
            ]
        )
        ends = np.column_stack(
            [
                np.concatenate([number[:-1][is_step], place, place]),
                np.concatenate([number[1:][is_step], *sides]),
            ]
        )
        # Ways may share a step, as where a map draws a road twice.
        roads = adjacency(ends, np.maximum(steps, _LEAST_M), len(nodes) + len(way))
        metres = dijkstra(roads, indices=place, limit=limit_m)[:, place]
        # Between two vertices, one place is reached from another without passing either.
        beside = np.abs(along_m[:, np.newaxis] - along_m)
        is_beside = (before[:, np.newaxis] == before) & (beside <= limit_m)
        return np.where(is_beside, np.minimum(metres, beside), metres)

    def vertices_before(self, way: Ints, along_m: Floats) -> Ints:
        """Return the vertex before each place along its way, which is never the last one."""
        vertices = [slice(self.first[row], self.first[row + 1] - 1) for row in way.tolist()]
        return np.array(
            [
                v.start + max(int(np.searchsorted(self.along[v], at, side="right")) - 1, 0)
                for v, at in zip(vertices, along_m.tolist(), strict=True)
            ],
            dtype=np.int64,
        )

    def vertex_near(self, way: int, along_m: float) -> int:
        """Return the vertex of a way that stands for a place on it; -1 if none is near enough."""
        vertices = slice(self.first[way], self.first[way + 1])
        apart = np.abs(self.along[vertices] - along_m)
        apart[(apart > _SNAP_M) & ~self.is_junction[vertices]] = np.inf
        nearest = int(np.argmin(apart))
        return int(self.first[way]) + nearest if apart[nearest] <= _SNAP_JUNCTION_M else -1


@dataclass(frozen=True)
class Insertions:
    """New nodes that are put into ways.

    Attributes:
        way: shape (i,), row of the way.
        vertex: shape (i,), the vertex of `MapWays` that comes before it.
        part: shape (i,), where it lies between this vertex and the next one, 0 to 1.
        node: shape (i,), row of the new node.
    """

    way: Ints
    vertex: Ints
    part: Floats
    node: Ints

    def put_in(self, old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        """Return values of the vertices of all ways with those of the new nodes among them.

        Args:
            old: shape (k, ...), of the vertices of `MapWays`.
            new: shape (n, ...), of the new nodes.
        """
        order = np.lexsort([self.part, self.vertex])
        return np.insert(old, self.vertex[order] + 1, new[self.node[order]], axis=0)

    def first_of(self, first: Ints) -> Ints:
        """Return where each way begins with the new nodes, as `MapWays.first` without them."""
        put_in = np.bincount(self.way, minlength=len(first) - 1)
        return np.asarray(first + np.append(0, np.cumsum(put_in)))


def place_nodes(ways: MapWays, way: Ints, along_m: Floats) -> tuple[Ints, Floats, Insertions]:
    """Find or make the nodes at places on ways.

    A node that a way has within 2 m of the place, or within 5 m if ways meet or end there, is
    taken; places within 2 m of each other on one way share a new node.

    Args:
        way: shape (q,), rows of ways.
        along_m: shape (q,), distance of each place from the start of its way.

    Returns:
        Of each place the number of a node of the map, or -1 less the row of a new node, shape (q,);
        positions of the new nodes, shape (n, 2); and these as parts of their ways.
    """
    ref = np.zeros(len(way), dtype=np.int64)
    new_places: list[tuple[int, float]] = []
    last_way, last_m = -1, 0.0
    for row in np.lexsort([along_m, way]).tolist():
        here, at_m = int(way[row]), float(along_m[row])
        near = ways.vertex_near(here, at_m)
        if near >= 0:
            ref[row] = ways.node[near]
            continue
        if here != last_way or at_m - last_m > _SNAP_M:
            last_way, last_m = here, at_m
            new_places.append((here, at_m))
        ref[row] = -len(new_places)
    in_way = np.array([here for here, _ in new_places], dtype=np.int64)
    along_m = np.array([at_m for _, at_m in new_places], dtype=np.float64)
    vertex = ways.vertices_before(in_way, along_m)
    # How far on each place lies from the vertex before it to the next, 0 to 1.
    length = ways.along[vertex + 1] - ways.along[vertex] if len(in_way) else np.zeros(0)
    beyond = along_m - ways.along[vertex]
    part = np.divide(beyond, length, out=np.zeros_like(beyond), where=length > 0)
    before, after = ways.xy[vertex], ways.xy[np.minimum(vertex + 1, len(ways.xy) - 1)]
    xy = before + part[:, np.newaxis] * (after - before)
    return ref, xy, Insertions(in_way, vertex, part, np.arange(len(new_places)))
