"""Who may drive on a road, in which direction, and its name, by its tags."""

import numpy as np
import pytest

from roadseg.roads.labels.schemes import read_attributes
from roadseg.roads.labels.traffic import assumed_speeds
from roadseg.roads.options import LabelOptions


def traffic(**tags):
    """Read the traffic of one road."""
    columns = {key: np.array([value], dtype=object) for key, value in tags.items()}
    return read_attributes(columns, 1, LabelOptions()).traffic


def direction(**tags):
    return traffic(**tags).one_way.item()


def is_closed(**tags):
    return traffic(**tags).is_closed.item()


@pytest.mark.parametrize(
    ("key", "said", "way"),
    [
        ("highway", ["yes", "1", "true", True, 1, 1.0, "YES"], 1),
        ("highway", ["-1", "reverse", -1], -1),
        ("highway", ["no", "0", "false", False, None, "", "alternating", "f", "t"], 0),
        ("fclass", ["F"], 1),  # Geofabrik has its own letters.
        ("fclass", ["T"], -1),
        ("fclass", ["B"], 0),
    ],
)
def test_a_road_is_driven_as_it_says(key, said, way):
    assert [direction(**{key: "primary", "oneway": each}) for each in said] == [way] * len(said)


@pytest.mark.parametrize(
    ("tags", "way"),
    [
        ({"highway": "motorway"}, 1),
        ({"highway": "residential", "junction": "roundabout"}, 1),
        ({"highway": "residential", "junction": "circular"}, 1),
        ({"highway": "motorway_link"}, 0),
        ({"highway": "trunk"}, 0),
        ({"highway": "road", "junction": "yes"}, 0),
    ],
)
def test_motorways_and_roundabouts_are_one_way_unless_they_say_no(tags, way):
    assert direction(**tags) == way
    assert direction(**tags, oneway="no") == 0


@pytest.mark.parametrize(
    ("tags", "layer"),
    [
        ({}, 0),
        ({"bridge": "yes"}, 1),
        ({"bridge": "no"}, 0),
        ({"bridge": "viaduct", "layer": "2"}, 2),
        ({"layer": "-1"}, -1),
    ],
)
def test_a_bridge_is_one_layer_up_unless_it_says_otherwise(tags, layer):
    assert traffic(highway="primary", **tags).layer.item() == layer


@pytest.mark.parametrize(
    ("highways", "closed"),
    [
        ("footway path steps cycleway pedestrian bridleway corridor footway;steps", True),
        ("construction proposed busway raceway", True),
        ("motorway living_street service track road footway;service x", False),
    ],
)
def test_classes_that_are_not_for_cars_are_closed(highways, closed):
    assert {is_closed(highway=highway) for highway in highways.split()} == {closed}


def test_a_reversible_lane_is_closed_as_its_direction_is_not_known():
    assert is_closed(highway="primary", oneway="reversible")


@pytest.mark.parametrize(
    ("said", "closed"),
    [
        ("no private agricultural forestry agricultural;forestry psv PRIVATE", True),
        ("yes destination customers permissive no;destination", False),
    ],
)
@pytest.mark.parametrize("key", ["access", "vehicle", "motor_vehicle", "motorcar"])
def test_a_road_that_forbids_cars_is_closed(key, said, closed):
    assert {is_closed(highway="residential", **{key: each}) for each in said.split()} == {closed}


@pytest.mark.parametrize(
    ("tags", "closed"),
    [
        ({"access": "no", "vehicle": "yes"}, False),
        ({"vehicle": "no", "motor_vehicle": "destination"}, False),
        ({"motor_vehicle": "no", "motorcar": "yes"}, False),
        ({"access": "yes", "vehicle": "no"}, True),
        ({"vehicle": "yes", "motor_vehicle": "private"}, True),
        ({"motor_vehicle": "yes", "motorcar": "no"}, True),
    ],
)
def test_the_tag_that_concerns_cars_most_counts(tags, closed):
    assert is_closed(highway="residential", **tags) == closed


@pytest.mark.parametrize("key", ["motor_vehicle", "motorcar"])
def test_a_pedestrian_street_may_be_opened_to_cars(key):
    assert not is_closed(highway="pedestrian", **{key: "yes"})
    assert is_closed(highway="pedestrian", **{key: "destination"})
    assert is_closed(highway="construction", **{key: "yes"})


@pytest.mark.parametrize("key", ["access", "vehicle"])
def test_access_for_all_opens_no_footway_to_cars(key):
    assert is_closed(highway="footway", **{key: "yes"})


def test_the_number_of_a_road_stands_for_its_name():
    assert traffic(highway="motorway", ref="A 5").name.item() == "A 5"
    assert traffic(highway="primary", ref="B 3", name="Dossenheimer Weg").name.item() == (
        "Dossenheimer Weg"
    )
    assert traffic(highway="primary").name.item() == ""


@pytest.mark.parametrize(
    ("tags", "assumed"),
    [
        ({"highway": "primary"}, True),
        ({"name": "a"}, True),
        ({"highway": "primary", "maxspeed": "50"}, False),
        ({"speed_kph": "50"}, False),
        ({"speed_kph": "50", "speed_known": "0"}, True),
        ({"speed_kph": "50", "speed_known": "1"}, False),
    ],
)
def test_the_usual_speed_of_a_class_is_assumed(tags, assumed):
    assert assumed_speeds(traffic(**tags).attributes(), 1).item() == assumed


def test_attributes_say_only_what_there_is_to_say():
    assert traffic(speed_kph="50").attributes() == {}
    said = traffic(highway="residential", maxspeed="50").attributes()
    assert {key: column.tolist() for key, column in said.items()} == {"highway": ["residential"]}


@pytest.mark.parametrize(
    "tags",
    [
        {"highway": "motorway", "oneway": "no", "maxspeed": "80"},
        {"highway": "residential", "oneway": "reverse", "access": "private"},
        {"highway": "pedestrian", "motor_vehicle": "yes", "name": "Marktplatz"},
        {"highway": "residential", "access": "no", "motorcar": "yes", "ref": "L 1"},
    ],
)
def test_attributes_are_read_as_the_tags_were(tags):
    there = traffic(**tags)
    back = traffic(**{key: column[0] for key, column in there.attributes().items()})
    for name in ("highway", "name", "one_way", "is_closed"):
        assert getattr(back, name) == getattr(there, name)
