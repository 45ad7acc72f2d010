"""Masks of the roads that a network is sure of."""

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.commands.tools import adapt
from roadseg.raster.grid import Grid
from roadseg.review.masks import SURE, decided_labels
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.masks import probabilities
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import DEFAULT_BINS

ROAD = 1
GRID = Grid(CRS.from_epsg(32611), Affine(1, 0, 660_000, 0, -1, 4_000_000), 60, 80)


def line(row, first_col, last_col):
    """Return a line along the middle of a row of pixels."""
    ends = GRID.to_metric(np.array([[row + 0.5, first_col + 0.5], [row + 0.5, last_col + 0.5]]))
    return shapely.LineString(ends)


def mask_of(road, lines, confidence, width_m):
    attributes = {"confidence": np.array(confidence), "width_m": np.array(width_m, dtype=float)}
    roads = graph_from_lines(np.array(lines, dtype=object), GRID.metric_crs, attributes)
    found, near = Probability(GRID, road, threshold=0.5), adapt._decided(roads).near(GRID)  # noqa: SLF001
    mask = np.full(road.shape, 77, dtype=np.uint8)
    blocks = decided_labels(found, near, bins=DEFAULT_BINS, options=TraceOptions())
    for window, pixels in blocks:
        mask[window.slices] = pixels
    return mask


def test_sure_roads_count_where_they_meet_doubtful_ones(monkeypatch):
    road = np.zeros((60, 80), dtype=np.uint8)
    crossing = line(10, 5, 70), shapely.affinity.rotate(line(10, 30, 50), 90)
    mask = mask_of(road, crossing, [SURE, SURE - 0.01], [7, 7])
    assert mask[10, 40] == ROAD
    monkeypatch.setattr(probabilities, "_BLOCK_PX", 16)
    assert np.array_equal(mask_of(road, crossing, [SURE, SURE - 0.01], [7, 7]), mask)


@pytest.mark.parametrize(("width_m", "pixels"), [(2, 5), (9, 9), (60, 21), (np.nan, 5)])
def test_widths_are_those_of_roads(width_m, pixels):
    mask = mask_of(np.zeros((60, 80), dtype=np.uint8), [line(30, 5, 70)], [0.9], [width_m])
    assert np.count_nonzero(mask[:, 40] == ROAD) == pixels
