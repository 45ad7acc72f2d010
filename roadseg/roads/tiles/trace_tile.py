"""Trace a tile: from the probabilities around a tile to the roads in it, cut at its borders."""

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import shapely

from roadseg.raster.grid import reproject
from roadseg.roads.graph.cleaning import simplify_lines
from roadseg.roads.graph.joining import in_crs, join_scenes
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.options import GraphOptions
from roadseg.roads.tiles.borders import cut_graph
from roadseg.roads.tiles.crossings import settle_crossings
from roadseg.roads.tiles.pixel_crop import PixelCrop, window_on
from roadseg.roads.tiles.tiling import Tile
from roadseg.roads.tracing.trace import (
    PixelSource,
    find_lines,
    measure_edges,
    rate_edges,
)

_HALO_M = 256.0  # Metres around a tile in which roads are traced as well; links reach 50 m.
_HALO_PX = 128  # Pixels; thinning looks up to 64 beyond a block.


def halo_m(pixels: PixelSource) -> float:
    """Return how many metres around a tile are traced with it."""
    return max(_HALO_M, _HALO_PX * max(pixels.grid.pixel_size_m))


def trace_tile(
    tile: Tile, rasters: Sequence[PixelSource], options: GraphOptions
) -> tuple[RoadGraph, int]:
    """Find the roads in a tile: its graph, in the CRS of its zone, and how many pixels were read.

    They are traced together with those in a halo around the tile, cut at its borders, where the
    nodes are those that its neighbours find (`crossings`), and only then simplified and measured:
    the attributes of an edge say what lies in the tile.

    Args:
        tile: the tile.
        rasters: probabilities or masks; where several show the same ground, the first counts.
        options: how roads are traced, and how far the same road may be apart in two rasters.
    """
    crops = [crop for raster in rasters if (crop := _crop(tile, raster)) is not None]
    graphs, grounds = [], []
    with ExitStack() as stack:
        opened = [stack.enter_context(crop.opened()) for crop in crops]
        levels = [options.level_for(source.threshold) for source in opened]
        border = tile.ground.exterior
        for source in opened:
            lines = find_lines(source, options.model_copy(update={"simplify_m": 0.0}))
            # Roads of the halo are no longer needed, nor is what lies far outside of the raster.
            pieces = cut_graph(in_crs(lines, tile.crs), km=tile.km).get(tile)
            if pieces is None:
                continue
            pieces = settle_crossings(pieces, tile, list(zip(opened, levels, strict=True)))
            pieces = simplify_lines(pieces, tolerance_m=options.simplify_m)
            moved = in_crs(pieces, source.grid.metric_crs)
            edge = reproject(np.array([border]), tile.crs, moved.crs)[0]
            outline = shapely.union(edge, source.grid.footprint_m.exterior)
            graph = rate_edges(
                measure_edges(moved, source, options), source, options, border=outline
            )
            graphs.append(in_crs(graph, tile.crs))
            grounds.append(reproject(np.array([source.grid.footprint_m]), moved.crs, tile.crs)[0])
    pixels = sum(crop.window.height * crop.window.width for crop in crops)
    if not graphs:
        return graph_from_lines(np.array([], dtype=object), tile.crs), pixels
    if len(graphs) == 1:
        return graphs[0], pixels
    return join_scenes(graphs, np.array(grounds, dtype=object), within_m=options.join_m), pixels


def touches(tile: Tile, raster: PixelSource) -> bool:
    """Return whether a raster shows a part of a tile or of its halo."""
    return _crop(tile, raster) is not None


def _crop(tile: Tile, raster: PixelSource) -> PixelCrop | None:
    window = window_on(raster.grid, tile.around(halo_m(raster)), tile.crs)
    return None if window is None else PixelCrop(raster, window)
