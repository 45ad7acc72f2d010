import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.graph.road_graph import RoadGraph, sample_points
from roadseg.roads.tracing.edge_statistics import SamplePointGroups, add_up, margin_px, sample_edges
from tests.drawing import edges_of

METRE = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 100), 100, 100)
DEGREES = Grid(CRS.from_epsg(4326), Affine(2.7e-6, 0, -115.2, 0, -2.7e-6, 36.2), 200, 200)


def one_line(grid, *rows_cols):
    """A graph of one line through pixel positions."""
    xy = grid.to_metric(np.array(rows_cols, dtype=float))
    line = np.array([shapely.LineString(xy)])
    return RoadGraph(grid.metric_crs, xy[[0, -1]], np.array([[0, 1]]), line)


def points_of(grid, *rows_cols):
    """The sample points of a line, in one group."""
    (samples,) = SamplePointGroups(one_line(grid, *rows_cols), grid, block_px=1000)
    return samples


def statistics(grid, road, *rows_cols, bins=None, **options):
    samples = points_of(grid, *rows_cols)
    return sample_edges(samples, road, bins, **{"origin": (0, 0), "level": 100} | options)


def width(*args, **options):
    return statistics(*args, **options).median_widths().sum()


@pytest.mark.parametrize("half", [2, 5, 12])
def test_the_width_is_that_of_the_road_across_the_edge(half):
    road = np.zeros((100, 100), dtype=np.uint8)
    road[50 - half : 50 + half] = 255
    assert width(METRE, road, (50, 10), (50, 90)) == pytest.approx(2 * half, abs=0.6)


def test_the_width_of_a_slanting_road_is_measured_across_it():
    row, col = np.mgrid[:100, :100] + 0.5
    road = (np.abs(row - col) / np.sqrt(2) < 6).astype(np.uint8) * 255
    assert width(METRE, road, (20, 20), (80, 80)) == pytest.approx(12, abs=0.8)


def test_neither_a_junction_nor_a_narrow_part_makes_the_width():
    road = np.zeros((100, 100), dtype=np.uint8)
    road[45:55] = road[:, 60:70] = 255
    road[:48, 15:35] = road[52:, 15:35] = 0
    assert width(METRE, road, (50, 10), (50, 90)) == pytest.approx(10, abs=0.6)


def test_across_an_edge_is_so_at_its_ends_too_wherever_the_next_edge_is():
    places = np.array([[(20.0, 10), (20, 30)], [(80, 60), (80, 90)]])
    graph = edges_of(*[METRE.to_metric(ends) for ends in places], crs=METRE.metric_crs)
    (samples,) = SamplePointGroups(graph, METRE, block_px=1000)
    assert samples.sideways == pytest.approx(np.full((25, 2), (-1, 0)))


def test_pixels_in_degrees_are_not_square():
    across, along = np.zeros((2, 200, 200), dtype=np.uint8)
    across[90:110], along[:, 90:110] = 255, 255
    metres = DEGREES.pixel_size_m
    assert width(DEGREES, across, (100, 20), (100, 180)) == pytest.approx(20 * metres[1], abs=0.2)
    assert width(DEGREES, along, (20, 100), (180, 100)) == pytest.approx(20 * metres[0], abs=0.2)


def test_an_open_space_is_no_wider_than_the_limit():
    road = np.full((100, 100), 255, dtype=np.uint8)
    assert width(METRE, road, (50, 45), (50, 55)) == pytest.approx(50, abs=1)


def test_a_window_shows_what_the_scene_shows():
    road = np.zeros((100, 100), dtype=np.uint8)
    road[45:55] = 255
    part = road[30:70, 20:90]
    whole = width(METRE, road, (50, 40), (50, 60))
    assert width(METRE, part, (50, 40), (50, 60), origin=(30, 20)) == whole


def test_bins_are_added_up_over_the_sample_points():
    bins = np.zeros((2, 100, 100), dtype=np.uint8)
    bins[1, 50, :12] = 200
    edge = statistics(METRE, bins[1], (50.5, 10), (50.5, 14), bins=bins)
    assert (edge.points.tolist(), edge.bins.tolist()) == ([2], [[0, 200]])


@pytest.mark.parametrize("block_px", [100, 40, 7])
def test_statistics_do_not_depend_on_the_blocks(block_px):
    road = np.random.default_rng(0).integers(0, 256, (100, 100), dtype=np.uint8)
    graph = one_line(METRE, (5, 5), (95, 90))
    groups = SamplePointGroups(graph, METRE, block_px=block_px)
    parts = [sample_edges(points, road, road[None], origin=(0, 0), level=0) for points in groups]
    edge = add_up(parts, 1, 1)
    (points, _) = sample_points(graph.lines, spacing_m=2)
    row, col = np.floor(METRE.from_metric(points)).astype(int).T
    shown = road[row, col] / 255
    assert edge.probability == pytest.approx([shown.mean()])
    assert edge.min_probability == pytest.approx([shown.min()])
    assert edge.bin_probability[0] == pytest.approx([shown.mean()])


def test_without_edges_there_are_no_statistics_and_without_road_no_width():
    none = add_up([], 0, 7)
    assert (none.probability.shape, none.bin_probability.shape) == ((0,), (0, 7))
    edge = statistics(METRE, np.zeros((100, 100), np.uint8), (50, 10), (50, 90))
    assert np.isnan(add_up([edge], 1, 0).median_widths()).all()


def test_the_margin_reaches_as_far_as_the_widest_road():
    assert margin_px(METRE) == 26
