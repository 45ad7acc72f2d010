"""Junctions: move them to where the lines of their roads meet, which thinning has bent."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import shapely

from roadseg.arrays import Bools, Columns, Floats, Ints
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
_THROUGH_DEG = 50.0  # Degrees; two roads that turn by more at a junction do not go through.
_STRAIGHT_M = 0.25  # Metres; largest root mean square distance of a straight road from its line.
_THROUGH_M = 0.5  # Metres; the same of a road that goes through, from its parabola.
_HOLD = 0.005  # Weight of the present place of a junction in least squares; a road has 1.
_MOST_M = 4.0  # Metres by which a junction moves at most.
_MOST_RADIUS_M = 8.0  # Metres; in more road around a junction its place would be a guess.
_ROUNDS = 3  # Iterations of the search for the place where roads meet.
_ON_ROAD_M = 1.0  # Metres between the points of a new line that have to lie on road.


def place_junctions(graph: RoadGraph, *, mask: CoarseMask) -> RoadGraph:
    """Move junctions to where the lines of their roads meet, and lead the roads straight there.

    Thinning bends the skeleton towards a road that branches off. It is in the middle of its road
    again at about 1.2 radii of the largest disc of road around the junction, and 1 m further after
    smoothing.

    1. The line of each road is fitted to the 8 m beyond this bend. Roads with less than 3 m left do
       not count, and roads that are not straight there count only in rule 2.
    2. Two roads that turn by up to 50 degrees into each other go through: their line is one
       parabola through both, if they lie within 0.5 m of it (root mean square).
    3. The junction moves to the place nearest to all of these lines, by least squares; the bend of
       the roads that it moves towards grows by as much.
    4. A junction stays where it is if it would move by more than 4 m, if its disc has a radius of
       more than 8 m or reaches the border of the scene, beyond which nothing is known, or if a new
       line would leave the road.

    If thinning has made two junctions of a crossing, both move to one place; merge them afterwards.

    Args:
        graph: roads in metres, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.

    Source: fitting roads away from their junctions and extending them to where they meet follows
    Y.-Y. Chiang and C. A. Knoblock, "A general approach for extracting road vector data from raster
    maps", IJDAR 16(1), 2013; through roads and the discs are ours.
    """
    nodes = np.flatnonzero(graph.degree >= _JUNCTION)
    radius_m = np.zeros(len(graph.nodes))
    radius_m[nodes] = _radii(graph.nodes[nodes], mask)
    edge, side = np.nonzero(graph.degree[graph.ends] >= _JUNCTION)
    order = np.argsort(graph.ends[edge, side], kind="stable")
    edge, side = edge[order], side[order]
    arms = _Arms(edge, side, graph.ends[edge, side])
    if len(arms.edge) == 0:
        return graph
    # Rules 1 to 3: the place nearest to the lines of the roads, which are read beyond the tips.
    places, tips_m = graph.nodes.copy(), _tips(graph, arms, radius_m, graph.nodes)
    for _ in range(_ROUNDS):
        places = _meeting_places(graph, arms, tips_m, places)
        tips_m = _tips(graph, arms, radius_m, places)
    # Rule 4: which junctions stay.
    moves = (radius_m > 0) & (radius_m <= _MOST_RADIUS_M)
    moves &= np.hypot(*(places - graph.nodes).T) <= _MOST_M
    border = mask.grid.footprint_m.exterior
    moves &= shapely.distance(shapely.points(graph.nodes), border) > radius_m
    moves[arms.node[~_lie_on_road(graph, arms, tips_m, places, mask)]] = False
    return _moved(graph, arms, np.where(moves[arms.node], tips_m, 0), places, moves)


@dataclass(frozen=True)
class _Arms(Columns):
    """Ends of edges at junctions, sorted by their nodes.

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


def _tips(graph: RoadGraph, arms: _Arms, radius_m: Floats, places: Floats) -> Floats:
    """Return how much of each arm thinning has bent, in metres."""
    tips_m = _REACH_RADII * radius_m[arms.node] + _REACH_M
    length = graph.length_m[arms.edge]
    ahead = arms.places(graph, np.minimum(tips_m, length / 2)) - graph.nodes[arms.node]
    step = places[arms.node] - graph.nodes[arms.node]
    towards = np.sum(ahead * step, axis=1) / np.maximum(np.hypot(*ahead.T), 1e-9)
    tips_m = tips_m + np.maximum(towards, 0)
    # Parallel edges and loops keep a third of their line, or they could become the same.
    _, couple = unique_pairs(np.sort(graph.ends, axis=1))
    is_alone = (np.bincount(couple)[couple] == 1) & (graph.ends[:, 0] != graph.ends[:, 1])
    return np.asarray(np.where(is_alone[arms.edge], tips_m, np.minimum(tips_m, length / 3)))


def _meeting_places(graph: RoadGraph, arms: _Arms, tips_m: Floats, places: Floats) -> Floats:
    """Return where the lines of the roads of each junction meet."""
    far_m = np.zeros((len(graph.lines), 2))
    far_m[arms.edge, arms.side] = tips_m
    length = graph.length_m[arms.edge]
    base_m = np.minimum(length - tips_m - far_m[arms.edge, 1 - arms.side], _BASE_M)
    # Rule 1: points along the base of each arm, and which arms are straight enough on their own.
    is_enough = base_m >= _LEAST_BASE_M
    steps = np.linspace(0, 1, _SAMPLES)
    points = np.stack(
        [arms.places(graph, np.clip(tips_m + step * base_m, 0, length)) for step in steps], axis=1
    )
    middle = points.mean(axis=1)
    heading = unit(np.einsum("kpx,p->kx", points, steps - steps.mean()))
    lines = _Lines(len(graph.nodes), places)
    beside = np.einsum("kpx,kx->kp", points - middle[:, None], left_of(heading))
    single = is_enough & (np.sqrt((beside**2).mean(axis=1)) <= _STRAIGHT_M)
    # Rule 2: one parabola through both roads of a pair.
    for first, second in _through_pairs(arms, heading, is_enough):
        at, along, is_smooth = _on_parabolas(
            points[first], points[second], places[arms.node[first]]
        )
        lines.add(arms.node[first[is_smooth]], at[is_smooth], along[is_smooth], 2.0)
        single[first[is_smooth]] = single[second[is_smooth]] = False
    lines.add(arms.node[single], middle[single], heading[single], 1.0)
    # Rule 3: the place nearest to all of them.
    return lines.meet(graph.nodes)


class _Lines:
    """Normal equations of the place nearest to all lines of each junction."""

    def __init__(self, nodes: int, places: Floats) -> None:
        self._matrix = np.zeros((nodes, 2, 2))
        self._right = np.zeros((nodes, 2))
        self._places = places

    def add(self, node: Ints, at: Floats, along: Floats, weight: float) -> None:
        """Add lines through places in some directions (unit vectors) to their junctions."""
        normal = left_of(along)
        square = weight * normal[:, :, None] * normal[:, None]
        np.add.at(self._matrix, node, square)
        # Coordinates are large, so they count from the junction.
        np.add.at(self._right, node, np.einsum("kxy,ky->kx", square, at - self._places[node]))

    def meet(self, anchors: Floats) -> Floats:
        """Return the place nearest to all lines; a small weight holds it at the anchor."""
        matrix = self._matrix + _HOLD * np.eye(2)
        right = self._right + _HOLD * (anchors - self._places)
        return np.asarray(self._places + np.linalg.solve(matrix, right[..., None])[..., 0])


def _through_pairs(arms: _Arms, heading: Floats, is_enough: Bools) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs of arms that go through, the straightest of each junction first."""
    starts = np.flatnonzero(np.diff(arms.node, prepend=-1))
    degree = np.diff(starts, append=len(arms.node))
    for count in np.unique(degree):
        rows = starts[degree == count][:, None] + np.arange(count)
        couples = np.array(list(combinations(range(count), 2)))
        shares = (couples[:, None, :, None] == couples[:, None]).any(axis=(2, 3))
        left, right = rows[:, couples[:, 0]], rows[:, couples[:, 1]]
        cosine = -np.sum(heading[left] * heading[right], axis=2)
        cosine[~(is_enough[left] & is_enough[right])] = -1
        for _ in range(count // 2):
            best = cosine.argmax(axis=1)
            every = np.arange(len(rows))
            goes = cosine[every, best] >= np.cos(np.deg2rad(_THROUGH_DEG))
            yield left[every, best][goes], right[every, best][goes]
            # Both arms of the pair are taken.
            cosine[shares[best]] = -1


def _on_parabolas(left: Floats, right: Floats, places: Floats) -> tuple[Floats, Floats, Bools]:
    """Fit a parabola v(u) to the points of each pair of arms, u in half lengths of their chord.

    Returns:
        The points of the parabolas next to places, the directions there, and whether the points of
        the arms lie on the parabolas.
    """
    points = np.concatenate([left, right], axis=1)
    origin = points.mean(axis=1)
    chord = right[:, -1] - left[:, -1]
    half_m = np.maximum(np.hypot(*chord.T) / 2, 1e-6)
    axis = chord / (2 * half_m[:, None])
    normal = left_of(axis)
    from_origin = points - origin[:, None]
    u = np.einsum("kpx,kx->kp", from_origin, axis) / half_m[:, None]
    v = np.einsum("kpx,kx->kp", from_origin, normal)
    powers = np.stack([np.ones_like(u), u, u**2], axis=2)
    square = np.einsum("kpi,kpj->kij", powers, powers) + 1e-9 * np.eye(3)
    terms = np.linalg.solve(square, np.einsum("kpi,kp->ki", powers, v)[..., None])[..., 0]
    beside = v - np.einsum("kpi,ki->kp", powers, terms)
    is_smooth = np.sqrt((beside**2).mean(axis=1)) <= _THROUGH_M
    at = np.sum((places - origin) * axis, axis=1) / half_m
    constant, slope, bend = terms.T
    height = constant + slope * at + bend * at**2
    on = origin + (at * half_m)[:, None] * axis + height[:, None] * normal
    along = axis + ((slope + 2 * bend * at) / half_m)[:, None] * normal
    return on, unit(along), is_smooth


def _lie_on_road(
    graph: RoadGraph, arms: _Arms, tips_m: Floats, places: Floats, mask: CoarseMask
) -> Bools:
    """Return which arms stay on road when they are led straight to their junctions."""
    feet = arms.places(graph, np.minimum(tips_m, graph.length_m[arms.edge]))
    goals = places[arms.node]
    step = goals - feet
    metres = np.hypot(*step.T)
    most = int(np.ceil(metres.max(initial=0) / _ON_ROAD_M)) + 1
    parts = np.linspace(0, 1, min(most, 64))
    along = feet[:, None] + parts[None, :, None] * step[:, None]
    is_road = mask.contains_points(along.reshape(-1, 2)).reshape(len(feet), -1)
    return np.asarray(is_road.all(axis=1))


def _moved(
    graph: RoadGraph, arms: _Arms, tips_m: Floats, places: Floats, moves: Bools
) -> RoadGraph:
    """Move junctions, and replace the tips of their arms by straight lines to them."""
    cut = (tips_m > 0) & (tips_m < graph.length_m[arms.edge])
    cut_arms = arms.take(cut)
    lines = with_vertices(graph.lines, cut_arms.edge, cut_arms.places(graph, tips_m[cut]))
    tips = np.zeros((len(graph.lines), 2))
    # The vertices at which the tips begin stay.
    tips[arms.edge, arms.side] = np.maximum(tips_m - 1e-3, 0)
    nodes = np.where(moves[:, None], places, graph.nodes)
    rows = np.unique(arms.edge[moves[arms.node]])
    return redraw_tips(replace(graph, nodes=nodes, lines=lines), rows, tips)
