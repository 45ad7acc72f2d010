import math

import pytest

from roadseg.roads.labels.schemes import lane_count, width_m


@pytest.mark.parametrize(
    ("value", "metres"),
    [
        (7, 7),
        (7.0, 7),
        ("7", 7),
        ("7.5 m", 7.5),
        ("7,5", 7.5),
        ("750 cm", 7.5),
        ("7.5 metres", 7.5),
        ("23 ft", 23 * 0.3048),
        ("23'", 23 * 0.3048),
        ("20'6\"", 6.2484),
        ("20' 6''", 6.2484),
        ("5;6", 6),
        ("narrow;6", 6),
    ],
)
def test_a_width_is_in_metres_unless_it_says_otherwise(value, metres):
    assert width_m(value) == pytest.approx(metres)


@pytest.mark.parametrize(
    "value", [None, math.nan, "", "narrow", "5-6", "~5", "-5", "5 yards", '6"']
)
def test_what_is_no_width_states_none(value):
    assert width_m(value) is None


def test_a_width_below_1_m_is_a_mistake():
    assert (width_m(1), width_m(0.99), width_m(0)) == (1, None, None)


def test_a_width_above_100_m_is_a_mistake():
    assert (width_m(100), width_m(100.1)) == (100, None)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("2", 2),
        (3, 3),
        (2.0, 2),
        ("1.5", 1.5),
        ("2;3", 3),
        ("3; 2", 3),
        ("2|4", 4),
        ("['1', '2']", 2),
    ],
)
def test_the_larger_number_of_lanes_counts(value, count):
    assert lane_count(value) == count


@pytest.mark.parametrize("value", [None, math.nan, "", "None", "two", "-1", "2+1", "inf"])
def test_what_is_no_number_of_lanes_states_none(value):
    assert lane_count(value) is None


def test_there_are_1_to_16_lanes():
    assert [lane_count(n) for n in (0, 0.5, 1, 16, 17)] == [None, None, 1, 16, None]
