"""Pseudo-labels: masks of the roads that a network is sure of, for its training on new images."""

from collections.abc import Iterator

import numpy as np

from roadseg.arrays import Bools, Bytes
from roadseg.raster.grid import Grid, reproject
from roadseg.raster.windows import CERTAIN, Window, cut_blocks
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.burning import BACKGROUND, IGNORE, RoadAreas, burn_roads, widened
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.speeds import DEFAULT_BINS

SURE = 0.6  # Confidence from which on an edge is a label.
ROAD = 1
_WIDTHS_M = (5.0, 20.0)  # Narrowest and widest road of a label.
_EDGE_M = 1.5  # Metres beyond the edge of a doubtful road that are ignored with it.
_BLOCK_PX = 2048


def are_sure(roads: RoadGraph) -> Bools:
    """Return which edges are labels, shape (m,)."""
    return np.asarray(roads.attributes["confidence"] >= SURE)


def pseudo_label_blocks(
    found: ProbabilityFile, roads: RoadGraph, *, threshold: float
) -> Iterator[tuple[Window, Bytes]]:
    """Yield the mask of an image block by block, for `write_mask`.

    Edges whose confidence is at least `SURE` are road, with the width that they were found with.
    Other edges, and other pixels of road, such as car parks, are ignored. The rest is background.
    So the mask tells the network what tracing has found out about the pixels that it saw: which of
    them form roads.

    Args:
        found: probabilities, on whose grid the mask lies.
        roads: graph that was traced in them, with confidence and width.
        threshold: probability from which on pixels were traced.
    """
    grid, is_sure = found.grid, are_sure(roads)
    doubtful = _areas(roads, ~is_sure, grid, wider_m=_EDGE_M)
    sure = _areas(roads, is_sure, grid, wider_m=0.0)
    for window in cut_blocks(grid.height, grid.width, block_px=_BLOCK_PX):
        part = grid.crop(*window)
        is_road = found.read_road(window) >= threshold * CERTAIN
        mask = np.where(is_road, IGNORE, BACKGROUND).astype(np.uint8)
        mask[burn_roads(doubtful, part) > 0] = IGNORE
        mask[burn_roads(sure, part) > 0] = ROAD
        yield window, mask


def _areas(roads: RoadGraph, chosen: Bools, grid: Grid, *, wider_m: float) -> RoadAreas:
    lines = reproject(roads.lines[chosen], roads.crs, grid.metric_crs)
    width_m = np.nan_to_num(roads.attributes["width_m"][chosen].astype(np.float64))
    half_m = np.clip(width_m, *_WIDTHS_M) / 2 + wider_m
    speed_mph = np.full(len(lines), DEFAULT_BINS.speeds_mph[0])
    return widened(lines, half_m, speed_mph, grid, bins=DEFAULT_BINS)
