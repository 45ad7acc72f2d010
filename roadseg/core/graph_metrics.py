"""Compare a predicted road graph with the reference by the routes through them: APLS."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from roadseg.core.graphs import RoadGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Weight = Literal["length_m", "travel_time_s"]

PAIRS_AT_ONCE = 2_000_000  # routes held in memory: 16 MB an array, some ten arrays


@dataclass(frozen=True)
class Apls:
    """Average path length similarity, all three from 0 (no route is right) to 1 (every one is).

    Attributes:
        score: harmonic mean of both directions, 0 if either is 0.
        reference_to_predicted: routes of the reference, found again in the prediction (complete?).
        predicted_to_reference: routes of the prediction, found again in the reference (correct?).
    """

    score: float
    reference_to_predicted: float
    predicted_to_reference: float


def apls(
    reference: RoadGraph,
    predicted: RoadGraph,
    *,
    weight: Weight = "length_m",
    spacing_m: float = 50.0,
    snap_m: float = 4.0,
) -> Apls:
    """Score how alike the shortest routes of two road graphs are.

    Control points are all nodes and evenly spaced points on every edge: none on an edge shorter
    than 0.75 `spacing_m`, else max(2, ceil(length / `spacing_m`)) - 1. Each is snapped to the
    nearest edge of the other graph and is missing there if that is further away than `snap_m`.
    Every ordered pair of control points with a route of cost L > 0 between them in their own graph
    counts min(1, |L - L'| / L), L' being the cost between the snapped points, or 1 if one of them
    is missing or no route joins them. A direction scores 1 minus the mean over its pairs.

    A graph without any such pair (no edges; or only loops too short for a control point) is
    empty: two empty graphs score 1, an empty and another 0, in both directions.

    Control points sit on each edge by itself, so nodes in the middle of a road add control points:
    give both graphs with chains merged (no node joins just two edges, closed rings aside) to get
    values that compare with others. Loops and parallel edges count, but an edge drawn again point
    by point between the same nodes counts once. Roads that cross without a node stay unconnected.

    Args:
        reference: graph of the labels.
        predicted: graph to be scored, in the same metric CRS.
        weight: cost of a route: metres, or seconds from the column `travel_time_s` of the edges'
            attributes (zero or more). Spacing and snapping are in metres either way; the seconds
            of a part of an edge are in proportion to its length.
        spacing_m: greatest distance between control points on an edge, above 0; an edge of
            0.75 `spacing_m` up to and including 2 `spacing_m` gets one in its middle.
        snap_m: greatest distance at which a control point is found in the other graph, itself
            included; above 0.

    Returns:
        The score and both directions.

    Raises:
        ValueError: the CRSs differ, a distance is not above 0, or the edges of a graph lack
            `travel_time_s` or have one that is negative or not finite.

    Source: APLS of Van Etten, Lindenbaum, Bacastow, "SpaceNet: A Remote Sensing Dataset and
    Challenge Series" (2018), as in the SpaceNet 3 scorer and CosmiQ/apls. Unlike that code we
    measure in planar metres, keep loops, parallel edges and short components, split no edge (a part
    keeps the speed of its own edge), let no control point replace another, have a score for empty
    graphs, and use all control points at any size.
    """
    if reference.crs != predicted.crs:
        raise ValueError(f"the CRSs differ: {reference.crs.name} and {predicted.crs.name}")
    if not (spacing_m > 0 and snap_m > 0):
        raise ValueError(f"spacing_m and snap_m must be above 0, got {spacing_m} and {snap_m}")
    sides = _Routes.of(reference, weight), _Routes.of(predicted, weight)
    there = _score(sides[0], sides[1], spacing_m, snap_m)
    back = _score(sides[1], sides[0], spacing_m, snap_m)
    if there is None or back is None:
        there = back = float(there is None and back is None)
    return Apls(2 * there * back / (there + back) if there + back else 0.0, there, back)


@dataclass(frozen=True)
class _Points:
    """Places in a graph: the row of an edge and the fraction of its length, both of shape (k,)."""

    edge: Ints
    fraction: Floats

    def __getitem__(self, rows: Ints | NDArray[np.bool_]) -> "_Points":
        return _Points(self.edge[rows], self.fraction[rows])


@dataclass(frozen=True)
class _Routes:
    """A graph ready for routing: cost of every edge, and cheapest edge between two nodes."""

    graph: RoadGraph
    cost: Floats
    adjacency: csr_array

    @classmethod
    def of(cls, graph: RoadGraph, weight: Weight) -> "_Routes":
        cost = _cost(graph, weight)
        once = _once(graph, cost)
        graph = RoadGraph(graph.crs, graph.nodes, graph.ends[once], graph.lines[once])
        return cls(graph, cost[once], _adjacency(graph.ends, cost[once], len(graph.nodes)))

    def costs(self, starts: _Points, goals: _Points) -> Floats:
        """Cost of the cheapest route from each start to each goal, infinite if there is none."""
        nodes, of_start = np.unique(self.graph.ends[starts.edge], return_inverse=True)
        of_start = of_start.reshape(-1, 2)
        between = dijkstra(self.adjacency, indices=nodes)
        leave, arrive = self._to_ends(starts), self._to_ends(goals)
        ends = self.graph.ends[goals.edge]
        from_nodes = np.minimum(
            between[:, ends[:, 0]] + arrive[:, 0], between[:, ends[:, 1]] + arrive[:, 1]
        )
        routes: Floats = np.minimum(
            from_nodes[of_start[:, 0]] + leave[:, :1], from_nodes[of_start[:, 1]] + leave[:, 1:]
        )
        start, goal = np.nonzero(starts.edge[:, None] == goals.edge)
        along = np.abs(leave[start, 0] - arrive[goal, 0])
        routes[start, goal] = np.minimum(routes[start, goal], along)
        return routes

    def _to_ends(self, points: _Points) -> Floats:
        """Cost along its edge from each point to both ends, shape (k, 2)."""
        both = np.column_stack([points.fraction, 1 - points.fraction])
        return both * self.cost[points.edge, None]


def _cost(graph: RoadGraph, weight: Weight) -> Floats:
    """Cost of each edge, shape (m,); a graph without edges needs no attribute."""
    if weight == "length_m" or len(graph.lines) == 0:
        return graph.length_m
    if weight not in graph.attributes:
        raise ValueError(f"the edges have no {weight}, only {sorted(graph.attributes)}")
    cost = np.asarray(graph.attributes[weight], dtype=np.float64)
    if not np.all((cost >= 0) & np.isfinite(cost)):
        raise ValueError(f"{weight} must be finite and not negative on every edge")
    return cost


def _once(graph: RoadGraph, cost: Floats) -> Ints:
    """Rows of the edges without those drawn again between the same nodes; the cheapest stays."""
    drawing = shapely.to_wkb(shapely.normalize(graph.lines))
    ends = np.sort(graph.ends, axis=1).tolist()
    rows: dict[tuple[int, int, bytes], int] = {}
    for row in np.argsort(cost, kind="stable").tolist():
        rows.setdefault((*ends[row], drawing[row]), row)
    return np.sort(np.array(list(rows.values()), dtype=np.int64))


def _adjacency(ends: Ints, cost: Floats, nodes: int) -> csr_array:
    """Cheapest edge between each two nodes, both ways, shape (nodes, nodes).

    The csr constructor adds up duplicates, so parallel edges are reduced to the cheapest before. It
    keeps an edge of cost 0 as a stored zero, which scipy's graph routines count as an edge.
    """
    start, goal = np.concatenate([ends, ends[:, ::-1]]).T
    twice = np.concatenate([cost, cost])
    order = np.lexsort([twice, goal, start])
    pair = start[order] * nodes + goal[order]
    first = order[np.unique(pair, return_index=True)[1]]
    return csr_array((twice[first], (start[first], goal[first])), shape=(nodes, nodes))


def _score(source: _Routes, target: _Routes, spacing_m: float, snap_m: float) -> float | None:
    """Score one direction; None if the source has no pair of control points."""
    points, places = _control_points(source.graph, spacing_m)
    snapped, found = _snap(places, target.graph, snap_m)
    total, pairs = 0.0, 0
    for rows in _blocks(len(places)):
        native = source.costs(points[rows], points)
        counted = np.isfinite(native) & (native > 0)
        other = np.full_like(native, np.inf)
        hits = rows[found[rows]]
        other[np.ix_(found[rows], found)] = target.costs(snapped[hits], snapped[found])
        ratio = np.abs(native[counted] - other[counted]) / native[counted]
        total += float(np.minimum(ratio, 1).sum())
        pairs += ratio.size
    return 1 - total / pairs if pairs else None


def _blocks(count: int) -> Iterator[Ints]:
    """Yield the rows 0 to `count` in runs that keep `PAIRS_AT_ONCE`, one row at least."""
    step = max(1, PAIRS_AT_ONCE // max(count, 1))
    for start in range(0, count, step):
        yield np.arange(start, min(start + step, count))


def _control_points(graph: RoadGraph, spacing_m: float) -> tuple[_Points, NDArray[np.object_]]:
    """Put control points on all nodes that have an edge and along all edges; where, and as Points.

    Points of one edge follow each other, so that a block of them starts from few nodes.
    """
    edges = len(graph.lines)
    used, end = np.unique(graph.ends, return_index=True)
    length = graph.length_m
    pieces = np.maximum(np.ceil(length / spacing_m), 2).astype(np.int64)
    inner = np.where(length < 0.75 * spacing_m, 0, pieces - 1)
    edge = np.repeat(np.arange(edges), inner)
    nth = np.arange(len(edge)) - np.repeat(np.cumsum(inner) - inner, inner) + 1
    points = _Points(
        np.concatenate([end // 2, edge]), np.concatenate([end % 2, nth / pieces[edge]])
    )
    middles = shapely.line_interpolate_point(
        graph.lines[edge], points.fraction[len(used) :], normalized=True
    )
    order = np.argsort(points.edge, kind="stable")
    return points[order], np.concatenate([shapely.points(graph.nodes[used]), middles])[order]


def _snap(
    places: NDArray[np.object_], graph: RoadGraph, snap_m: float
) -> tuple[_Points, NDArray[np.bool_]]:
    """Find each place on the nearest edge within `snap_m`; of equally near ones the first row.

    Returns:
        The points and which of them were found; those not found are meaningless.
    """
    tree = shapely.STRtree(graph.lines)
    place, near = tree.query_nearest(places, max_distance=snap_m)
    order = np.lexsort([near, place])
    place, near = place[order], near[order]
    place, first = np.unique(place, return_index=True)
    edge, fraction = np.zeros(len(places), dtype=np.int64), np.zeros(len(places))
    found = np.zeros(len(places), dtype=np.bool_)
    edge[place], found[place] = near[first], True
    length = graph.length_m[edge[place]]
    along = shapely.line_locate_point(graph.lines[edge[place]], places[place])
    fraction[place] = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
    return _Points(edge, fraction), found
