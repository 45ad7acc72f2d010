"""Lengths and speeds as people read them."""

import pytest

from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins, shown_name
from roadseg.system.units import (
    choose_units,
    chosen_units,
    distance_text,
    per_road_unit,
    road_text,
    short_text,
    short_unit,
    shown_in,
    speed_text,
    to_short_unit,
)


def test_units_are_metric_unless_others_are_chosen():
    assert (road_text(1.609344), short_text(3.71), speed_text(40.2)) == (
        "1.61 km",
        "3.7 m",
        "40 km/h",
    )
    with shown_in("miles"):
        assert (road_text(1.609344), short_text(3.71), speed_text(40.2)) == (
            "1.00 mi",
            "12 ft",
            "25 mph",
        )
    assert chosen_units() == "metric"


def test_chosen_units_hold_until_others_are_chosen():
    with shown_in("metric"):
        choose_units("miles")
        assert speed_text(100) == "62 mph"


@pytest.mark.parametrize(
    ("units", "metres", "shown"),
    [
        ("metric", 999.4, "999 m"),
        ("metric", 18_489_505.0, "18,489.5 km"),
        ("miles", 1609.0, "5279 ft"),
        ("miles", 1610.0, "1.0 mi"),
    ],
)
def test_distances_are_shown_in_a_unit_of_their_size(units, metres, shown):
    with shown_in(units):
        assert distance_text(metres) == shown


@pytest.mark.parametrize(
    ("units", "name", "shown"),
    [
        ("metric", "0 to 10 mph", "0 to 16 km/h"),
        ("metric", "above 60 mph", "above 97 km/h"),
        ("metric", "2.5 to 30 km/h", "2.5 to 30 km/h"),
        ("miles", "0 to 10 mph", "0 to 10 mph"),
        ("miles", "80 to 100 km/h", "50 to 62 mph"),
    ],
)
def test_limits_of_bins_are_shown_in_the_unit_of_speed(units, name, shown):
    with shown_in(units):
        assert shown_name(name) == shown


def test_edges_are_shown_as_the_names_have_them():
    assert DEFAULT_BINS.shown_edges == ("16", "32", "48", "64", "80", "97")
    with shown_in("miles"):
        assert SpeedBins((10.5, 20.0)).shown_edges == ("10.5", "20")


@pytest.mark.parametrize(("units", "shown"), [("metric", 2), ("miles", 3.218688)])
def test_what_there_is_per_km_is_shown_per_unit_of_roads(units, shown):
    with shown_in(units):
        assert per_road_unit(2) == pytest.approx(shown)


@pytest.mark.parametrize(("units", "shown", "unit"), [("metric", 3.048, "m"), ("miles", 10, "ft")])
def test_short_distances_are_shown_in_their_unit(units, shown, unit):
    with shown_in(units):
        assert (to_short_unit(3.048), short_unit()) == (pytest.approx(shown), unit)
