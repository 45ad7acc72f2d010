import numpy as np
import pytest

from roadseg.dataset.registration import best_displacement, correlate, densest_window, make_view
from roadseg.raster.windows import Window
from roadseg.roads.masks.burning import IGNORE

CROSS = np.zeros((90, 120), np.uint8)
CROSS[40:48], CROSS[:, 50:60] = 2, 3
NOISE = np.random.default_rng(0).integers(0, 256, (2, *CROSS.shape)).astype(np.uint8)


def view(mask=CROSS, pixel_m=(1.0, 1.0), reach_m=6.0):
    return make_view(NOISE, mask, pixel_m=pixel_m, reach_m=reach_m)


def total(of, blocks):
    return [np.sum(kind, axis=0) for kind in zip(*correlate(of, blocks=blocks), strict=True)]


def hill(of, right, down):
    """Return scores of one width that are highest at a displacement in pixels."""
    rows, cols = of.reach_px
    y, x = np.mgrid[-rows : rows + 1, -cols : cols + 1]
    return -((x - right) ** 2 + (y - down) ** 2 + (x - right) * (y - down))[np.newaxis] * 50.0


def test_distances_are_from_the_outline_of_the_roads():
    assert view().away_m[37:44, 100].tolist() == [2.5, 1.5, 0.5, -0.5, -1.5, -2.5, -3.5]


def test_distances_are_in_metres():
    away = view(pixel_m=(0.8, 2.0)).away_m
    assert away[37, 100] - away[38, 100] == pytest.approx(2.0)


def test_unknown_pixels_have_the_mean_of_the_known():
    mask = CROSS.copy()
    mask[:, 100:] = IGNORE
    found = view(mask)
    assert not found.known[:, 100:].any()
    assert found.bands[0, :, 100:] == pytest.approx(NOISE[0, :, :100].mean(), abs=0.1)


def test_fine_pixels_are_averaged():
    found = view(pixel_m=(0.3, 0.6))
    assert found.bands.shape == (2, 45, 30)
    assert found.bands[1, 0, 0] == pytest.approx(NOISE[1, :2, :4].mean())
    assert found.pixel_m == pytest.approx((1.2, 1.2))


def test_blocks_add_up_to_the_scene():
    whole, parts = total(view(), 1), total(view(), 3)
    assert parts[0] == pytest.approx(whole[0], abs=0.02)
    assert parts[1] == pytest.approx(whole[1], abs=0.02)


@pytest.mark.parametrize(("right", "down"), [(0.0, 0.0), (2.3, -1.4), (-3.5, 3.0)])
def test_the_best_displacement_lies_between_pixels(right, down):
    of = view(pixel_m=(1.0, 2.0))
    found = best_displacement(hill(of, right, down / 2), of, None)
    assert found == pytest.approx((right, down), abs=0.05)


def test_across_roads_only_displacements_across_count():
    of = view()
    right, down = best_displacement(hill(of, 3, -1), of, (0.6, 0.8))
    assert right * 0.8 == pytest.approx(down * 0.6)


def test_near_equals_are_decided_for_the_nearer():
    of = view()
    scores = np.zeros((1, 13, 13))
    scores[0, 6, 8] = scores[0, 6, 1] = 9.0
    assert best_displacement(scores, of, None)[0] == pytest.approx(2, abs=0.1)


def test_the_densest_window_holds_the_roads():
    mask = np.zeros((400, 300), np.uint8)
    mask[250:300, 100:140] = 1
    row, col, height, width = densest_window(mask, (160, 160))
    assert (height, width) == (160, 160)
    assert mask[row : row + 160, col : col + 160].sum() == mask.sum()


def test_the_densest_window_stays_inside():
    mask = np.zeros((400, 300), np.uint8)
    mask[-3:, -3:] = 1
    assert densest_window(mask, (160, 160)) == Window(240, 140, 160, 160)


def test_the_densest_window_of_a_small_mask_is_all_of_it():
    assert densest_window(CROSS, (500, 100)) == Window(0, 0, 90, 100)
    assert densest_window(CROSS, (500, 500)) == Window(0, 0, 90, 120)
