from types import SimpleNamespace

import numpy as np
import pytest
from affine import Affine
from scipy import ndimage

from roadseg.commands.fusion.image_shifts import about_the_middle, displacement, find_shift
from roadseg.raster.grid import LOCAL_CRS, Grid

ALL = np.ones((128, 128), dtype=bool)


def crossing(down=0.0, right=0.0, *, width=6):
    """Draw two roads that cross in the middle, moved by pixels."""
    at = np.arange(128) + 0.5
    row, col = ((np.abs(at - 64 - moved) < width / 2) for moved in (down, right))
    drawn = (row[:, None] | col[None, :]).astype(np.float32) * 255
    return np.rint(ndimage.gaussian_filter(drawn, 1)).astype(np.uint8)


def found(here, there, *, known=ALL, reach=20):
    return displacement([((here, ALL), (there, known))], reach_px=(reach, reach))


@pytest.mark.parametrize("shift", [(0, 0), (5, -3), (-12, 9), (2, 0)])
def test_a_displacement_is_found(shift):
    assert found(crossing(), crossing(*shift)) == pytest.approx(shift, rel=0.06, abs=0.1)


def test_a_fraction_of_a_pixel_is_found():
    here = crossing(width=7)
    there = ndimage.shift(here.astype(np.float32), (0.5, -1.5), order=1).astype(np.uint8)
    assert found(here, there) == pytest.approx((0.5, -1.5), abs=0.25)


def test_along_a_straight_road_nothing_is_moved():
    road = np.zeros((128, 128), dtype=np.uint8)
    road[60:66] = 255
    moved = np.roll(road, 4, axis=0)
    assert found(road, moved) == pytest.approx((4, 0), abs=0.3)


def test_without_roads_no_displacement_is_found():
    nothing = np.zeros((128, 128), dtype=np.uint8)
    assert found(nothing, crossing(5, 5)) == (0, 0)


def test_roads_that_have_nothing_in_common_are_hardly_moved():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (2, 128, 128)).astype(np.uint8)
    assert np.abs(found(*noise)).max() < 3


def test_no_displacement_is_longer_than_the_reach():
    assert np.hypot(*found(crossing(), crossing(12, 0), reach=6)) < 7


def test_the_reach_is_in_metres_whatever_the_form_of_the_pixels():
    shift = 0, 16  # 8 m in pixels that are 0.5 m wide and 1 m high
    grid = Grid(LOCAL_CRS, Affine(0.5, 0, 0, 0, -1, 128), 128, 128)
    images = [
        SimpleNamespace(read_road=lambda window, road=road: (road[window.slices], ALL))
        for road in (crossing(), crossing(*shift))
    ]
    assert find_shift(*images, grid) == pytest.approx(shift, rel=0.06, abs=0.1)


def test_what_has_no_data_does_not_count():
    there = crossing(4, 4)
    known = ALL.copy()
    known[:, 100:], there[:, 100:] = False, 255
    assert found(crossing(), there, known=known) == pytest.approx((4, 4), abs=0.4)


def test_windows_that_are_too_small_show_no_displacement():
    small = crossing()[40:80, 40:80], ALL[:40, :40]
    assert displacement([(small, small)], reach_px=(20, 20)) == (0, 0)


def test_shifts_count_from_the_median_image():
    shifts = np.array([[0.0, 0.0], [1.0, 0.5], [9.0, 1.0]])
    assert about_the_middle(shifts).tolist() == [[-1.0, -0.5], [0.0, 0.0], [8.0, 0.5]]


def test_shifts_are_told_in_quarters_of_a_pixel():
    shifts = np.array([[0.0, 0.0], [0.24, 0.26], [-0.24, -0.26]])
    assert about_the_middle(shifts).tolist() == [[0.0, 0.0], [0.25, 0.25], [-0.25, -0.25]]


def test_less_than_an_eighth_of_a_pixel_is_no_shift():
    assert about_the_middle(np.array([[0.0, 0.0], [0.24, 0.0]])).tolist() == [[0, 0], [0, 0]]
    assert about_the_middle(np.array([[0.0, 0.0], [0.26, 0.0]])).tolist() == [[-0.25, 0], [0.25, 0]]
