"""Reference graphs: the labelled roads of a scene, and agreement of predictions with them."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from affine import Affine
from rasterio.features import shapes
from scipy import ndimage

from roadseg.arrays import Bools, Bytes
from roadseg.dataset.chips import SceneRecord
from roadseg.dataset.scenes import complete_area, read_labels
from roadseg.errors import MissingInputError
from roadseg.raster.extents import Polygons, polygons_in
from roadseg.raster.grid import Grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.windows import CERTAIN, Window, cut_blocks
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.labels.areas import work_area
from roadseg.roads.labels.roads import roads_on
from roadseg.roads.masks.burning import IGNORE, road_pixels
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.metrics.pixels import Counts, count_pixels
from roadseg.roads.options import LabelOptions, TraceOptions
from roadseg.roads.speeds import KPH_PER_MPH
from roadseg.roads.tracing.trace import find_graph
from roadseg.system.files import is_mask_file, is_virtual
from roadseg.system.fingerprints import stamp

_LEAST_GAP_M2 = 1000.0  # Smaller ground without data leaves gaps that roads are linked across.
_BLOCK_PX = 2048  # Side of the blocks in which a mask is read.


@dataclass(frozen=True)
class Reference:
    """The labelled roads of a scene, and the area in which predictions are measured.

    Attributes:
        roads: labelled roads as a graph with travel times.
        complete: area in which labels are complete, within the area to work in, in
            `grid.metric_crs`; None for everywhere.
        mask: whose pixels of 255 have no data.
    """

    roads: RoadGraph
    grid: Grid
    complete: shapely.MultiPolygon | None
    mask: Path

    def area_in(self, window: Window) -> Polygons:
        """Return the part of a window of the scene in which a prediction is measured.

        Ground of 1,000 m2 and more where the image, or a mask of labels, has no data is left out.

        Raises:
            DataError: if the mask cannot be read.
        """
        grid = self.grid.crop(*window)
        area: Polygons = grid.footprint_m
        if self.complete is not None:
            area = polygons_in(area & self.complete)
        pixel_m2, outlines = math.prod(grid.pixel_size_m), list[shapely.Geometry]()
        for block in cut_blocks(window.height, window.width, block_px=_BLOCK_PX):
            part = block._replace(row=window.row + block.row, col=window.col + block.col)
            ignored = read_mask(self.mask, part) == IGNORE
            if ignored.any():
                outlines += _gaps(ignored, block, least_px=_LEAST_GAP_M2 / pixel_m2)
        gaps = shapely.get_parts(shapely.union_all(outlines))
        gaps = gaps[shapely.area(gaps) * pixel_m2 >= _LEAST_GAP_M2]
        on_ground = shapely.transform(gaps, lambda xy: grid.to_metric(xy[:, ::-1]))
        return polygons_in(area - shapely.union_all(on_ground)) if len(gaps) else area


def _gaps(ignored: Bools, block: Window, *, least_px: float) -> list[shapely.Geometry]:
    """Return the outlines of pixels without data in a block, but for small patches inside of it.

    Outlines are in pixels from where the block is counted, with columns as x and rows as y.
    """
    patches, _ = ndimage.label(ignored)
    is_large = np.bincount(patches.ravel()) >= least_px
    for edge in (patches[0], patches[-1], patches[:, 0], patches[:, -1]):
        is_large[edge] = True  # They may go on in the next block.
    large = ignored & is_large[patches]
    place = Affine.translation(block.col, block.row)
    drawn = shapes(large.view(np.uint8), large, transform=place)
    return [shapely.geometry.shape(each) for each, _ in drawn]


def read_reference(
    scene: SceneRecord,
    mask: Path,
    grid: Grid,
    *,
    labels: LabelOptions,
    imagery: ImageryOptions,
    tracing: TraceOptions,
) -> Reference:
    """Read the labelled roads of a scene, with travel times, and where they are complete.

    Label polygons have no centreline, so their mask is traced as predictions are.

    Args:
        scene: scene whose label file is read, and shifted as for its mask.

    Raises:
        MissingInputError: if its label file is gone.
        DataError: if a file cannot be used, or the scene has no place on the ground.
    """
    roads = _lines_of(scene, grid, labels)
    if roads is None:
        roads = find_graph(open_probability(mask, gsd_m=imagery.gsd_m), tracing)
    complete, area = complete_area(scene.area, grid, labels), work_area(imagery.area)
    if area is not None:
        worked = area.on(grid)
        complete = worked if complete is None else polygons_in(complete & worked)
    return Reference(roads, grid, complete, mask)


def _lines_of(scene: SceneRecord, grid: Grid, labels: LabelOptions) -> RoadGraph | None:
    """Return the roads of a label file as a graph; None if it has areas instead of lines."""
    if not (is_virtual(scene.labels) or scene.labels.exists()):
        raise MissingInputError(
            f"{scene.labels} does not exist, but the labels of {scene.name} were read from it; put "
            "it back"
        )
    if not is_mask_file(scene.labels):
        roads = read_labels(scene.labels, labels, content=stamp(scene.labels)).roads
        if not roads.is_area.any():
            on_scene, _ = roads_on(grid, roads, shift_m=scene.shift_m)
            speed_kph = on_scene.speed_mph * KPH_PER_MPH
            graph = graph_from_lines(on_scene.shapes, on_scene.crs, {"speed_kph": speed_kph})
            return add_travel(graph, graph.attributes["speed_kph"])
    return None


def count_roads(mask: Bytes, road: Bytes, *, threshold: float) -> Counts:
    """Count true and false positives and negatives of road pixels.

    Args:
        mask: of the labels, shape (row, col): 0 background, 255 ignored, else road.
        road: probability of any road, same shape, 255 for certain.
        threshold: a pixel is road where its probability, 0 to 1, is at least this.
    """
    return count_pixels(road_pixels(mask), road >= threshold * CERTAIN, mask != IGNORE)


def mean_apls(scores: Iterable[float]) -> float:
    """Return the mean over areas; 1 without areas.

    Pass only areas with roads in labels or prediction: empty ones would raise the mean.
    """
    routed = list(scores)
    return statistics.fmean(routed) if routed else 1.0
