import math

import pytest

from roadseg.roads.labels.schemes import lane_count, width_m


@pytest.mark.parametrize(
    ("values", "metres"),
    [
        ([7, 7.0, "7"], 7),
        (["7.5 m", "7,5", "750 cm", "7.5 metres"], 7.5),
        (["23 ft", "23'"], 23 * 0.3048),
        (["20'6\"", "20' 6''"], 6.2484),
        (["5;6", "narrow;6"], 6),
        ([1], 1),
        ([100], 100),
    ],
)
def test_a_width_is_in_metres_unless_it_says_otherwise(values, metres):
    assert [width_m(value) for value in values] == pytest.approx([metres] * len(values))


@pytest.mark.parametrize(
    "value",
    [None, math.nan, "", "narrow", "5-6", "~5", "-5", "5 yards", '6"', 0, 0.99, 100.1],
)
def test_what_is_no_width_or_a_mistake_states_none(value):
    assert width_m(value) is None


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([1], 1),
        (["1.5"], 1.5),
        (["2", 2.0, "['1', '2']"], 2),
        ([3, "2;3", "3; 2"], 3),
        (["2|4"], 4),
        ([16], 16),
        ([None, math.nan, "", "None", "two", "-1", "2+1", "inf", 0, 0.5, 17], None),
    ],
)
def test_the_larger_number_of_lanes_from_1_to_16_counts(values, count):
    assert [lane_count(value) for value in values] == [count] * len(values)
