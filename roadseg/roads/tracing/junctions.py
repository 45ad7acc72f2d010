"""Junctions: put where the lines of their roads meet, which thinning has bent there."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import shapely

from roadseg.arrays import Bools, Columns, Floats, Ints
from roadseg.roads.graph.directions import left_of, places_inside, unit
from roadseg.roads.graph.road_graph import RoadGraph, unique_pairs, with_vertices
from roadseg.roads.tracing.coarse_mask import CoarseMask, RoadRaster
from roadseg.roads.tracing.end_repair import redraw_tips

_JUNCTION = 3  # Edges that meet at a junction, at least.
_RADII_M = tuple(1.2**n for n in range(18))  # Metres; discs of road that are tried, up to 22.
_REACH_RADII = 1.2  # Thinning bends a road up to so many radii from the middle of a junction.
_REACH_M = 1.0  # Metres by which smoothing carries this on.
_BASE_M = 8.0  # Metres of road beyond that show its line.
_LEAST_BASE_M = 3.0  # Metres; less road says little.
_SAMPLES = 8  # Places at which the line of a road is read.
_THROUGH_DEG = 50.0  # Degrees; roads that turn by more at a junction do not go through.
_STRAIGHT_M = 0.25  # Metres by which a straight road lies beside its line.
_THROUGH_M = 0.5  # Metres by which a road that goes through lies beside its smooth line.
_HOLD = 0.005  # How much a junction holds on to its place, against 1 for every road.
_MOST_M = 4.0  # Metres by which a junction moves at most.
_MOST_RADIUS_M = 8.0  # Metres; where more road surrounds a junction, its place is a guess.
_ROUNDS = 3  # Times that the place where roads meet is looked for.
_ON_ROAD_M = 1.0  # Metres between the places at which a new line has to lie on road.


def place_junctions(graph: RoadGraph, *, mask: CoarseMask) -> RoadGraph:
    """Put junctions where the lines of their roads meet, and lead the roads straight there.

    The skeleton is drawn into the mouth of a road that branches off. It lies in the middle of its
    road again at about 1.2 radii of the largest disc of road around the junction, and 1 m further
    where it has been smoothed.

    1. The line of each road is read from the 8 m beyond that reach; roads of which less than 3 m
       are left say nothing, and those that bend there nothing on their own.
    2. Two roads that turn by up to 50 degrees into each other go through: their line is one
       parabola through both, if they lie within 0.5 m of it (root mean square).
    3. The junction goes to the place that is nearest to all of these lines, by least squares; and
       the reach of the roads that it moves towards grows by as much.
    4. A junction stays where it is if it would move by more than 4 m, if its disc has a radius of
       more than 8 m or reaches the border of the scene, beyond which nothing is known, or if a new
       line would leave the road.

    A crossing that thinning has drawn as two junctions gets both of them at one place; merge them
    afterwards.

    Args:
        graph: roads in metres, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.

    Source: that roads are read away from their junctions and led to where they meet follows
    Y.-Y. Chiang and C. A. Knoblock, "A general approach for extracting road vector data from raster
    maps", IJDAR 16(1), 2013; through roads and the discs are ours.
    """
    pixels = RoadRaster(mask)
    nodes = np.flatnonzero(graph.degree >= _JUNCTION)
    radius_m = np.zeros(len(graph.nodes))
    radius_m[nodes] = _radii(graph.nodes[nodes], pixels)
    arms = _arms_of(graph)
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
    moves[arms.node[~_lie_on_road(graph, arms, tips_m, places, pixels)]] = False
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
        """Return the places at so many metres along the arms, shape (k, 2)."""
        return places_inside(graph.lines[self.edge], metres, self.side == 0)


def _arms_of(graph: RoadGraph) -> _Arms:
    edge, side = np.nonzero(graph.degree[graph.ends] >= _JUNCTION)
    order = np.argsort(graph.ends[edge, side], kind="stable")
    edge, side = edge[order], side[order]
    return _Arms(edge, side, graph.ends[edge, side])


def _radii(places: Floats, pixels: RoadRaster) -> Floats:
    """Return the radius of the largest disc of road around each place in metres, 0 for none."""
    radius_m = np.zeros(len(places))
    rows = np.arange(len(places))
    for metres in _RADII_M:
        rows = rows[pixels.are_road(places[rows], np.full(len(rows), metres))]
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
    # Of roads beside each other between the same junctions, some of the line has to be kept.
    _, couple = unique_pairs(np.sort(graph.ends, axis=1))
    is_alone = (np.bincount(couple)[couple] == 1) & (graph.ends[:, 0] != graph.ends[:, 1])
    return np.asarray(np.where(is_alone[arms.edge], tips_m, np.minimum(tips_m, length / 3)))


def _meeting_places(graph: RoadGraph, arms: _Arms, tips_m: Floats, places: Floats) -> Floats:
    """Return where the lines of the roads of each junction meet."""
    far_m = np.zeros((len(graph.lines), 2))
    far_m[arms.edge, arms.side] = tips_m
    length = graph.length_m[arms.edge]
    base_m = np.minimum(length - tips_m - far_m[arms.edge, 1 - arms.side], _BASE_M)
    # Rule 1: points along the base of each arm, and which of them say something on their own.
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
        curve, is_smooth = _parabolas(points[first], points[second])
        at, along = curve.at(places[arms.node[first]])
        lines.add(arms.node[first[is_smooth]], at[is_smooth], along[is_smooth], 2.0)
        single[first[is_smooth]] = single[second[is_smooth]] = False
    lines.add(arms.node[single], middle[single], heading[single], 1.0)
    # Rule 3: the place nearest to all of them.
    return lines.meet(graph.nodes)


class _Lines:
    """Sums from which the place nearest to all lines of each junction follows."""

    def __init__(self, nodes: int, places: Floats) -> None:
        self._matrix = np.zeros((nodes, 2, 2))
        self._right = np.zeros((nodes, 2))
        self._places = places

    def add(self, node: Ints, at: Floats, along: Floats, weight: float) -> None:
        """Add lines through places in some directions (unit vectors) to their junctions."""
        normal = left_of(along)
        square = weight * normal[:, :, None] * normal[:, None]
        np.add.at(self._matrix, node, square)
        # Places are taken from where the junction is, as coordinates are large.
        np.add.at(self._right, node, np.einsum("kxy,ky->kx", square, at - self._places[node]))

    def meet(self, anchors: Floats) -> Floats:
        """Return the place that is nearest to all lines, and a little to where it was."""
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


@dataclass(frozen=True)
class _Parabolas:
    """Parabolas: origins, unit vectors of the axis along, half lengths, and three coefficients."""

    origin: Floats
    axis: Floats
    half_m: Floats
    terms: Floats

    def at(self, places: Floats) -> tuple[Floats, Floats]:
        """Return the places on the parabolas beside others, and the directions there."""
        normal = left_of(self.axis)
        u = np.sum((places - self.origin) * self.axis, axis=1) / self.half_m
        constant, slope, bend = self.terms.T
        v = constant + slope * u + bend * u**2
        on = self.origin + (u * self.half_m)[:, None] * self.axis + v[:, None] * normal
        along = self.axis + ((slope + 2 * bend * u) / self.half_m)[:, None] * normal
        return on, unit(along)


def _parabolas(left: Floats, right: Floats) -> tuple[_Parabolas, Bools]:
    """Fit a parabola to the points of each pair of arms; return whether they lie on it."""
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
    return _Parabolas(origin, axis, half_m, terms), is_smooth


def _lie_on_road(
    graph: RoadGraph, arms: _Arms, tips_m: Floats, places: Floats, pixels: RoadRaster
) -> Bools:
    """Return which arms stay on road when they are led straight to their junctions."""
    feet = arms.places(graph, np.minimum(tips_m, graph.length_m[arms.edge]))
    goals = places[arms.node]
    step = goals - feet
    metres = np.hypot(*step.T)
    most = int(np.ceil(metres.max(initial=0) / _ON_ROAD_M)) + 1
    parts = np.linspace(0, 1, min(most, 64))
    along = feet[:, None] + parts[None, :, None] * step[:, None]
    is_road = pixels.hold(along.reshape(-1, 2)).reshape(len(feet), -1)
    return np.asarray(is_road.all(axis=1))


def _moved(
    graph: RoadGraph, arms: _Arms, tips_m: Floats, places: Floats, moves: Bools
) -> RoadGraph:
    """Move junctions, and lead their arms straight to them over so many metres."""
    cut = (tips_m > 0) & (tips_m < graph.length_m[arms.edge])
    cut_arms = arms.take(cut)
    lines = with_vertices(graph.lines, cut_arms.edge, cut_arms.places(graph, tips_m[cut]))
    tips = np.zeros((len(graph.lines), 2))
    # The vertices at which the tips begin stay.
    tips[arms.edge, arms.side] = np.maximum(tips_m - 1e-3, 0)
    nodes = np.where(moves[:, None], places, graph.nodes)
    rows = np.unique(arms.edge[moves[arms.node]])
    return redraw_tips(replace(graph, nodes=nodes, lines=lines), rows, tips)
