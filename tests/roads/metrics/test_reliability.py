import numpy as np
import pytest

from roadseg.roads.metrics.reliability import Reliability, measure_reliability


def measure(confidence, share, length_m):
    return measure_reliability(
        *(np.array(values, dtype=float) for values in (confidence, share, length_m))
    )


def test_the_error_is_weighted_by_length():
    found = measure([0.95, 0.15], [1, 0.5], [300, 100])
    assert found.error == pytest.approx(0.75 * 0.05 + 0.25 * 0.35)


@pytest.mark.parametrize(("confidence", "bins"), [(0.29, 1), (0.3, 2)])
def test_a_range_ends_below_the_next_tenth(confidence, bins):
    assert len(measure([0.21, confidence], [1, 1], [1, 1]).bins) == bins


def test_what_is_certain_is_in_the_last_range():
    (last,) = measure([0.9, 1.0], [1, 0], [3000, 1000]).bins
    assert (last.confidence, last.share, last.km) == pytest.approx((0.925, 0.75, 4))


def test_nothing_has_no_error():
    assert measure([], [], []) == Reliability()
    assert Reliability().error == 0
