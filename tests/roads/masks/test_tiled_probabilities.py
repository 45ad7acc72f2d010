from dataclasses import replace

import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.masks.probabilities import open_probability, write_probability
from roadseg.roads.masks.tiled_probabilities import as_one
from roadseg.roads.speeds import SpeedBins
from tests.drawing import PLACE, UTM

GROUND = np.random.default_rng(0).integers(9, 255, (3, 60, 80), dtype=np.uint8)
BINS = SpeedBins((50.0,), "km/h")
HALVES = [Window(0, 0, 60, 50), Window(0, 50, 60, 30)]


@pytest.fixture
def cut(tmp_path):
    """Give a function that writes windows of the ground as rasters of probabilities."""

    def write(*windows, is_known=None):
        tiles = []
        for number, (row, col, height, width) in enumerate(windows):
            values = GROUND[:, row : row + height, col : col + width]
            known = values[0] > 0 if is_known is None else is_known(number, values[0])
            grid = Grid(UTM, PLACE @ Affine.translation(col, row), height, width)
            path = tmp_path / f"tile_{number}.tif"
            rows = [(0, np.where(known, values, np.uint8(0)), known)]
            write_probability(path, rows, grid, bins=BINS, key="", tags={})
            tiles.append(open_probability(path))
        return tiles

    return write


@pytest.mark.parametrize("window", [(0, 0, 60, 80), (10, 45, 20, 10), (5, 60, 7, 9)])
def test_a_window_across_tiles_is_that_of_the_ground(cut, window):
    row, col, height, width = window
    pixels = as_one(cut(*HALVES))
    expected = GROUND[:, row : row + height, col : col + width]
    road, bins = pixels.read_all(Window(*window))
    assert np.array_equal(np.concatenate([bins, road[np.newaxis]]), expected)
    assert np.array_equal(pixels.read_road(Window(*window)), expected[-1])


def test_where_no_tile_lies_there_is_no_road(cut):
    pixels = as_one(cut(Window(0, 0, 30, 40), Window(30, 40, 30, 40)))
    assert not pixels.read_road(Window(0, 40, 30, 40)).any()


def test_of_tiles_that_overlap_the_first_with_data_is_seen(cut):
    def is_known(number, values):
        return (np.arange(values.size).reshape(values.shape) % 2 == 0) | (number == 1)

    first, other = cut(Window(0, 0, 60, 40), Window(0, 40, 60, 40), is_known=is_known)
    pixels = as_one([first, replace(other, grid=first.grid)])
    one, two = GROUND[-1, :, :40], GROUND[-1, :, 40:]
    expected = np.where(is_known(0, one), one, two)
    assert np.array_equal(pixels.read_road(Window(0, 0, 60, 40)), expected)


@pytest.mark.parametrize(
    ("of_tiles", "of_all"),
    [((None, None), None), ((0.6, 0.6), 0.6), ((0.5, 0.6), 0.55), ((None, 0.6), 0.6)],
)
def test_tiles_with_several_thresholds_have_their_mean(cut, of_tiles, of_all):
    pairs = zip(cut(*HALVES), of_tiles, strict=True)
    tiles = [replace(tile, threshold=threshold) for tile, threshold in pairs]
    assert as_one(tiles).threshold == of_all


def test_a_tile_that_cannot_be_read_any_more_is_named(cut):
    tiles = cut(*HALVES)
    pixels = as_one(tiles)
    tiles[1].path.write_bytes(b"no raster")
    with pytest.raises(DataError, match=r"tile_1\.tif"):
        pixels.read_road(Window(0, 0, 60, 80))


def test_a_place_is_on_the_first_of_the_nearest_tiles(cut):
    pixels = as_one(cut(*HALVES, Window(0, 0, 60, 80)))
    places = shapely.points([(660010, 3999990), (660070, 3999990), (660090, 3999990)])
    assert pixels.tile_at(places).tolist() == [0, 1, 1]
