import numpy as np
import pytest

from roadseg.roads.labels.highways import classify, highway_class, highway_of, is_unpaved, usual_mph
from roadseg.roads.speeds import KPH_PER_MPH


def usual(road_type, lanes=np.nan, *, unpaved=False):
    return usual_mph(np.array([road_type]), np.array([lanes]), np.array([unpaved]))[0]


@pytest.mark.parametrize(
    ("road_type", "two_lanes", "three_lanes"),
    [(1, 55, 65), (2, 45, 55), (3, 35, 45), (4, 30, 35), (5, 25, 30), (6, 20, 20), (7, 20, 20)]
    + [(unknown, np.nan, np.nan) for unknown in (0.0, 8.0, 1.5, -1.0, np.nan)],
)
def test_road_types_have_the_speeds_of_cresi(road_type, two_lanes, three_lanes):
    found = [usual(road_type, lanes) for lanes in (2.0, np.nan, 3.0)]  # Unknown lanes are few.
    assert found == pytest.approx([two_lanes, two_lanes, three_lanes], nan_ok=True)
    assert usual(road_type, unpaved=True) == pytest.approx(0.75 * two_lanes, nan_ok=True)


@pytest.mark.parametrize(
    ("highway", "expected"),
    [
        ("primary", "primary"),
        ("primary_link", "primary"),
        ("track_grade2", "track"),
        ("residential;service", "residential"),
        ("footway; service", "service"),
        ("footway;cycleway", "footway"),
        ("", ""),
    ],
)
def test_the_class_of_a_highway(highway, expected):
    assert highway_class(highway) == expected


@pytest.mark.parametrize("road_type", range(1, 8))
def test_a_road_of_a_usual_speed_gets_a_class_of_that_speed(road_type):
    mph = usual(road_type)
    classes = highway_of([mph * KPH_PER_MPH])
    assert usual(classify(classes, ()).road_type[0]) == mph


@pytest.mark.parametrize(
    ("mph", "expected"),
    [
        (1, "unclassified"),
        (22.5, "unclassified"),
        (22.6, "residential"),
        (27.5, "residential"),
        (27.6, "tertiary"),
        (32.5, "tertiary"),
        (32.6, "secondary"),
        (40, "secondary"),
        (40.1, "primary"),
        (50, "primary"),
        (50.1, "trunk"),
        (80, "trunk"),
    ],
)
def test_the_class_of_a_speed_is_the_nearest_and_of_two_the_slower(mph, expected):
    assert highway_of(mph * KPH_PER_MPH) == expected


def test_roads_without_speed_are_just_roads():
    assert highway_of([np.nan, 0, -1, 30]).tolist() == ["road", "road", "road", "unclassified"]


def test_highways_have_the_types_of_the_spacenet_labellers():
    classes = classify(np.array(["trunk_link", "living_street", "", "residential", "stop"]), ())
    np.testing.assert_array_equal(classes.road_type, [1, 5, np.nan, 5, np.nan])


def test_a_highway_is_excluded_by_its_name_or_its_class():
    highways = np.array(["motorway", "motorway_link", "trunk", "trunk_link", ""])
    classes = classify(highways, {"Motorway", "trunk_link"})
    assert classes.is_excluded.tolist() == [True, True, False, True, False]
    assert classes.is_motorway.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("surface", "claim"),
    [
        ("gravel", True),
        ("sand; dirt", True),
        ("asphalt;gravel", False),
        ("paved", False),
        ("cobblestone", False),
        ("", False),
    ],
)
def test_a_surface_is_unpaved_if_it_is_named_so(surface, claim):
    assert is_unpaved(surface) == claim
