import math

import numpy as np
import pytest

from roadseg.core.speeds import (
    BAND_NAMES,
    BIN_SPEEDS_MPH,
    BINS,
    is_no_road,
    number,
    road_speed,
    speed_bin,
)


def mph(**properties):
    return road_speed(properties, default_mph=25).mph


def source(**properties):
    return road_speed(properties, default_mph=25).source


@pytest.mark.parametrize(
    ("road_type", "two_lanes", "three_lanes"),
    [(1, 55, 65), (2, 45, 55), (3, 35, 45), (4, 30, 35), (5, 25, 30), (6, 20, 20), (7, 20, 20)],
)
def test_road_types_have_the_speeds_of_cresi(road_type, two_lanes, three_lanes):
    assert mph(road_type=str(road_type), lane_number="2") == two_lanes
    assert mph(road_type=str(road_type), lane_number="3") == three_lanes


@pytest.mark.parametrize("key", ["lane_number", "lane_numbe", "lanes"])
def test_lanes_count_under_each_spelling(key):
    assert mph(road_type="1", **{key: "4"}) == 65


@pytest.mark.parametrize("lanes", [None, "None", "", math.nan, "0"])
def test_unknown_lanes_are_few_lanes(lanes):
    assert mph(road_type="1", lane_number=lanes) == 55


@pytest.mark.parametrize("road_type", [5, 5.0, "5", " 5 ", np.int64(5)])
def test_a_road_type_may_be_a_number_or_a_string(road_type):
    assert mph(road_type=road_type) == 25


def test_an_unpaved_road_has_three_quarters_of_the_speed():
    assert mph(road_type="3", paved="2") == 0.75 * 35


@pytest.mark.parametrize("paved", ["1", "3", None])
def test_a_road_not_known_as_unpaved_has_the_full_speed(paved):
    assert mph(road_type="3", paved=paved) == 35


@pytest.mark.parametrize(("surface", "speed"), [("gravel", 18.75), ("asphalt", 25), (None, 25)])
def test_a_loose_surface_slows_down(surface, speed):
    assert mph(highway="residential", surface=surface) == speed


def test_a_stated_speed_is_not_slowed_down():
    assert mph(speed_mph=40, road_type="1", paved="2") == 40


@pytest.mark.parametrize(
    ("maxspeed", "speed"),
    [
        ("50", 50 / 1.609344),
        (80, 80 / 1.609344),
        ("50 km/h", 50 / 1.609344),
        ("30 mph", 30),
        ("30mph", 30),
        ("7.5 mph", 7.5),
    ],
)
def test_a_maxspeed_is_in_km_per_hour_unless_it_says_mph(maxspeed, speed):
    assert mph(maxspeed=maxspeed) == pytest.approx(speed)


@pytest.mark.parametrize("maxspeed", ["walk", "none", "50;30", "DE:urban", "0", "-5", "", None])
def test_a_maxspeed_that_is_no_speed_is_passed_over(maxspeed):
    assert road_speed({"maxspeed": maxspeed, "highway": "primary"}, default_mph=25) == (
        45,
        "highway",
    )


@pytest.mark.parametrize(
    ("highway", "speed"),
    [("motorway", 55), ("motorway_link", 55), ("tertiary", 30), ("living_street", 25)],
)
def test_a_highway_has_the_speed_of_its_type(highway, speed):
    assert mph(highway=highway) == speed


def test_keys_are_asked_in_their_order():
    labels = {
        "inferred_speed_mph": 41,
        "speed_mph": 42,
        "maxspeed": "43 mph",
        "road_type": 2,
        "highway": "motorway",
    }
    asked = []
    while labels:
        asked.append(source(**labels))
        del labels[asked[-1]]
    assert asked == ["inferred_speed_mph", "speed_mph", "maxspeed", "road_type", "highway"]


@pytest.mark.parametrize("speed", ["0", -1, "fast", None, math.nan, "inf"])
def test_an_impossible_speed_is_passed_over(speed):
    assert road_speed({"speed_mph": speed}, default_mph=25) == (25, "default")


@pytest.mark.parametrize("road_type", ["0", "8", "motorway", None])
def test_an_unknown_road_type_has_the_default_speed(road_type):
    assert road_speed({"road_type": road_type}, default_mph=33) == (33, "default")


@pytest.mark.parametrize(
    ("speed", "expected"),
    [(0.1, 1), (10, 1), (10.1, 2), (20, 2), (20.1, 3), (60, 6), (60.1, 7), (61, 7), (65, 7)],
)
def test_a_limit_belongs_to_the_lower_bin(speed, expected):
    assert speed_bin(speed) == expected


def test_bins_of_many_speeds_are_bytes():
    bins = speed_bin([5, 25, 1000])
    assert bins.dtype == np.uint8
    assert bins.tolist() == [1, 3, 7]


def test_no_speeds_have_no_bins():
    assert speed_bin([]).tolist() == []


@pytest.mark.parametrize("speed", [0, -1, math.nan])
def test_a_speed_that_is_not_above_0_has_no_bin(speed):
    with pytest.raises(ValueError, match="a speed must be above 0 mph, got"):
        speed_bin([30, speed])


def test_the_middle_speed_of_a_bin_lies_in_it():
    assert speed_bin(BIN_SPEEDS_MPH).tolist() == list(range(1, BINS + 1))


def test_band_names_say_the_speeds_of_the_bins():
    assert BAND_NAMES[0] == "speed_1_to_10_mph"
    assert BAND_NAMES[5:] == ("speed_51_to_60_mph", "speed_above_60_mph", "road")


@pytest.mark.parametrize(("text", "value"), [("2.5", 2.5), (3, 3.0), ("x", None), ("nan", None)])
def test_a_number_may_be_a_string(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("highway", "claim"),
    [("footway", True), ("construction", True), ("residential", False), (None, False)],
)
def test_a_way_that_is_not_for_cars_is_no_road(highway, claim):
    assert is_no_road(highway) == claim
