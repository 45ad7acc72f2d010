"""The mean of a metric over folds, and how far they differ."""

import math

import pytest

from roadseg.roads.metrics.pooling import Spread, spread_of


def test_the_standard_deviation_is_that_of_a_sample():
    found = spread_of([0.6, 0.8])
    assert found.mean == pytest.approx(0.7)
    assert found.std == pytest.approx(math.sqrt(0.02))


def test_one_value_has_no_spread():
    assert spread_of([0.7]) == Spread(0.7, None)
    assert str(spread_of([0.7])) == "0.700"


def test_what_was_not_measured_does_not_count():
    assert spread_of([0.6, None, 0.8, math.nan]) == spread_of([0.6, 0.8])
    assert spread_of([None, math.nan]) is None


def test_a_spread_is_told_in_other_units():
    assert Spread(0.7, 0.1).times(2) == Spread(1.4, 0.2)
    assert Spread(0.7, None).times(2) == Spread(1.4, None)
