import numpy as np
import pytest
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.masks.tiled_probabilities import group_tiles, place_tile

UTM = CRS.from_epsg(32611)
FIRST = Grid(UTM, Affine(2, 0, 500_000, 0, -2, 4_000_000), 30, 40)


def tile(row, col, height=30, width=40, *, gsd_m=2.0, crs=UTM):
    place = FIRST.crop(row, col, height, width).transform
    return Grid(crs, place @ Affine.scale(gsd_m / 2), height, width)


def pairs(*rows):
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def test_a_tile_is_placed_by_rows_and_columns_that_may_be_negative():
    assert place_tile(tile(-30, 17, 5, 6), FIRST) == Window(-30, 17, 5, 6)


@pytest.mark.parametrize(("off_px", "is_placed"), [(0.099, True), (0.101, False), (0.5, False)])
def test_a_tile_off_the_pixels_has_no_place(off_px, is_placed):
    assert (place_tile(tile(3 + off_px, 0), FIRST) is not None) == is_placed


@pytest.mark.parametrize(("gsd_m", "is_placed"), [(2.004, True), (2.006, False), (4.0, False)])
def test_pixels_of_another_size_have_no_place(gsd_m, is_placed):
    found = place_tile(tile(0, 0, gsd_m=gsd_m), FIRST)  # 0.08 and 0.12 px over 40
    assert (found is not None) == is_placed


def test_a_tile_without_a_finite_place_has_none():
    nowhere = Grid(UTM, Affine(2, 0, np.nan, 0, -2, 0), 30, 40)
    assert place_tile(nowhere, FIRST) is None


def test_tiles_that_touch_one_by_one_are_one_group():
    grids = [tile(0, 0), tile(0, 80), tile(0, 40), tile(90, 0)]
    assert group_tiles(grids, pairs([0, 2], [1, 2])) == [[0, 1, 2], [3]]


def test_a_tile_of_other_pixels_parts_those_on_either_side():
    grids = [tile(0, 0), tile(0, 40.5), tile(0, 80)]
    assert group_tiles(grids, pairs([0, 1], [1, 2])) == [[0], [1], [2]]


def test_a_tile_in_another_crs_is_in_no_group():
    grids = [tile(0, 0), tile(0, 40, crs=CRS.from_epsg(32612))]
    assert group_tiles(grids, pairs([0, 1])) == [[0], [1]]


def test_tiles_that_drift_off_the_pixels_of_the_first_begin_another_group():
    grids = [tile(0, 0), tile(0, 40.08), tile(0, 80.16)]
    assert group_tiles(grids, pairs([0, 1], [1, 2])) == [[0, 1], [2]]
