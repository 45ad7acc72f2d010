import math
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from scipy import ndimage

from roadseg.dataset.shifts import SURE, Shift, combine_shifts, estimate_shift
from roadseg.raster.images import read_facts
from roadseg.roads.masks.burning import IGNORE

SIDE = 240
ROWS, COLS = np.mgrid[:SIDE, :SIDE].astype(float)
CROSSING = np.minimum(np.abs(ROWS - 100), np.abs(COLS - 130 + ROWS / 4))  # metres from a middle
LEVEL = np.abs(ROWS - 120)
DIAGONAL = np.abs(ROWS - COLS) / math.sqrt(2)


def scene(away=CROSSING, *, width_m=8.0, road=60.0, ground=120.0):
    """Draw smooth roads on rough ground, pixels of 1 m."""
    rng = np.random.default_rng(3)
    rough = ndimage.gaussian_filter(rng.normal(size=(3, SIDE, SIDE)), (0, 1.5, 1.5)) * 150
    smooth = rng.normal(size=(3, SIDE, SIDE)) * 3
    drawn = np.where(away <= width_m / 2, road + smooth, ground + rough)
    return drawn.clip(0, 255).astype(np.uint8)


def moved(mask, right, down):
    return ndimage.shift(mask, (down, right), order=0)


def labels(away=CROSSING, *, width_m=8.0, right=0, down=0):
    return moved((away <= width_m / 2).astype(np.uint8), right, down)


def estimate(image, mask, pixel_m=(1.0, 1.0), **options):
    return estimate_shift(image, mask, pixel_m=pixel_m, **options)


@pytest.mark.parametrize(("right", "down"), [(0, 0), (4, 0), (0, -4), (-3, 6), (-6, -5)])
def test_labels_are_to_move_back_by_what_they_were_moved(right, down):
    found = estimate(scene(), labels(right=right, down=down))
    assert (found.x_m, found.y_m) == pytest.approx((-right, -down), abs=0.5)
    assert found.is_sure
    assert found.along_deg is None


@pytest.mark.parametrize("road", [60.0, 200.0])
def test_roads_may_be_darker_or_brighter_than_the_ground(road):
    found = estimate(scene(road=road), labels(right=5))
    assert (found.x_m, found.y_m) == pytest.approx((-5, 0), abs=0.5)


@pytest.mark.parametrize("width_m", [8.0, 14.0, 20.0])
def test_roads_may_be_wider_than_their_mask(width_m):
    found = estimate(scene(width_m=width_m), labels(width_m=4.0, right=3, down=-3))
    assert (found.x_m, found.y_m) == pytest.approx((-3, 3), abs=1)


def test_metres_follow_the_size_of_pixels_each_way():
    found = estimate(scene(), labels(right=4, down=4), pixel_m=(0.5, 1.2))
    assert (found.x_m, found.y_m) == pytest.approx((-2, -4.8), abs=0.5)


def test_of_roads_that_run_level_only_the_shift_up_or_down_is_seen():
    found = estimate(scene(LEVEL), labels(LEVEL, right=5, down=4))
    assert (found.x_m, found.y_m) == pytest.approx((0, -4), abs=0.5)
    assert math.sin(math.radians(found.along_deg)) == pytest.approx(0, abs=0.02)
    assert found.is_sure


def test_of_diagonal_roads_only_the_shift_across_is_seen():
    found = estimate(scene(DIAGONAL), labels(DIAGONAL, right=6))
    assert (found.x_m, found.y_m) == pytest.approx((-3, 3), abs=0.5)
    assert found.along_deg == pytest.approx(45, abs=1)


@pytest.mark.parametrize("mask", [0, 1, IGNORE])
def test_nothing_is_seen_without_outlines_of_roads(mask):
    found = estimate(scene(), np.full((SIDE, SIDE), mask, np.uint8))
    assert not found.is_sure


def test_ground_without_roads_hardly_ever_looks_like_a_shift():
    noise = np.random.default_rng(0).normal(120, 40, (10, 3, SIDE, SIDE))
    rough = ndimage.gaussian_filter(noise, (0, 0, 1.5, 1.5)).clip(0, 255).astype(np.uint8)
    assert sum(estimate(ground, labels()).is_sure for ground in rough) <= 1


@pytest.mark.parametrize("shape", [(15, 15), (1, 240), (240, 2), (1, 1)])
@pytest.mark.parametrize("pixel_m", [(1.0, 1.0), (0.3, 0.3)])
def test_nothing_is_seen_of_a_scene_smaller_than_the_reach(shape, pixel_m):
    rows, cols = shape
    assert not estimate(scene()[:, :rows, :cols], labels()[:rows, :cols], pixel_m).is_sure


@pytest.mark.parametrize(("size_m", "seen"), [(2.4, True), (2.6, False)])
def test_nothing_is_seen_in_large_pixels(size_m, seen):
    assert estimate(scene(), labels(), (size_m, size_m)).is_sure == seen


def test_a_shift_beyond_the_reach_is_not_seen():
    assert estimate(scene(), labels(down=5), reach_m=7).is_sure
    assert not estimate(scene(), labels(down=5), reach_m=5).is_sure


def test_pixels_without_data_do_not_count():
    image, mask = scene(), labels(right=4, down=2)
    image[:, :, 150:], mask[:, 150:] = 0, IGNORE
    found = estimate(image, mask)
    assert (found.x_m, found.y_m) == pytest.approx((-4, -2), abs=0.5)


@pytest.mark.parametrize(("confidence", "sure"), [(SURE, True), (SURE - 0.01, False)])
def test_a_shift_means_something_from_a_confidence_on(confidence, sure):
    assert Shift(1.0, 2.0, confidence).is_sure == sure


def test_the_median_of_shifts_does_not_follow_one_far_off():
    shifts = [Shift(3.0, -1.0, 1.0)] * 4 + [Shift(-9.0, 9.0, 1.0)]
    found = combine_shifts(shifts)
    assert (found.x_m, found.y_m) == pytest.approx((3, -1), abs=0.05)
    assert found.confidence == 1


def test_shifts_that_are_not_sure_are_left_out():
    found = combine_shifts([Shift(1.0, 1.0, 0.9), Shift(9.0, 9.0, 0.1), Shift(9.0, 9.0, 0.2)])
    assert (found.x_m, found.y_m) == pytest.approx((1, 1))


def test_without_a_sure_shift_there_is_none():
    assert combine_shifts([]) is None
    assert combine_shifts([Shift(1.0, 1.0, 0.1)]) is None


def test_roads_of_two_scenes_complete_each_other():
    found = combine_shifts([Shift(0.0, 2.0, 1.0, along_deg=0.0), Shift(-3.0, 0.0, 1.0, 90.0)])
    assert (found.x_m, found.y_m) == pytest.approx((-3, 2), abs=0.01)
    assert found.along_deg is None


def test_scenes_whose_roads_all_run_the_same_way_show_one_way_only():
    level = Shift(0.0, 2.0, 1.0, along_deg=0.0)
    found = combine_shifts([level, replace(level, y_m=2.2), replace(level, y_m=9.0)])
    assert (found.x_m, found.y_m) == pytest.approx((0, 2.2), abs=0.05)
    assert found.along_deg == 0


@pytest.mark.real
@pytest.mark.parametrize("name", ["22889-52826-17", "22887-52828-17", "22890-52829-17"])
@pytest.mark.parametrize(("right", "down"), [(0, 0), (4, -4), (-6, 0)])
def test_streets_of_san_diego_are_found_again_within_a_metre(real_data, name, right, down):
    path = real_data / "san_diego/images" / f"{name}.tif"
    with rasterio.open(path) as source:
        image = source.read()
    with rasterio.open(real_data / "san_diego/masks" / f"{name}.tif") as source:
        mask = moved(source.read(1), right * 2, down * 2)
    pixel_m = read_facts(path).grid.pixel_size_m
    found = estimate(image, mask, pixel_m)
    expected = (-2 * right * pixel_m[0], -2 * down * pixel_m[1])
    assert math.dist((found.x_m, found.y_m), expected) < 1
    assert found.is_sure
