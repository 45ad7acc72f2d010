"""Linking: continue the dead ends of a road graph across short gaps."""

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.core.cleaning import merge_chains
from roadseg.core.graphs import Floats, Ints, Lines, RoadGraph, graph_from_lines, lines_from

_HEADING_M = 15.0  # length of road from which the heading of a dead end is taken
_MAX_TURN_DEG = 60.0  # a link turns off that heading by less
_TURN_COST = 2.0  # how much longer a link counts for turning; straight on, it counts as it is


def link_gaps(
    graph: RoadGraph,
    *,
    max_gap_m: float,
    border: shapely.Geometry | None = None,
    border_m: float = 0.0,
) -> RoadGraph:
    """Link dead ends to the road ahead of them, be it another dead end or the side of a road.

    A dead end is linked by a straight line to the nearest point of another edge that is at most
    `max_gap_m` away and lies ahead; of several, to the one with the shortest and straightest
    link. Links that cross each other meet there. Chains are merged in the end.

    Args:
        graph: roads in metres, without attributes, crossing each other at nodes only.
        max_gap_m: longest link; 0 links nothing.
        border: dead ends here go on outside and are not linked, such as the edge of the scene.
        border_m: distance from `border` up to which that holds.

    Source: SpaceNet 5's winners link ends to ends, and ends to the sides of roads, by distance
    and heading (CRESI, ikibardin); the cost and its figures are ours.
    """
    edges, places, headings = _dead_ends(graph, border, border_m)
    if max_gap_m <= 0 or len(edges) == 0:
        return graph
    chosen, target, landings = _choose_links(graph, edges, places, headings, max_gap_m)
    if len(chosen) == 0:
        return graph
    ends = np.concatenate([places[chosen], landings], axis=1).reshape(-1, 2)
    links = lines_from(ends, np.full(len(chosen), 2))
    lines = np.concatenate([_with_vertices(graph.lines, target, landings), _crossed(links)])
    return merge_chains(graph_from_lines(lines, graph.crs))


def _dead_ends(
    graph: RoadGraph, border: shapely.Geometry | None, border_m: float
) -> tuple[Ints, Floats, Floats]:
    """Return edge, position and heading (a unit vector) of every dead end away from the border."""
    edges, sides = np.nonzero(graph.degree[graph.ends] == 1)
    places = graph.nodes[graph.ends[edges, sides]]
    if border is not None:
        inner = shapely.distance(shapely.points(places), border) > border_m
        edges, sides, places = edges[inner], sides[inner], places[inner]
    back_m = np.minimum(_HEADING_M, graph.length_m[edges])
    along = np.where(sides == 0, back_m, graph.length_m[edges] - back_m)
    behind = shapely.get_coordinates(shapely.line_interpolate_point(graph.lines[edges], along))
    return edges, places, _unit(places - behind)


def _choose_links(
    graph: RoadGraph, edges: Ints, places: Floats, headings: Floats, max_gap_m: float
) -> tuple[Ints, Ints, Floats]:
    """Return the dead ends that are linked, the edge and the point where each link lands."""
    points = np.asarray(shapely.points(places))
    tree = shapely.STRtree(graph.lines)
    end, target = tree.query(points, predicate="dwithin", distance=max_gap_m)
    other = target != edges[end]
    end, target = end[other], target[other]
    nearest = shapely.line_locate_point(graph.lines[target], points[end])
    landings = shapely.get_coordinates(shapely.line_interpolate_point(graph.lines[target], nearest))
    steps = landings - places[end]
    straight = np.sum(_unit(steps) * headings[end], axis=1)
    cost = np.hypot(*steps.T) * (1 + _TURN_COST * (1 - straight))
    ahead = straight > np.cos(np.radians(_MAX_TURN_DEG))
    order = np.lexsort([cost, end])
    order = order[ahead[order]]
    _, first = np.unique(end[order], return_index=True)
    best = order[first]
    return end[best], target[best], landings[best]


def _with_vertices(lines: Lines, chosen: Ints, points: Floats) -> Lines:
    """Return the lines, the chosen ones with a further vertex at the point that lies on each."""
    changed = lines.copy()
    for row in np.unique(chosen):
        xy = shapely.get_coordinates(lines[row])
        added = points[chosen == row]
        steps = np.hypot(*np.diff(xy, axis=0).T)
        at = shapely.line_locate_point(lines[row], shapely.points(added))
        order = np.argsort(np.concatenate([[0], np.cumsum(steps), at]), kind="stable")
        changed[row] = shapely.LineString(np.concatenate([xy, added])[order])
    return changed


def _crossed(links: Lines) -> Lines:
    """Return the links, each with a vertex wherever it crosses another."""
    left, right = shapely.STRtree(links).query(links, predicate="crosses")
    crossings = shapely.get_coordinates(shapely.intersection(links[left], links[right]))
    return _with_vertices(links, left, np.round(crossings, 3))


def _unit(vectors: NDArray[np.float64]) -> Floats:
    lengths = np.hypot(*vectors.T)[:, np.newaxis]
    return vectors / np.where(lengths > 0, lengths, 1)
