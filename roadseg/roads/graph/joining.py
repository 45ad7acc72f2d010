"""Joining: the road graphs of scenes that touch each other become one network."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import shapely
from pyproj import CRS
from scipy.spatial import cKDTree

from roadseg.arrays import Array, Bools, Ints, Shapes
from roadseg.raster.grid import reproject, reproject_points
from roadseg.roads.graph.cleaning import contract_edges, merge_chains
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.groups import greedy_matching
from roadseg.roads.graph.road_graph import RoadGraph, lines_from

_OVERLAP_M2 = 1.0  # Square metres; scenes that share less ground only touch.


def touching(areas: Shapes, *, within_m: float) -> Ints:
    """Return the pairs of areas that overlap or are at most `within_m` apart, shape (k, 2).

    Args:
        areas: shape (n,), polygons in one metric CRS.
    """
    left, right = shapely.STRtree(areas).query(areas, predicate="dwithin", distance=within_m)
    return np.asarray(np.column_stack([left, right])[left < right], dtype=np.int64)


def join_scenes(graphs: Sequence[RoadGraph], areas: Shapes, *, within_m: float) -> RoadGraph:
    """Join the road graphs of scenes to one network.

    On ground that several scenes show, the roads of the first of them count. Dead ends where one
    scene ends and the next begins become one node if they are no further apart than `within_m`;
    of several the nearest. Chains whose edges have equal attributes are merged.

    Args:
        graphs: of each scene, in one metric CRS; one or more.
        areas: the ground of each scene, polygons in this CRS.
        within_m: how far the same road may be apart in two scenes, as its skeletons end a little
            differently.
    """
    own = [_own_ground(areas, row) for row in range(len(areas))]
    parts = [
        graph if ground is area else clip_graph(graph, ground)
        for graph, ground, area in zip(graphs, own, areas, strict=True)
    ]
    graph, scene = disjoint_union(parts)
    pairs = _meeting_ends(graph, scene, np.array(own, dtype=object), within_m)
    if len(pairs) == 0:
        return graph
    return merge_chains(_merge_node_pairs(graph, pairs))


def to_crs(graph: RoadGraph, crs: CRS) -> RoadGraph:
    """Return a graph in another CRS; travel times stay as they were measured."""
    if graph.crs == crs:
        return graph
    nodes = reproject_points(graph.nodes, graph.crs, crs)
    return replace(graph, crs=crs, nodes=nodes, lines=reproject(graph.lines, graph.crs, crs))


def _own_ground(areas: Shapes, row: int) -> shapely.Polygon | shapely.MultiPolygon:
    """Return the part of an area that no area before it shows; the area itself if that is all."""
    before = areas[:row][shapely.intersects(areas[:row], areas[row])]
    before = before[shapely.area(shapely.intersection(before, areas[row])) > _OVERLAP_M2]
    own = shapely.difference(areas[row], shapely.union_all(before)) if len(before) else areas[row]
    return cast("shapely.Polygon", own)


def disjoint_union(parts: Sequence[RoadGraph]) -> tuple[RoadGraph, Ints]:
    """Make one graph of several, which stay apart; also return the row of the part of each node."""
    sizes = np.array([len(part.nodes) for part in parts])
    first = np.cumsum(sizes) - sizes
    kinds = {name: column.dtype for part in parts for name, column in part.attributes.items()}
    attributes = {
        name: np.concatenate([_column(part, name, kind) for part in parts])
        for name, kind in kinds.items()
    }
    graph = RoadGraph(
        parts[0].crs,
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.ends + start for part, start in zip(parts, first, strict=True)]),
        np.concatenate([part.lines for part in parts]),
        attributes,
    )
    return graph, np.repeat(np.arange(len(parts)), sizes)


def _column(part: RoadGraph, name: str, kind: np.dtype[Any]) -> Array:
    """Return an attribute; where a graph lacks it, its text is empty and its number 0."""
    if name in part.attributes:
        return part.attributes[name]
    return np.full(len(part.lines), "" if kind.hasobject else 0, dtype=kind)


def _meeting_ends(graph: RoadGraph, scene: Ints, grounds: Shapes, within_m: float) -> Ints:
    """Pair the dead ends of different scenes that meet, each with the nearest, shape (k, 2)."""
    ends = np.flatnonzero(graph.degree == 1)
    points = shapely.points(graph.nodes[ends])
    # Only roads that end at the border of their ground can go on in another scene.
    near = shapely.distance(points, shapely.boundary(grounds[scene[ends]])) <= within_m
    ends = ends[near]
    if len(ends) == 0:
        return np.empty((0, 2), dtype=np.int64)
    tree = cKDTree(graph.nodes[ends])
    pairs = ends[tree.query_pairs(within_m, output_type="ndarray").astype(np.int64)]
    pairs = pairs[scene[pairs[:, 0]] != scene[pairs[:, 1]]]
    # Distances that differ by rounding are equal, wherever the places lie.
    apart = np.hypot(*(graph.nodes[pairs[:, 0]] - graph.nodes[pairs[:, 1]]).T).round(6)
    pairs = pairs[np.lexsort([*pairs.T, apart])]
    return np.asarray(pairs[greedy_matching(pairs)])


def _merge_node_pairs(graph: RoadGraph, pairs: Ints) -> RoadGraph:
    """Make one node of each pair of nodes."""
    # Edges between the nodes of each pair are put in, and contracted.
    links = lines_from(graph.nodes[pairs].reshape(-1, 2), np.full(len(pairs), 2))
    is_link: Bools = np.arange(len(graph.lines) + len(links)) >= len(graph.lines)
    rows = np.concatenate([np.arange(len(graph.lines)), np.zeros(len(links), dtype=np.int64)])
    linked = RoadGraph(
        graph.crs,
        graph.nodes,
        np.concatenate([graph.ends, pairs]),
        np.concatenate([graph.lines, links]),
        {name: column[rows] for name, column in graph.attributes.items()},
    )
    return contract_edges(linked, is_link)
