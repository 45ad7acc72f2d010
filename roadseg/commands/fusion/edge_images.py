"""Edge images: in how many of the images of its place each edge is seen, and when."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roadseg.arrays import Array, Floats, Ints
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.roads.graph.road_graph import RoadGraph, take_edges
from roadseg.roads.masks.fusion import FusedImage, OpenImage, day_of
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.edge_statistics import SamplePointGroups

_BLOCK_PX = 1536  # Side of the blocks of an image that are read at once.
_COVERED = 0.5  # Share of the sample points of an edge where an image has to have data.


def with_images(
    graph: RoadGraph, rasters: Sequence[ProbabilityFile], scene: Ints, options: TraceOptions
) -> RoadGraph:
    """Return the graph with the attributes `seen` and `images` of its edges, and their days.

    `images` counts the images of the place that have data along at least half of an edge, and
    `seen` those of them whose mean probability along it is at least the threshold. If it is known
    when any image was taken, `first_seen` and `last_seen` are the days of the earliest and of the
    latest image in which an edge is seen, "" if these do not say. Of rasters of which none was
    fused, all edges are seen in their only image, and only the days are added.

    Args:
        scene: shape (m,), the row of the raster of each edge.

    Raises:
        DataError: if the probabilities of an image are gone, or cannot be read.
    """
    if not any(raster.images for raster in rasters):
        days = np.array([*(day_of(raster.path) for raster in rasters), ""], dtype=object)
        return _with_days(graph, days[scene], days[scene]) if days.any() else graph
    seen, images = np.zeros((2, len(graph.lines)), dtype=np.int64)
    first, last = np.full((2, len(graph.lines)), "", dtype=object)
    is_dated = False
    for row, raster in enumerate(rasters):
        rows = np.flatnonzero(scene == row)
        lowest = options.threshold_for(raster.threshold)
        for image in raster.images or (FusedImage(raster.path),):
            covered, probability = _along(take_edges(graph, rows), image, raster.grid)
            is_covered = covered >= _COVERED
            images[rows] += is_covered
            is_seen = is_covered & (probability >= lowest)
            seen[rows] += is_seen
            if day := day_of(image.path):
                is_dated = True
                at = rows[is_seen]
                first[at] = np.where(first[at] == "", day, np.minimum(first[at], day))
                last[at] = np.maximum(last[at], day)
    counted = replace(graph, attributes={**graph.attributes, "seen": seen, "images": images})
    return _with_days(counted, first, last) if is_dated else counted


def _with_days(graph: RoadGraph, first: Array, last: Array) -> RoadGraph:
    """Return the graph with the days on which its edges are seen."""
    days = {"first_seen": first, "last_seen": last}
    return replace(graph, attributes={**graph.attributes, **days})


def _along(graph: RoadGraph, image: FusedImage, grid: Grid) -> tuple[Floats, Floats]:
    """Return how much of each edge an image covers, and its mean probability there, 0 to 1."""
    points, known, road = np.zeros((3, len(graph.lines)))
    with image.opened(grid) as opened:
        for samples in SamplePointGroups(graph, grid, block_px=_BLOCK_PX):
            values, is_known = _at(opened, samples.places, grid)
            for total, each in ((points, 1), (known, is_known), (road, values * is_known)):
                np.add.at(total, samples.edge, each)
    return known / np.maximum(points, 1), road / np.maximum(known, 1) / CERTAIN


def _at(image: OpenImage, places: Floats, grid: Grid) -> tuple[Floats, Floats]:
    """Return the probability at places, 255 for certain, and 1 where there are data, else 0."""
    pixels = np.floor(places).astype(np.int64)
    is_inside = ((pixels >= 0) & (pixels < (grid.height, grid.width))).all(axis=1)
    values, known = np.zeros((2, len(places)))
    if is_inside.any():
        inside = pixels[is_inside]
        top, left = inside.min(axis=0).tolist()
        height, width = (inside.max(axis=0) - (top, left) + 1).tolist()
        road, is_known = image.read_road(Window(top, left, height, width))
        row, col = (inside - (top, left)).T
        values[is_inside], known[is_inside] = road[row, col], is_known[row, col]
    return values, known
