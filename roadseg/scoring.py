"""Scoring: what is held against predictions, and how far they agree with it; in any stage."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadseg.core.extraction import Extraction, Pixels, find_graph
from roadseg.core.graph_metrics import apls
from roadseg.core.graphs import RoadGraph, graph_from_lines
from roadseg.core.grid import Grid
from roadseg.core.masks import BACKGROUND, IGNORE
from roadseg.core.pixel_metrics import Counts, count_pixels
from roadseg.core.roads import Roads, roads_on
from roadseg.core.speeds import KPH_PER_MPH
from roadseg.core.travel import add_travel
from roadseg.core.windows import CERTAIN
from roadseg.io.mask_labels import is_mask_file
from roadseg.io.probabilities import read_probability
from roadseg.scenes import read_labels
from roadseg.settings import Config


@dataclass(frozen=True)
class RouteScore:
    """How alike the routes of labels and prediction are, and whether there are roads at all."""

    apls: float
    has_roads: bool


def reference_graph(config: Config, labels: Path, mask: Path, grid: Grid) -> RoadGraph:
    """Return the labelled roads of a scene as a graph with travel times.

    Labels that are areas have no centreline: their mask is traced, as predictions are.

    Args:
        config: settings of imagery, labels and graphs.
        labels: label file of the scene.
        mask: mask of the scene that was made of it.
        grid: of the scene.
    """
    if not is_mask_file(labels):
        roads = read_labels(labels, config.labels).roads
        if not roads.has_areas:
            on_scene, _ = roads_on(grid, roads)
            return _of_lines(on_scene)
    return traced_graph(config, read_probability(mask, gsd_m=config.imagery.gsd_m))


def extraction_of(config: Config) -> Extraction:
    """Return how the settings say that roads are found."""
    return Extraction(**config.graph.model_dump(exclude={"formats", "join_m"}))


def traced_graph(config: Config, pixels: Pixels) -> RoadGraph:
    """Return the graph of the roads in probabilities, as `roadseg graph` finds it."""
    return find_graph(pixels, extraction_of(config))


def count_roads(mask: NDArray[np.uint8], road: NDArray[np.uint8], *, threshold: float) -> Counts:
    """Count the pixels on which labels and prediction agree that there is a road.

    Args:
        mask: of the labels, shape (row, col): 0 background, 255 ignored, else road.
        road: probability of any road, same shape, 255 for certain.
        threshold: a pixel is road where its probability, 0 to 1, is at least this.
    """
    labelled = (mask != BACKGROUND) & (mask != IGNORE)
    return count_pixels(labelled, road >= threshold * CERTAIN, mask != IGNORE)


def score_routes(
    reference: RoadGraph, predicted: RoadGraph, *, spacing_m: float, snap_m: float
) -> RouteScore:
    """Score the routes of an area by length; see `core.graph_metrics.apls`."""
    score = apls(reference, predicted, weight="length_m", spacing_m=spacing_m, snap_m=snap_m).score
    return RouteScore(score, bool(len(reference.lines) or len(predicted.lines)))


def mean_apls(scores: Iterable[float]) -> float:
    """Return the mean over areas; 1 if there are none.

    Give only those of areas with roads on either side: others are rightly empty, and would flatter
    it.
    """
    routed = list(scores)
    return math.fsum(routed) / len(routed) if routed else 1.0


def _of_lines(roads: Roads) -> RoadGraph:
    speed_kph = roads.speed_mph * KPH_PER_MPH
    graph = graph_from_lines(roads.shapes, roads.crs, {"speed_kph": speed_kph})
    return add_travel(graph, graph.attributes["speed_kph"])
