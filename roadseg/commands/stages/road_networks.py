"""Road networks: trace the roads of scenes that touch each other as those of one raster."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import shapely

from roadseg.arrays import Ints, Shapes
from roadseg.roads.graph.joining import join_scenes, to_crs, touching
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.masks.tiled_probabilities import as_one, group_tiles
from roadseg.roads.options import GraphOptions, TraceOptions
from roadseg.roads.tracing.trace import find_graph
from roadseg.system.parallel import in_order
from roadseg.system.text import count
from roadseg.system.workspace import ROAD_NETWORK

_log = logging.getLogger(__name__)

_JOIN_M = 5.0  # Metres; the ends of roads of adjoining scenes are joined if no further apart.
_MOST_LONGER = 0.01  # Part of their length by which roads are longer without a warning.

ReadGraph = Callable[[str], RoadGraph]


@dataclass(frozen=True)
class RoadNetwork:
    """The roads of all scenes that touch another scene.

    Attributes:
        scenes: names of the scenes.
        graph: graph of all their roads, in one CRS.
    """

    scenes: list[str]
    graph: RoadGraph


def trace_network(
    rasters: Mapping[str, ProbabilityFile],
    read_scene: ReadGraph,
    *,
    options: GraphOptions,
    workers: int = 1,
) -> RoadNetwork | None:
    """Trace the roads of all scenes that touch another scene; None if there are no such scenes.

    Scenes whose pixels lie on one grid are traced as one raster, block by block, so that roads
    run across their borders as they do elsewhere; where they overlap, the first scene with data
    counts. Between other scenes that touch, road ends that meet at the border are joined.

    Args:
        rasters: probabilities or masks of scenes, by name.
        read_scene: function that reads the graph of a scene by its name.

    Raises:
        DataError: if a raster cannot be read.
    """
    placed = {name: raster for name, raster in rasters.items() if not raster.grid.is_local}
    if len(placed) < 2:  # noqa: PLR2004 - two scenes can touch
        return None
    names, tiles = list(placed), list(placed.values())
    crs = tiles[0].grid.metric_crs
    areas = np.array([tile.grid.footprint_in(crs) for tile in tiles], dtype=object)
    pairs = touching(areas, within_m=_JOIN_M)
    joined = set(pairs.ravel().tolist())
    # Scenes that touch none are left out; each of the others is traced alone or with its group.
    groups = [rows for rows in _groups(tiles, pairs) if joined.intersection(rows)]
    if not groups:
        return None
    _warn_of_length([tiles[row] for row in sorted(joined)], areas[sorted(joined)])
    graphs = [
        _trace_as_one([names[row] for row in rows], [tiles[row] for row in rows], options, workers)
        if len(rows) > 1
        else read_scene(names[rows[0]])
        for rows in groups
    ]
    graph, *others = (to_crs(each, crs) for each in graphs)
    if others:
        grounds = np.array([shapely.union_all(areas[rows]) for rows in groups], dtype=object)
        graph = join_scenes([graph, *others], grounds, within_m=_JOIN_M)
    return RoadNetwork([names[row] for row in sorted(joined)], graph)


def with_origin(
    graph: RoadGraph, names: Sequence[str], models: Sequence[str], scene: Ints
) -> RoadGraph:
    """Return the graph with the source scene of each edge, and the network that predicted it.

    Args:
        names: name of each scene.
        models: fold and epoch of the network of each scene.
        scene: shape (m,), index of the scene of each edge.
    """
    origin = {"source": np.array(names)[scene], "model": np.array(models)[scene]}
    return replace(graph, attributes={**graph.attributes, **origin})


def _warn_of_length(tiles: Sequence[ProbabilityFile], areas: Shapes) -> None:
    """Warn of scenes so far from the CRS of the road network that their roads are too long in it.

    Args:
        areas: outline of each scene, polygons in this CRS.
    """
    own = np.array([shapely.area(tile.grid.footprint_m) for tile in tiles])
    longer = np.sqrt(shapely.area(areas) / own) - 1
    if longer.max() > _MOST_LONGER:
        _log.warning(
            "the road network has places that are far apart in one coordinate system, in which "
            "roads of %s are %.0f %% too long; the report and the graphs of single scenes have the "
            "right lengths",
            *(tiles[longer.argmax()].path.stem, 100 * longer.max()),
        )


def _groups(tiles: Sequence[ProbabilityFile], pairs: Ints) -> list[list[int]]:
    """Group scenes that touch and can be traced as one raster; warn of those that cannot."""
    is_alike = [tiles[a].speed_bins == tiles[b].speed_bins for a, b in pairs]
    groups = group_tiles([tile.grid for tile in tiles], pairs[is_alike])
    number = {row: nth for nth, rows in enumerate(groups) for row in rows}
    apart = [(a, b) for a, b in pairs.tolist() if number[a] != number[b]]
    if apart:
        here, there = (tiles[row].path for row in apart[0])
        _log.warning(
            "%s and %s touch or overlap but do not share a pixel grid or speed bins, so only "
            "road ends that meet at the border are joined (%s)",
            *(here, there, count(len(apart), "border")),
        )
    return groups


def _trace_as_one(
    names: Sequence[str], tiles: Sequence[ProbabilityFile], options: TraceOptions, workers: int
) -> RoadGraph:
    """Trace scenes as one raster; the source of an edge is the scene with its middle."""
    pixels = as_one(tiles)
    map_blocks = partial(in_order, what=ROAD_NETWORK, unit="blocks", workers=workers)
    graph = find_graph(pixels, options, map_blocks=map_blocks)
    middles = shapely.line_interpolate_point(graph.lines, 0.5, normalized=True)
    return with_origin(graph, names, [tile.model for tile in tiles], pixels.tile_at(middles))
