import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.core.evidence import (
    margin_px,
    mean_and_lowest,
    median_widths,
    read_stations,
    stations,
)
from roadseg.core.graphs import RoadGraph
from roadseg.core.grid import LOCAL_CRS, Grid

METRE = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 100), 100, 100)
DEGREES = Grid(CRS.from_epsg(4326), Affine(2.7e-6, 0, -115.2, 0, -2.7e-6, 36.2), 200, 200)


def one_line(grid, *rows_cols):
    """A graph of one line through pixel positions."""
    xy = grid.to_metric(np.array(rows_cols, dtype=float))
    line = np.array([shapely.LineString(xy)])
    return RoadGraph(grid.metric_crs, xy[[0, -1]], np.array([[0, 1]]), line)


def width(grid, road, *rows_cols, **options):
    at = stations(one_line(grid, *rows_cols), grid)
    found = read_stations(at, road, None, **{"origin": (0, 0), "level": 100} | options)
    return median_widths(found.width_m, at.edge, 1)[0]


def test_stations_lie_evenly_along_an_edge():
    at = stations(one_line(METRE, (50, 10), (50, 20)), METRE)
    assert at.places[:, 1].tolist() == pytest.approx([11, 13, 15, 17, 19])
    assert np.hypot(*at.sideways.T) == pytest.approx([1] * 5)


@pytest.mark.parametrize("half", [2, 5, 12])
def test_the_width_is_that_of_the_road_across_the_edge(half):
    road = np.zeros((100, 100), dtype=np.uint8)
    road[50 - half : 50 + half] = 255
    assert width(METRE, road, (50, 10), (50, 90)) == pytest.approx(2 * half, abs=0.6)


def test_the_width_of_a_slanting_road_is_measured_across_it():
    row, col = np.mgrid[:100, :100] + 0.5
    road = (np.abs(row - col) / np.sqrt(2) < 6).astype(np.uint8) * 255
    assert width(METRE, road, (20, 20), (80, 80)) == pytest.approx(12, abs=0.8)


def test_pixels_in_degrees_are_not_square():
    across, along = np.zeros((2, 200, 200), dtype=np.uint8)
    across[90:110], along[:, 90:110] = 255, 255
    metres = DEGREES.pixel_size_m
    assert width(DEGREES, across, (100, 20), (100, 180)) == pytest.approx(20 * metres[1], abs=0.2)
    assert width(DEGREES, along, (20, 100), (180, 100)) == pytest.approx(20 * metres[0], abs=0.2)


def test_an_edge_on_no_road_has_no_width():
    assert np.isnan(width(METRE, np.zeros((100, 100), np.uint8), (50, 10), (50, 90)))


def test_an_open_space_is_no_wider_than_the_limit():
    road = np.full((100, 100), 255, dtype=np.uint8)
    assert width(METRE, road, (50, 45), (50, 55)) == pytest.approx(50, abs=1)


def test_a_window_shows_what_the_scene_shows():
    road = np.zeros((100, 100), dtype=np.uint8)
    road[45:55] = 255
    part = road[30:70, 20:90]
    whole = width(METRE, road, (50, 40), (50, 60))
    assert width(METRE, part, (50, 40), (50, 60), origin=(30, 20)) == whole


def test_bins_are_read_at_the_stations():
    bins = np.zeros((2, 100, 100), dtype=np.uint8)
    bins[1, 50] = 200
    at = stations(one_line(METRE, (50.5, 10), (50.5, 14)), METRE)
    found = read_stations(at, bins[1], bins, origin=(0, 0), level=100)
    assert found.bins.tolist() == [[0, 200], [0, 200]]


def test_the_mean_and_the_lowest_are_those_of_each_edge():
    road = np.array([255, 51, 0, 255], dtype=np.uint8)
    mean, lowest = mean_and_lowest(road, np.array([0, 0, 1, 1]), 2)
    assert mean.tolist() == pytest.approx([0.6, 0.5])
    assert lowest.tolist() == pytest.approx([0.2, 0])


def test_the_margin_reaches_as_far_as_the_widest_road():
    assert margin_px(METRE) == 26
