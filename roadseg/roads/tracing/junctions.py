"""Junctions: move them to where the lines of their roads meet, which thinning has bent."""

from dataclasses import dataclass, replace

import numpy as np
import shapely

from roadseg.arrays import Columns, Floats, Ints
from roadseg.roads.graph.directions import left_of, places_inside, unit
from roadseg.roads.graph.road_graph import RoadGraph, unique_pairs, with_vertices
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.end_repair import redraw_tips

_JUNCTION = 3  # Edges that meet at a junction, at least.
_RADII_M = tuple(1.2**n for n in range(18))  # Metres; discs of road that are tried, up to 22.
_REACH_RADII = 1.2  # Radii of the disc at a junction up to which thinning bends its roads.
_REACH_M = 1.0  # Metres by which smoothing extends the bend.
_BASE_M = 8.0  # Metres of road beyond the bend that give its line.
_LEAST_BASE_M = 3.0  # Metres; less road gives no reliable line.
_SAMPLES = 8  # Points that sample the line of a road.
_STRAIGHT_M = 0.25  # Metres; largest root mean square distance of a straight road from its line.
_HOLD = 0.005  # Weight of the present place of a junction in least squares; a road has 1.
_MOST_M = 4.0  # Metres by which a junction moves at most.
_MOST_RADIUS_M = 8.0  # Metres; in more road around a junction its place would be a guess.


def place_junctions(graph: RoadGraph, *, mask: CoarseMask) -> RoadGraph:
    """Move junctions to where the lines of their roads meet, and lead the roads straight there.

    Thinning bends the skeleton towards a road that branches off. It is in the middle of its road
    again at about 1.2 radii of the largest disc of road around the junction, and 1 m further after
    smoothing.

    1. The line of each road is fitted to the 8 m beyond this bend. Roads with less than 3 m left,
       and roads that are not straight there, do not count.
    2. The junction moves to the place nearest to all of these lines, by least squares.
    3. A junction stays where it is if it would move by more than 4 m, or if its disc has a radius
       of more than 8 m or reaches the border of the scene, beyond which nothing is known.

    If thinning has made two junctions of a crossing, both move to one place; merge them afterwards.

    Args:
        graph: roads in metres, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.

    Source: fitting roads away from their junctions and extending them to where they meet follows
    Y.-Y. Chiang and C. A. Knoblock, "A general approach for extracting road vector data from raster
    maps", IJDAR 16(1), 2013; the discs are ours.
    """
    nodes = np.flatnonzero(graph.degree >= _JUNCTION)
    radius_m = np.zeros(len(graph.nodes))
    radius_m[nodes] = _radii(graph.nodes[nodes], mask)
    edge, side = np.nonzero(graph.degree[graph.ends] >= _JUNCTION)
    arms = _Arms(edge, side, graph.ends[edge, side])
    if len(arms.edge) == 0:
        return graph
    # Rules 1 and 2: the place nearest to the lines of the roads, which are read beyond the tips.
    tips_m = _tips(graph, arms, radius_m)
    places = _meeting_places(graph, arms, tips_m)
    # Rule 3: which junctions stay.
    moves = (radius_m > 0) & (radius_m <= _MOST_RADIUS_M)
    moves &= np.hypot(*(places - graph.nodes).T) <= _MOST_M
    border = mask.grid.footprint_m.exterior
    moves &= shapely.distance(shapely.points(graph.nodes), border) > radius_m
    tips_m = np.where(moves[arms.node], tips_m, 0)
    cut = (tips_m > 0) & (tips_m < graph.length_m[arms.edge])
    cut_arms = arms.take(cut)
    lines = with_vertices(graph.lines, cut_arms.edge, cut_arms.places(graph, tips_m[cut]))
    tips = np.zeros((len(graph.lines), 2))
    # The vertices at which the tips begin stay.
    tips[arms.edge, arms.side] = np.maximum(tips_m - 1e-3, 0)
    placed = np.where(moves[:, None], places, graph.nodes)
    rows = np.unique(arms.edge[moves[arms.node]])
    return redraw_tips(replace(graph, nodes=placed, lines=lines), rows, tips)


@dataclass(frozen=True)
class _Arms(Columns):
    """Ends of edges at junctions.

    Attributes:
        edge: shape (k,), row of the edge.
        side: shape (k,), 0 where the edge starts at the junction, 1 where it ends there.
        node: shape (k,), row of the junction.
    """

    edge: Ints
    side: Ints
    node: Ints

    def places(self, graph: RoadGraph, metres: Floats) -> Floats:
        """Return the places at these distances along the arms, shape (k, 2)."""
        return places_inside(graph.lines[self.edge], metres, self.side == 0)


def _radii(places: Floats, mask: CoarseMask) -> Floats:
    """Return the radius of the largest disc of road around each place, metres; 0 without road."""
    radius_m = np.zeros(len(places))
    rows = np.arange(len(places))
    for metres in _RADII_M:
        rows = rows[mask.contains_discs(places[rows], np.full(len(rows), metres))]
        radius_m[rows] = metres
    return radius_m


def _tips(graph: RoadGraph, arms: _Arms, radius_m: Floats) -> Floats:
    """Return how much of each arm thinning has bent, in metres."""
    tips_m = _REACH_RADII * radius_m[arms.node] + _REACH_M
    # Parallel edges and loops keep a third of their line, or they could become the same.
    _, couple = unique_pairs(np.sort(graph.ends, axis=1))
    is_alone = (np.bincount(couple)[couple] == 1) & (graph.ends[:, 0] != graph.ends[:, 1])
    length_m = graph.length_m[arms.edge]
    return np.asarray(np.where(is_alone[arms.edge], tips_m, np.minimum(tips_m, length_m / 3)))


def _meeting_places(graph: RoadGraph, arms: _Arms, tips_m: Floats) -> Floats:
    """Return where the lines of the roads of each junction meet."""
    far_m = np.zeros((len(graph.lines), 2))
    far_m[arms.edge, arms.side] = tips_m
    length = graph.length_m[arms.edge]
    base_m = np.minimum(length - tips_m - far_m[arms.edge, 1 - arms.side], _BASE_M)
    # Rule 1: points along the base of each arm, from its junction, and which arms are straight.
    steps = np.linspace(0, 1, _SAMPLES)
    points = np.stack(
        [arms.places(graph, np.clip(tips_m + step * base_m, 0, length)) for step in steps], axis=1
    )
    points -= graph.nodes[arms.node][:, None]
    middle = points.mean(axis=1)
    heading = unit(np.einsum("kpx,p->kx", points, steps - steps.mean()))
    normal = left_of(heading)
    beside = np.einsum("kpx,kx->kp", points - middle[:, None], normal)
    counts = (base_m >= _LEAST_BASE_M) & (np.sqrt((beside**2).mean(axis=1)) <= _STRAIGHT_M)
    # Rule 2: the place nearest to their lines; a small weight holds it where it is.
    square = normal[counts, :, None] * normal[counts, None]
    matrix = np.tile(_HOLD * np.eye(2), (len(graph.nodes), 1, 1))
    right = np.zeros((len(graph.nodes), 2, 1))
    np.add.at(matrix, arms.node[counts], square)
    np.add.at(right, arms.node[counts], square @ middle[counts, :, None])
    return np.asarray(graph.nodes + np.linalg.solve(matrix, right)[..., 0])
