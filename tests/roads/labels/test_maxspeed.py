import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roadseg.roads.labels.maxspeed import maxspeed_mph
from roadseg.roads.speeds import KPH_PER_MPH, MPH_PER


def kph(value):
    return maxspeed_mph(value) * KPH_PER_MPH


@pytest.mark.parametrize(
    "value",
    [
        "50",
        " 50 ",
        "50.0",
        "50 km/h",
        "50km/h",
        "50 KM/H",
        "50 kmh",
        "50kph",
        50,
        50.0,
        np.int32(50),
    ],
)
def test_a_number_is_in_km_per_hour(value):
    assert kph(value) == pytest.approx(50)


@pytest.mark.parametrize(
    ("value", "mph"),
    [("30 mph", 30), ("30mph", 30), ("7.5 MPH", 7.5), ("10 m/s", 10 * MPH_PER["m/s"])],
)
def test_a_unit_is_heeded(value, mph):
    assert maxspeed_mph(value) == pytest.approx(mph)


def test_a_knot_is_1852_metres_an_hour():
    assert kph("10 knots") == pytest.approx(18.52)


def test_a_number_without_unit_is_in_the_unit_of_the_caller():
    assert maxspeed_mph("45", unit="mph") == 45
    assert maxspeed_mph("50 km/h", unit="mph") == pytest.approx(50 / KPH_PER_MPH)


@pytest.mark.parametrize(("word", "limit"), [("walk", 7), ("none", 130)])  # as Germany advises
def test_some_words_are_speeds(word, limit):
    assert kph(word) == pytest.approx(limit)


@pytest.mark.parametrize(
    "value", ["50;30", "30; 50", "50|30", "50,30", "['50', '30']", "50;signals"]
)
def test_the_fastest_of_a_list_counts(value):
    assert kph(value) == pytest.approx(50)


def test_each_value_of_a_list_has_its_own_unit():
    assert kph("50; 30 mph") == pytest.approx(50)
    assert maxspeed_mph("50; 35 mph") == pytest.approx(35)


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("DE:urban", 50),
        ("DE:rural", 100),
        ("DE:motorway", 130),
        ("DE:living_street", 7),
        ("de:urban", 50),
        ("RU:urban", 60),
        ("RU:living_street", 20),
        ("RO:trunk", 100),
        ("FR:urban", 50),
        ("FR:rural", 80),
        ("IT:rural", 90),
        ("CH:motorway", 120),
        ("BE-VLG:rural", 70),
        ("BE:VLG:rural", 70),
        ("UZ:urban", 70),
        ("DE:bicycle_road", 30),
    ],
)
def test_a_country_code_is_the_limit_of_that_country(code, limit):
    assert kph(code) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("code", "mph"),
    [("GB:nsl_single", 60), ("GB:nsl_dual", 70), ("UK:motorway", 70), ("GB:nsl_restricted", 30)],
)
def test_british_limits_are_in_mph(code, mph):
    assert maxspeed_mph(code) == pytest.approx(mph)


@pytest.mark.parametrize(
    "code", ["DE:zone30", "DE:zone:30", "DE:30", "zone:30", "zone30", "AU:zone30"]
)
def test_a_zone_has_the_speed_of_its_number(code):
    assert kph(code) == pytest.approx(30)


@pytest.mark.parametrize("code", ["GB:zone:20", "GB:20 mph", "GB:20_mph", "US:20"])
def test_a_zone_of_a_country_with_miles_is_in_mph(code):
    assert maxspeed_mph(code) == pytest.approx(20)


@pytest.mark.parametrize(
    "value",
    [
        *("BE:rural", "US:CA:urban", "US:urban", "XX:urban", "DE:school"),  # not known
        *("DE:274", "DE:274-70", "DE:sign:274-70", "DE:zone"),  # of traffic signs
        *(0, "0", "0 mph", "0.0", -5, "-5", False, True),
        *(None, math.nan, np.nan, "", " ", "None", "nan", "<NA>"),
        "signals",
        "variable",
        "sign",
        "fast",
        "50 (wet)",
        "~50",
        "50 furlongs",
        "1e2",
        "inf",
        ";",
        "[",
    ],
)
def test_what_is_no_speed_states_none(value):
    assert maxspeed_mph(value) is None


def test_300_km_per_hour_is_a_speed_and_301_a_mistake():
    assert kph("300") == pytest.approx(300)
    assert maxspeed_mph("301") is None
    assert maxspeed_mph("187 mph") is None


@example(300.0)
@given(st.one_of(st.text(), st.floats(), st.integers(), st.binary(), st.lists(st.text())))
def test_nothing_raises_and_what_is_found_can_be_driven(value):
    mph = maxspeed_mph(value)
    assert mph is None or 0 < mph <= 300 / KPH_PER_MPH + 1e-9


@given(st.integers(1, 186))
def test_a_speed_in_mph_stays_what_it_is(mph):
    assert maxspeed_mph(f"{mph} mph") == mph
