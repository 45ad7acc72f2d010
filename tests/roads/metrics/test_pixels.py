"""Pixels counted by hand on drawn masks, and by scikit-learn on random ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roadseg.roads.metrics.pixels import LEVELS, Counts, Histogram, count_pixels
from tests.drawing import histogram
from tests.drawing import pixels_of as drawn

NOTHING = Counts(0, 0, 0)
counts = st.builds(Counts, *[st.integers(0, 1000)] * 3)


REFERENCE = drawn("##.. ##.. ....")
PREDICTED = drawn(".##. .##. .#..")
ALL = np.ones((3, 4), dtype=bool)


@pytest.mark.parametrize(
    ("valid", "expected"),
    [(ALL, Counts(2, 3, 2)), (drawn("#### ..## ...."), Counts(1, 2, 1))],
    ids=["all", "some"],
)
def test_valid_pixels_are_counted_by_who_has_them(valid, expected):
    assert count_pixels(REFERENCE, PREDICTED, valid) == expected


@pytest.mark.parametrize("ratio", ["iou", "precision", "recall", "f1"])
@pytest.mark.parametrize(
    ("found", "expected"),
    [(NOTHING, 1), (Counts(0, 5, 0), 0), (Counts(0, 0, 5), 0), (Counts(5, 0, 0), 1)],
    ids=["both empty", "reference empty", "predicted empty", "equal"],
)
def test_nothing_against_nothing_is_right_and_against_something_wrong(found, expected, ratio):
    assert getattr(found, ratio) == expected


@given(arrays(bool, (2, 6, 7)))
@settings(max_examples=20)
def test_ratios_are_those_of_scikit_learn(masks):
    metrics = pytest.importorskip("sklearn.metrics")
    reference, predicted = masks
    found = count_pixels(reference, predicted, np.ones_like(reference))
    for name, metric in (
        ("iou", metrics.jaccard_score),
        ("precision", metrics.precision_score),
        ("recall", metrics.recall_score),
        ("f1", metrics.f1_score),
    ):
        empty = float(not masks.any())
        expected = metric(reference.ravel(), predicted.ravel(), zero_division=empty)
        assert getattr(found, name) == pytest.approx(expected)


@pytest.mark.parametrize(("level", "found"), [(101, 0), (102, 3)])
def test_a_pixel_of_just_the_threshold_is_road(level, found):
    assert histogram({}, {level: 3}).at(0.4) == Counts(found, 0, 3 - found)


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
