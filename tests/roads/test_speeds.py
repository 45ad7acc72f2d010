import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins

KPH_BINS = SpeedBins((30.0, 50.0, 100.0), "km/h")


@pytest.mark.parametrize(
    ("speed", "expected"),
    [(0.1, 1), (10, 1), (10.1, 2), (20, 2), (20.1, 3), (60, 6), (60.1, 7), (61, 7), (65, 7)],
)
def test_an_edge_belongs_to_the_bin_that_it_closes(speed, expected):
    assert DEFAULT_BINS.bin_of(speed) == expected


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30, unique=True).map(sorted))
def test_every_whole_edge_in_km_per_hour_closes_its_bin(edges):
    bins = SpeedBins(tuple(float(edge) for edge in edges), "km/h")
    mph = np.array(edges) / KPH_PER_MPH
    assert bins.bin_of(mph).tolist() == list(range(1, bins.count))


def test_bins_of_many_speeds_are_bytes():
    bins = DEFAULT_BINS.bin_of([5, 25, 1000])
    assert bins.dtype == np.uint8
    assert bins.tolist() == [1, 3, 7]


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_a_speed_that_is_not_above_0_has_no_bin(speed):
    with pytest.raises(ValueError, match="a speed must be above 0 mph, got"):
        DEFAULT_BINS.bin_of([30, speed])


def test_the_default_bins_stand_for_the_middle_of_each_ten_mph():
    assert DEFAULT_BINS.speeds_mph == (5, 15, 25, 35, 45, 55, 65)


def test_a_bin_in_km_per_hour_stands_for_a_speed_in_mph():
    kph = [mph * KPH_PER_MPH for mph in KPH_BINS.speeds_mph]
    assert kph == pytest.approx([15, 40, 75, 125])


@pytest.mark.parametrize("bins", [DEFAULT_BINS, KPH_BINS, SpeedBins((25.0,))])
def test_the_speed_of_a_bin_lies_in_it(bins):
    assert bins.bin_of(bins.speeds_mph).tolist() == list(range(1, bins.count + 1))


def test_band_names_say_the_speeds_of_the_bins():
    assert DEFAULT_BINS.band_names[0] == "speed_0_to_10_mph"
    assert DEFAULT_BINS.band_names[5:] == ("speed_50_to_60_mph", "speed_above_60_mph", "road")


def test_band_names_say_the_unit():
    assert SpeedBins((7.5,), "km/h").band_names == (
        "speed_0_to_7.5_kph",
        "speed_above_7.5_kph",
        "road",
    )


def test_equal_edges_in_another_unit_are_other_bins():
    assert SpeedBins((30.0,)) == SpeedBins((30.0,), "mph")
    assert SpeedBins((30.0,)) != SpeedBins((30.0,), "km/h")


@pytest.mark.parametrize(
    "edges", [(), (0.0, 10.0), (-5.0,), (10.0, 10.0), (20.0, 10.0), (10.0, math.nan)]
)
def test_edges_that_do_not_rise_from_above_0_are_refused(edges):
    with pytest.raises(ValueError, match="expected 1 to 30 increasing edges above 0, got"):
        SpeedBins(edges)


def test_30_edges_are_allowed_and_31_are_not():
    assert SpeedBins(tuple(range(1, 31))).count == 31
    with pytest.raises(ValueError, match="expected 1 to 30 increasing edges"):
        SpeedBins(tuple(range(1, 32)))
