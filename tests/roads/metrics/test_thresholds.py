import numpy as np
import pytest

from roadseg.roads.metrics.pixels import Counts
from roadseg.roads.metrics.thresholds import LEVELS, Histogram


def histogram(background, roads):
    """Return a histogram of two dictionaries from a byte to its pixels."""
    sides = np.zeros((2, LEVELS), dtype=np.int64)
    for side, pixels in zip(sides, (background, roads), strict=True):
        side[list(pixels)] = list(pixels.values())
    return Histogram(*sides)


@pytest.mark.parametrize(("level", "found"), [(101, 0), (102, 3)])
def test_a_pixel_of_just_the_threshold_is_road(level, found):
    assert histogram({}, {level: 3}).at(0.4) == Counts(found, 0, 3 - found)


def test_the_threshold_that_parts_roads_from_background_is_best():
    found = histogram({0: 900, 150: 50}, {160: 90, 255: 10})
    assert 150 < found.best_threshold * 255 <= 160
    assert found.at(found.best_threshold).iou == 1


def test_the_middle_of_equally_good_thresholds_is_taken():
    assert histogram({0: 9}, {255: 9}).best_threshold == 0.5
    assert histogram({0: 9}, {128: 9}).best_threshold == 0.3


@pytest.mark.parametrize(
    ("background", "roads", "end"), [({255: 9}, {10: 9, 20: 5}, 0.1), ({240: 99}, {254: 9}, 0.9)]
)
def test_it_stays_between_a_tenth_and_nine_tenths(background, roads, end):
    threshold = histogram(background, roads).best_threshold
    assert 0.1 <= threshold <= 0.9
    assert abs(threshold - end) < 0.41


def test_pixels_without_roads_and_without_any_have_a_threshold():
    assert histogram({}, {}).best_threshold == 0.5
    assert histogram({100: 9}, {}).best_threshold == pytest.approx(0.65)


def test_histograms_are_pooled():
    one, other = histogram({3: 1}, {200: 2}), histogram({200: 4}, {200: 1})
    assert (one + other).at(0.5) == Counts(3, 4, 0)


def test_the_threshold_is_that_of_a_search_through_the_pixels():
    dice = np.random.default_rng(0)
    levels, roads = dice.integers(0, 256, 4000), dice.random(4000) < 0.3
    levels = np.where(roads, np.minimum(levels + 60, 255), levels)
    sides = [np.bincount(levels[roads == side], minlength=LEVELS) for side in (False, True)]

    def iou(threshold):
        predicted = levels >= threshold * 255
        return (predicted & roads).sum() / (predicted | roads).sum()

    best = max(iou(number / 100) for number in range(10, 91))
    assert iou(Histogram(*sides).best_threshold) == best
