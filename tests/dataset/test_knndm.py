import numpy as np
import pytest

from roadseg.dataset.folds import matched_folds
from roadseg.dataset.footprints import nearest_m
from tests.drawing import chip_at

NONE = np.empty((0, 2), dtype=np.int64)
SIDE_M = 100.0


def square(count, x=5e5, y=4e6):
    """Return chips side by side in rows and columns."""
    places = [(x + SIDE_M * i, y + SIDE_M * j) for i in range(count) for j in range(count)]
    return [chip_at(f"{east:g}_{north:g}", east, north) for east, north in places]


def match(chips, target_m, *, folds=4, together=NONE, buffer_m=0.0):
    target = np.array(target_m, dtype=float)
    return matched_folds(chips, target, together=together, folds=folds, buffer_m=buffer_m)


def distances(chips, folds):
    """Return the distance of each chip to the nearest one of another fold."""
    sides = [
        (
            [c for c, of in zip(chips, folds, strict=True) if (of == fold) == held_out]
            for held_out in (True, False)
        )
        for fold in np.unique(folds)
    ]
    return np.concatenate([nearest_m(*pair) for pair in sides])


def test_the_mismatch_is_that_of_both_distributions():
    chips, target_m = square(8), [0.0, 100.0, 200.0]
    matched = match(chips, target_m)
    found = np.quantile(
        distances(chips, matched.folds), np.arange(0.5, 192) / 192, method="inverted_cdf"
    )
    wanted = np.repeat(target_m, 64)
    assert matched.mismatch_m == pytest.approx(np.abs(found - wanted).mean(), abs=0.1)


def test_places_as_far_apart_as_the_images_to_be_mapped_are_folds():
    chips = [c for k in range(4) for c in square(3, x=5e5 + 1000 * k)]
    matched = match(chips, [700.0])
    assert [len(set(matched.folds[9 * k : 9 * k + 9])) for k in range(4)] == [1] * 4
    assert matched.mismatch_m == pytest.approx(200 / 3)  # Of 700, 800 and 900 or 700 m.


def test_chips_of_the_same_ground_share_a_fold():
    matched = match(square(4), [0.0], together=np.array([[0, 15]]))
    assert matched.folds[0] == matched.folds[15]


def test_no_fold_has_more_than_half_of_the_chips():
    chips = [*square(5), *square(2, x=6e5), *square(2, x=7e5)]
    assert np.bincount(match(chips, [9e4], folds=3).folds).max() <= 16


def test_the_buffer_counts():
    chips = square(8)
    assert match(chips, [150.0]).mismatch_m == pytest.approx(100)
    assert match(chips, [150.0], buffer_m=90).mismatch_m <= 50


def test_chips_that_fill_no_folds_are_refused():
    with pytest.raises(ValueError, match=r"no clusters of the 4 chips fill 4 folds, each with at"):
        match(square(2), [0.0], together=np.array([[0, 1]]))
