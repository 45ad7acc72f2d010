import numpy as np
import pytest

from roadseg.roads.labels.overture import is_segments, segment_columns, segment_tags


def tags(**segment):
    """Return the tags of a road with further columns that are not None."""
    segment = {"subtype": "road", "class": "primary", **segment}
    columns = {}
    for key, value in segment.items():
        columns[key] = np.empty(1, dtype=object)
        columns[key][0] = value
    return {
        key: column[0] for key, column in segment_tags(columns, 1).items() if column[0] is not None
    }


def test_segments_are_known_by_their_columns():
    assert is_segments(["id", "subtype", "class", "connectors"])
    assert not is_segments(["id", "subtype", "class"])
    assert segment_columns(["id", "class", "names", "bbox"]) == ["id", "class", "names"]


@pytest.mark.parametrize(
    ("segment", "highway"),
    [
        ({"class": "residential"}, "residential"),
        ({"class": "unknown"}, "road"),
        ({"road_flags": [{"values": ["is_link"], "between": None}]}, "primary_link"),
        ({"road_flags": [{"values": ["is_link"], "between": [0, 0.5]}]}, "primary"),
        ({"subtype": "rail", "class": "standard_gauge"}, None),
        ({"class": None}, None),
    ],
)
def test_a_class_is_a_highway(segment, highway):
    assert tags(**segment).get("highway") == highway


def limit(value, **rule):
    return {"max_speed": {"value": value, "unit": "km/h"}, **rule}


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ([limit(50)], "50 km/h"),
        ([{"max_speed": {"value": 30, "unit": "mph"}}], "30 mph"),
        ([limit(30, when={"during": "Mo-Fr"}), limit(50)], "50 km/h"),
        ([limit(30, when={"mode": ["hgv"]}), limit(50)], "50 km/h"),
        ([limit(30, when={"mode": ["motor_vehicle"]}), limit(50)], "30 km/h"),
        ([{"max_speed": None, "min_speed": {"value": 60, "unit": "km/h"}}], None),
    ],
)
def test_the_first_limit_for_cars_that_always_holds_counts(limits, text):
    assert tags(speed_limits=limits).get("maxspeed") == text


def denied(**when):
    return {"access_type": "denied", "when": when or None}


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (None, {"oneway": "no"}),
        ([denied(heading="backward")], {"oneway": "yes"}),
        ([denied(heading="forward")], {"oneway": "-1"}),
        ([denied()], {"motor_vehicle": "no"}),
        ([denied(mode=["motor_vehicle"])], {"motor_vehicle": "no"}),
        ([denied(mode=["bicycle"])], {"oneway": "no"}),
        ([denied(during="22:00-06:00")], {"oneway": "no"}),
        ([denied(recognized=["as_private"])], {"oneway": "no"}),
        ([denied(heading="backward") | {"between": [0, 0.1]}], {"oneway": "no"}),
        ([{"access_type": "allowed", "when": {"heading": "forward"}}], {"oneway": "no"}),
    ],
)
def test_restrictions_say_who_may_drive_where(rules, found):
    said = tags(access_restrictions=rules)
    assert {key: said[key] for key in ("oneway", "motor_vehicle") if key in said} == found


def test_names_and_flags_are_tags():
    flags = [{"values": ["is_tunnel", "is_bridge"], "between": None}]
    said = tags(names={"primary": "High Street"}, road_flags=flags)
    assert (said["name"], said["tunnel"], said["bridge"]) == ("High Street", "yes", "yes")
