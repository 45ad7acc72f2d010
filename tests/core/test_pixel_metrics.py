"""Pixels counted by hand on drawn masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.core.pixel_metrics import Counts, count_pixels

NOTHING = Counts(0, 0, 0)
counts = st.builds(Counts, *[st.integers(0, 1000)] * 3)


def drawn(rows):
    return np.array([[pixel == "#" for pixel in row] for row in rows.split()])


REFERENCE = drawn("##.. ##.. ....")
PREDICTED = drawn(".##. .##. .#..")
ALL = np.ones((3, 4), dtype=bool)


def test_pixels_are_counted_by_who_has_them():
    assert count_pixels(REFERENCE, PREDICTED, ALL) == Counts(2, 3, 2)


def test_pixels_that_are_not_valid_are_left_out():
    valid = drawn("#### ..## ....")
    assert count_pixels(REFERENCE, PREDICTED, valid) == Counts(1, 2, 1)


def test_swapping_the_masks_swaps_extra_and_missed_pixels():
    assert count_pixels(PREDICTED, REFERENCE, ALL) == Counts(2, 2, 3)


def test_the_ratios_are_those_of_the_textbook():
    found = Counts(true_positive=6, false_positive=2, false_negative=4)
    assert (found.iou, found.precision, found.recall) == (0.5, 0.75, 0.6)
    assert found.f1 == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))


@pytest.mark.parametrize("ratio", ["iou", "precision", "recall", "f1"])
@pytest.mark.parametrize(
    ("found", "expected"),
    [(NOTHING, 1), (Counts(0, 5, 0), 0), (Counts(0, 0, 5), 0), (Counts(5, 0, 0), 1)],
    ids=["both empty", "reference empty", "predicted empty", "equal"],
)
def test_nothing_against_nothing_is_right_and_against_something_wrong(found, expected, ratio):
    assert getattr(found, ratio) == expected


@given(counts)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(found):
    both = found.precision + found.recall
    harmonic = 2 * found.precision * found.recall / both if both else 0
    assert found.f1 == pytest.approx(harmonic)


def test_counts_pool_over_chips():
    chips = [Counts(1, 2, 3), Counts(10, 20, 30), Counts(100, 200, 300)]
    assert sum(chips, Counts()) == Counts(111, 222, 333)


def test_pooled_halves_of_a_mask_give_the_counts_of_the_whole():
    left, right = np.s_[:, :2], np.s_[:, 2:]
    halves = [count_pixels(REFERENCE[h], PREDICTED[h], ALL[h]) for h in (left, right)]
    assert sum(halves, Counts()) == count_pixels(REFERENCE, PREDICTED, ALL)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_mask_of_speed_bins_is_turned_down(place):
    masks = [REFERENCE, PREDICTED, ALL]
    masks[place] = masks[place].astype(np.uint8)
    with pytest.raises(ValueError, match="mask is uint8, expected bool"):
        count_pixels(*masks)


@pytest.mark.parametrize("place", [1, 2])
def test_masks_of_different_shapes_are_turned_down(place):
    masks = [REFERENCE, PREDICTED, ALL]
    masks[place] = masks[place][:1]
    with pytest.raises(ValueError, match=r"mask is \(1, 4\), the reference \(3, 4\)"):
        count_pixels(*masks)
