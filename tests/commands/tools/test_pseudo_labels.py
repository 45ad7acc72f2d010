"""Masks of the roads that a network is sure of."""

from types import SimpleNamespace

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.commands.tools import adapt
from roadseg.commands.tools.adapt import are_sure, sure_labels
from roadseg.raster.grid import Grid
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.masks import probabilities
from roadseg.roads.masks.burning import BACKGROUND, IGNORE

ROAD = 1
GRID = Grid(CRS.from_epsg(32611), Affine(1, 0, 660_000, 0, -1, 4_000_000), 60, 80)


def line(row, first_col, last_col):
    """Return a line along the middle of a row of pixels."""
    ends = GRID.to_metric(np.array([[row + 0.5, first_col + 0.5], [row + 0.5, last_col + 0.5]]))
    return shapely.LineString(ends)


def mask_of(road, lines, confidence, width_m):
    attributes = {"confidence": np.array(confidence), "width_m": np.array(width_m, dtype=float)}
    roads = graph_from_lines(np.array(lines, dtype=object), GRID.metric_crs, attributes)
    found = SimpleNamespace(grid=GRID, read_road=lambda window: road[window.slices])
    mask = np.full(road.shape, 77, dtype=np.uint8)
    for window, pixels in sure_labels(found, roads, level=128):
        mask[window.slices] = pixels
    return mask


def drawn():
    """Return the mask of a sure road, a doubtful one, and a car park."""
    road = np.zeros((60, 80), dtype=np.uint8)
    road[7:14], road[27:34], road[45:58, 10:30] = 200, 130, 255
    return mask_of(road, [line(10, 5, 70), line(30, 5, 70)], [0.9, 0.3], [7, 7])


def test_sure_roads_are_road_and_all_other_pixels_that_might_be_are_ignored():
    mask = drawn()
    assert mask[10, 40] == mask[13, 40] == mask[7, 40] == ROAD
    assert mask[14, 40] == BACKGROUND
    assert mask[30, 40] == mask[34, 40] == IGNORE  # with a margin of 1.5 m
    assert mask[36, 40] == BACKGROUND
    assert (mask[45:58, 10:30] == IGNORE).all()
    assert (mask[40:44] == BACKGROUND).all()


def test_sure_roads_count_where_they_meet_doubtful_ones():
    road = np.zeros((60, 80), dtype=np.uint8)
    crossing = line(10, 5, 70), shapely.affinity.rotate(line(10, 30, 50), 90)
    assert mask_of(road, crossing, [0.9, 0.3], [7, 7])[10, 40] == ROAD


@pytest.mark.parametrize(("width_m", "pixels"), [(2, 5), (9, 9), (60, 21), (np.nan, 5)])
def test_widths_are_those_of_roads(width_m, pixels):
    mask = mask_of(np.zeros((60, 80), dtype=np.uint8), [line(30, 5, 70)], [0.9], [width_m])
    assert np.count_nonzero(mask[:, 40] == ROAD) == pixels


def test_blocks_do_not_show(monkeypatch):
    whole = drawn()
    monkeypatch.setattr(probabilities, "_BLOCK_PX", 16)
    assert np.array_equal(drawn(), whole)


def test_what_is_sure():
    confidence = np.array([adapt.SURE - 0.01, adapt.SURE])
    roads = SimpleNamespace(attributes={"confidence": confidence})
    assert are_sure(roads).tolist() == [False, True]
