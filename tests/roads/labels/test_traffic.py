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


@pytest.mark.parametrize("said", ["yes", "1", "true", True, 1, 1.0, "YES"])
def test_a_one_way_road_is_driven_along_its_line(said):
    assert direction(highway="primary", oneway=said) == 1


@pytest.mark.parametrize("said", ["-1", "reverse", -1])
def test_a_road_may_be_one_way_against_its_line(said):
    assert direction(highway="primary", oneway=said) == -1


@pytest.mark.parametrize("said", ["no", "0", "false", False, None, "", "alternating", "f", "t"])
def test_other_roads_are_driven_both_ways(said):
    assert direction(highway="primary", oneway=said) == 0


@pytest.mark.parametrize(
    "tags",
    [
        {"highway": "motorway"},
        {"highway": "residential", "junction": "roundabout"},
        {"highway": "residential", "junction": "circular"},
    ],
)
def test_motorways_and_roundabouts_are_one_way_unless_they_say_no(tags):
    assert direction(**tags) == 1
    assert direction(**tags, oneway="no") == 0


@pytest.mark.parametrize(
    "tags",
    [{"highway": "motorway_link"}, {"highway": "trunk"}, {"highway": "road", "junction": "yes"}],
)
def test_other_classes_and_junctions_imply_no_direction(tags):
    assert direction(**tags) == 0


@pytest.mark.parametrize(("said", "way"), [("F", 1), ("T", -1), ("B", 0)])
def test_geofabrik_has_its_own_letters(said, way):
    assert direction(fclass="primary", oneway=said) == way


def test_a_reversible_lane_is_closed_as_its_direction_is_not_known():
    assert is_closed(highway="primary", oneway="reversible")


@pytest.mark.parametrize(
    "highway",
    [
        *("footway", "path", "steps", "cycleway", "pedestrian", "bridleway", "corridor"),
        *("construction", "proposed", "busway", "raceway", "footway;steps"),
    ],
)
def test_classes_that_are_not_for_cars_are_closed(highway):
    assert is_closed(highway=highway)


@pytest.mark.parametrize(
    "highway", ["motorway", "living_street", "service", "track", "road", "footway;service", "x"]
)
def test_other_classes_are_open(highway):
    assert not is_closed(highway=highway)


@pytest.mark.parametrize(
    "said", ["no", "private", "agricultural", "forestry", "agricultural;forestry", "psv", "PRIVATE"]
)
@pytest.mark.parametrize("key", ["access", "vehicle", "motor_vehicle", "motorcar"])
def test_a_road_that_forbids_cars_is_closed(key, said):
    assert is_closed(highway="residential", **{key: said})


@pytest.mark.parametrize(
    "said", ["yes", "destination", "customers", "permissive", "no;destination"]
)
@pytest.mark.parametrize("key", ["access", "vehicle", "motor_vehicle", "motorcar"])
def test_a_road_that_lets_cars_to_their_destination_is_open(key, said):
    assert not is_closed(highway="residential", **{key: said})


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


def test_tags_among_other_tags_count_as_columns():
    packed = '"oneway"=>"-1","motor_vehicle"=>"no","ref"=>"B 3"'
    found = traffic(highway="primary", other_tags=packed)
    assert (found.one_way.item(), found.is_closed.item(), found.name.item()) == (-1, True, "B 3")


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
