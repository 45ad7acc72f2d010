"""Canonical graph: the same edges for every way in which the same roads can be drawn."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import shapely

from roadseg.arrays import Floats, Ints, Lines
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.groups import first_of_equal
from roadseg.roads.graph.road_graph import (
    TRAVEL_TIME,
    RoadGraph,
    edge_keys,
    part_attributes,
    take_edges,
)

_STRAIGHT_M = 0.002  # Metres; twice what rounding to 1 mm can move a vertex of a straight road.


def canonical_graph(graph: RoadGraph) -> RoadGraph:
    """Merge chains, give rings without a junction nodes, and keep one of equal edges.

    Nodes in the middle of a road go, whatever attributes differ there, so it does not matter where
    a road has been cut. A ring that touches nothing else has no junction: all its corners become
    nodes, as in the scorers that APLS comes from. Of edges drawn alike, point by point, between
    the same nodes the fastest stays. The order of the edges does not depend on how they came.

    Args:
        graph: roads in metres; loops and parallel edges are kept.

    Returns:
        The graph with no other attribute than `travel_time_s`, if it has that; the seconds of
        merged edges add up, and a part has its part by length.
    """
    seconds = {name: graph.attributes[name] for name in [TRAVEL_TIME] if name in graph.attributes}
    graph = replace(graph, attributes=seconds)
    by_time = np.argsort(seconds.get(TRAVEL_TIME, np.zeros(len(graph.lines))), kind="stable")
    keys = edge_keys(graph)
    once = np.sort(by_time[first_of_equal(keys[row] for row in by_time.tolist())])
    graph = _open_rings(merge_chains(take_edges(graph, once)))
    return take_edges(graph, _in_order(graph))


def _open_rings(graph: RoadGraph) -> RoadGraph:
    """Cut loops that nothing else touches at all their corners."""
    # A loop whose node has no other edge end touches nothing else.
    is_loop = graph.ends[:, 0] == graph.ends[:, 1]
    rings = np.flatnonzero(is_loop & (graph.degree[graph.ends[:, 0]] == 2))  # noqa: PLR2004
    parts = {ring: _corners_and_sides(graph.lines[ring]) for ring in rings[::-1].tolist()}
    cut = {ring: part for ring, part in parts.items() if len(part[0])}
    if not cut:
        return graph
    sizes = [len(corners) for corners, _ in cut.values()]
    others = np.setdiff1d(np.arange(len(graph.lines)), list(cut))
    source = np.concatenate([others, np.repeat(list(cut), sizes)])
    lengths = [shapely.length(sides) for _, sides in cut.values()]
    part = np.concatenate([np.ones(len(others)), *(each / each.sum() for each in lengths)])
    around = np.split(len(graph.nodes) + np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    ends = [np.column_stack([nodes, np.roll(nodes, -1)]) for nodes in around]
    return RoadGraph(
        graph.crs,
        np.concatenate([graph.nodes, *(corners for corners, _ in cut.values())]),
        np.concatenate([graph.ends[others], *ends]),
        np.concatenate([graph.lines[others], *(sides for _, sides in cut.values())]),
        part_attributes(graph.attributes, source, part),
    )


def _corners_and_sides(ring: shapely.LineString) -> tuple[Floats, Lines]:
    """Return the corners of a ring, shape (k, 2), and the line from each to the next."""
    xy = shapely.get_coordinates(ring)[:-1]
    beside = np.stack([np.roll(xy, 1, axis=0), np.roll(xy, -1, axis=0)], axis=1)
    off = shapely.distance(shapely.points(xy), shapely.linestrings(beside))
    corners = np.flatnonzero(off > _STRAIGHT_M)
    return xy[corners], np.array(list(_sides(xy, corners)), dtype=object)


def _sides(xy: Floats, corners: Ints) -> Iterator[shapely.LineString]:
    """Yield the lines from each corner of a ring to the next, in the order of the corners."""
    if len(corners) == 0:
        return
    around = np.concatenate([xy, xy[: corners[0] + 1]])
    for first, last in zip(corners, [*corners[1:], len(xy) + corners[0]], strict=True):
        yield shapely.LineString(around[first : last + 1])


def _in_order(graph: RoadGraph) -> Ints:
    """Sort the edges from west to east, then from south to north, by their ends, by length."""
    west, south, east, north = shapely.bounds(graph.lines).reshape(-1, 4).T
    at = graph.nodes[graph.ends]
    # Complex numbers sort by x, then by y: of each edge the y of its western end comes first.
    first, last = np.sort(at[..., 0] + 1j * at[..., 1], axis=1).imag.T
    return np.lexsort([graph.length_m, last, first, north, east, south, west])
