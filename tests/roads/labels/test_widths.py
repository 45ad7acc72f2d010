import math

import numpy as np
import pytest

from roadseg.roads.labels.tags import read_tags
from roadseg.roads.labels.widths import lane_count, road_lanes, stated_lanes, width_m


def lanes(**columns):
    """Return the lanes of one feature."""
    found = {key: np.array([value], dtype=object) for key, value in columns.items()}
    return road_lanes(read_tags(found, 1, found))[0]


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


@pytest.mark.parametrize("key", ["lane_number", "lane_numbe", "lanes"])
def test_lanes_are_stated_under_each_spelling(key):
    assert lanes(**{key: "3"}) == 3


def test_one_spelling_fills_the_gaps_of_another():
    columns = {"lane_number": np.array(["3", None]), "lane_numbe": np.array(["4", "2"])}
    assert stated_lanes(read_tags(columns, 2, columns)).tolist() == [3, 2]


@pytest.mark.parametrize("oneway", ["yes", "1", 1, "true", True, "-1", 1.0])
def test_a_one_way_road_has_one_lane(oneway):
    assert lanes(highway="residential", oneway=oneway) == 1


@pytest.mark.parametrize("oneway", ["no", "0", 0, None, "reversible", "f", "t"])
def test_a_road_that_is_not_one_way_has_two_lanes(oneway):
    assert lanes(highway="residential", oneway=oneway) == 2


@pytest.mark.parametrize(("oneway", "count"), [("F", 1), ("T", 1), ("B", 2)])
def test_geofabrik_has_its_own_letters_for_one_way(oneway, count):
    assert lanes(fclass="residential", oneway=oneway) == count


@pytest.mark.parametrize("highway", ["motorway", "motorway_link"])
def test_a_motorway_is_one_way_unless_it_says_no(highway):
    assert lanes(highway=highway) == 1
    assert lanes(highway=highway, oneway="no") == 2


@pytest.mark.parametrize(("junction", "count"), [("roundabout", 1), ("circular", 1), ("yes", 2)])
def test_a_roundabout_is_one_way(junction, count):
    assert lanes(highway="primary", junction=junction) == count


def test_stated_lanes_win_over_direction():
    assert lanes(highway="primary", oneway="yes", lanes="3") == 3


def test_a_file_without_lanes_and_classes_has_unknown_lanes():
    assert math.isnan(lanes(oneway="yes"))
