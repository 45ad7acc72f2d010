import numpy as np
import pytest

from roadseg.roads.labels.schemes import choose_scheme, read_attributes, stated_travel, wanted_keys
from roadseg.roads.options import LabelOptions
from roadseg.roads.speeds import KPH_PER_MPH


def read(scheme="auto", features=1, /, *, columns=None, **options):
    """Read features whose attributes are given as lists."""
    found = {key: np.array(values, dtype=object) for key, values in (columns or {}).items()}
    return read_attributes(found, features, LabelOptions(scheme=scheme, **options))


def one(scheme, **values):
    """Return speed in mph and source of one feature."""
    found = read(
        scheme, columns={key: [value] for key, value in values.items()}, default_speed_mph=33
    )
    return found.mph[0], found.source[0]


def width(values, rule, **options):
    """Return the width of one feature."""
    columns = {key: [value] for key, value in values.items()}
    return read("auto", columns=columns, width=rule, buffer_m=2.25, **options).width_m[0]


def reason(scheme, /, values, **options):
    """Say why one feature is left out."""
    columns = {key: [value] for key, value in values.items()}
    return read(scheme, columns=columns, **options).left_out[0]


@pytest.mark.parametrize(
    ("keys", "scheme"),
    [
        (["road_type", "highway"], "spacenet"),
        (["highway", "inferred_speed_mph"], "spacenet"),
        (["speed_mph"], "spacenet"),
        (["inferred_speed_mps"], "spacenet"),
        (["speed_m/s"], "spacenet"),
        (["highway", "speed_kph"], "osm"),
        (["name", "other_tags"], "osm"),
        (["fclass"], "osm"),
        (["name", "maxspeed"], "osm"),
        (["u", "v", "speed_kph"], "attribute"),
        (["type", "name"], "constant"),
        ([], "constant"),
    ],
)
def test_a_scheme_is_chosen_by_the_keys(keys, scheme):
    assert choose_scheme(keys) == scheme


@pytest.mark.parametrize(
    ("scheme", "values"),
    [
        (
            "spacenet",
            {
                "inferred_speed_mph": 41,
                "speed_mph": "42",
                "inferred_speed_mps": 20,
                "speed_m/s": 21.0,
                "road_type": "2",
                "highway": "motorway",
            },
        ),
        (
            "osm",
            {
                "maxspeed": "30",
                "maxspeed:forward": "60",
                "maxspeed:backward": "50",
                "zone:maxspeed": "DE:30",
                "source:maxspeed": "DE:rural",
                "maxspeed:type": "GB:nsl_dual",
                "highway": "primary",
            },
        ),
    ],
)
def test_keys_are_asked_in_their_order(scheme, values):
    left, asked = dict(values), []
    while left:
        asked.append(one(scheme, **left)[1])
        del left[asked[-1]]
    assert asked == list(values)


@pytest.mark.parametrize(
    ("values", "mph", "source"),
    [
        ({"speed_mph": "45"}, 45, "speed_mph"),
        ({"speed_m/s": 20.1168}, 45, "speed_m/s"),
        ({"speed_mph": 40, "road_type": "1", "paved": "2"}, 40, "speed_mph"),  # not slowed down
        *(
            ({"speed_mph": impossible, "road_type": "5"}, 25, "road_type")
            for impossible in ("0", -1, "fast", None, np.nan, "inf", 999)
        ),
        *(({"road_type": five}, 25, "road_type") for five in (5, 5.0, "5", " 5 ", np.int64(5))),
        *(
            ({"road_type": unknown}, 33, "default")
            for unknown in ("0", "8", "motorway", None, np.nan)
        ),
        ({"road_type": "3", "paved": "1"}, 35, "road_type"),
        ({"road_type": "3", "paved": "2"}, 26.25, "road_type"),
        ({"road_type": "3", "paved": 2.0}, 26.25, "road_type"),
        ({"road_type": "3", "paved": "3"}, 35, "road_type"),  # unknown
        ({"highway": "primary_link", "lanes": "3", "surface": "unpaved"}, 41.25, "highway"),
    ],
)
def test_a_road_of_spacenet_has_a_speed(values, mph, source):
    assert one("spacenet", **values) == (pytest.approx(mph), source)


SLOW, FAST = "30 mph", "40 mph"


@pytest.mark.parametrize(
    ("values", "mph", "source"),
    [
        ({"maxspeed:forward": SLOW, "maxspeed:backward": FAST}, 40, "maxspeed:backward"),
        ({"maxspeed:forward": FAST, "maxspeed:backward": SLOW}, 40, "maxspeed:forward"),
        *(
            ({"maxspeed": none, "highway": "primary"}, 45, "highway")
            for none in ("signals", "variable", "XX:urban", "0", "fast", "", None)
        ),
        ({"highway": "motorway"}, 55, "highway"),
        ({"highway": "motorway_link"}, 55, "highway"),
        ({"highway": "tertiary"}, 30, "highway"),
        ({"highway": "living_street"}, 25, "highway"),
        ({"highway": "residential", "surface": "gravel"}, 18.75, "highway"),
        ({"highway": "residential", "surface": "Asphalt"}, 25, "highway"),
        ({"highway": "residential", "surface": None}, 25, "highway"),
        ({"highway": "busway"}, 33, "default"),
    ],
)
def test_a_road_of_osm_has_a_speed(values, mph, source):
    assert one("osm", **values) == (pytest.approx(mph), source)


@pytest.mark.parametrize(
    ("values", "mph", "source"),
    [
        ({"speed_kph": "80.4672", "inferred_speed_mph": 30}, 50, "speed_kph"),
        ({"speed_kph": 0, "inferred_speed_mph": 30}, 30, "inferred_speed_mph"),
        ({"speed_kph": 80.4672, "maxspeed": SLOW, "highway": "road"}, 50, "speed_kph"),
        ({"speed_kph": None, "maxspeed": SLOW, "highway": "road"}, 30, "maxspeed"),
    ],
)
def test_the_speed_of_a_graph_counts_before_all_others(values, mph, source):
    assert one("auto", **values) == (pytest.approx(mph), source)


def test_tags_of_a_pbf_count_as_columns():
    tags = r'"maxspeed"=>"30 mph","note"=>"\"a\"","lanes"=>"3","tunnel"=>"yes"'
    found = read("auto", columns={"highway": ["primary"], "other_tags": [tags]}, width="lanes")
    assert (found.mph[0], found.source[0]) == (30, "maxspeed")
    assert (found.width_m[0], found.left_out[0]) == (10.5, "tunnel")


@pytest.mark.parametrize(
    ("value", "mph"), [(50, 50 / KPH_PER_MPH), ("50", 50 / KPH_PER_MPH), ("50 mph", 50)]
)
def test_a_speed_attribute_is_in_its_unit_unless_it_names_one(value, mph):
    found = read("attribute", columns={"v": [value]}, speed_key="v", speed_unit="km/h")
    assert (found.mph[0], found.source[0]) == (pytest.approx(mph), "v")


@pytest.mark.parametrize("value", [None, np.nan, "", "fast", 0])
def test_a_missing_speed_is_the_default(value):
    found = read("attribute", columns={"v": [value]}, speed_key="v", default_speed_mph=33)
    assert (found.mph[0], found.source[0]) == (33, "default")


def test_a_constant_speed_is_that_of_all():
    columns = {"maxspeed": ["50", "30"], "speed_kph": [50.0, 30.0]}
    found = read("constant", 2, columns=columns, default_speed_mph=33)
    assert found.mph.tolist() == [33, 33]
    assert found.source.tolist() == ["default", "default"]


@pytest.mark.parametrize("scheme", ["spacenet", "osm", "attribute", "constant"])
def test_by_every_scheme_a_footway_is_not_for_cars(scheme):
    key = {"speed_key": "v"} if scheme == "attribute" else {}
    assert reason(scheme, {"highway": "footway", "v": 5}, **key) == "not for cars"
    assert reason(scheme, {"highway": "service", "v": 5}, **key) == ""


@pytest.mark.parametrize(
    ("scheme", "values", "options", "told"),
    [
        ("spacenet", {"highway": None, "road_type": "5"}, {}, ""),
        ("osm", {"highway": "footway"}, {"exclude": ("motorway",)}, ""),
        ("osm", {"highway": "motorway_link"}, {"exclude": ("motorway",)}, "not for cars"),
        ("osm", {"highway": "primary", "tunnel": "yes"}, {"tunnels": True}, ""),
        *(("osm", {"highway": none}, {}, "no highway tag") for none in (None, "", np.nan)),
        ("osm", {"highway": None, "speed_kph": None}, {}, ""),  # a graph with speeds
        ("osm", {"maxspeed": "50"}, {}, ""),  # a file without classes
    ],
)
def test_roads_are_left_out_for_a_reason(scheme, values, options, told):
    assert reason(scheme, values, **options) == told


@pytest.mark.parametrize(
    ("tunnels", "told"),
    [
        (["yes", "building_passage", 1, "1", "T", True], "tunnel"),
        ([None, "", "no", 0, "0", 0.0, "F", False, "culvert"], ""),
    ],
)
def test_a_tunnel_is_left_out(tunnels, told):
    for tunnel in tunnels:
        assert reason("osm", {"highway": "primary", "tunnel": tunnel}) == told, tunnel


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({"travel_time_s": 7, "travel_time": 9}, 7),
        ({"travel_time_s": None, "travel_time": "9.5"}, 9.5),
        ({"travel_time_s": 0, "travel_time": 9}, 9),
        ({"travel_tim": 9}, 9),  # as a Shapefile cuts it
        ({"travel_time": -1}, np.nan),
        ({"travel_time": "inf"}, np.nan),
        ({"highway": "primary"}, np.nan),
    ],
)
def test_a_travel_time_is_the_first_that_is_stated(values, seconds):
    columns = {key: np.array([value], dtype=object) for key, value in values.items()}
    assert stated_travel(columns, 1)[1] == pytest.approx([seconds], nan_ok=True)


@pytest.mark.parametrize(
    ("columns", "kph"),
    [
        *(({"speed_kph": np.array([kph])}, kph) for kph in (40.2336, 50.0, 33.3333333)),
        ({"name": np.array(["A 5"])}, np.nan),
    ],
)
def test_a_stated_speed_comes_back_as_it_was(columns, kph):
    np.testing.assert_array_equal(stated_travel(columns, 1)[0], [kph])


@pytest.mark.parametrize(
    ("values", "rule", "options", "metres"),
    [
        ({"width": "9", "lanes": "3"}, "constant", {}, 4.5),
        ({"name": "a"}, "attribute", {}, 4.5),
        *(
            ({"w": value}, "attribute", {"width_key": "w"}, metres)
            for value, metres in (("7.5 m", 7.5), (12.4, 12.4), (None, 4.5), ("?", 4.5))
        ),
        ({"road_type": "5", "lane_numbe": "3"}, "lanes", {}, 10.5),
        ({"highway": "primary", "lanes": "1.5"}, "lanes", {}, 5.25),
        *(({"highway": "primary", "oneway": way}, "lanes", {}, 3.5) for way in ("yes", "-1")),
        ({"highway": "primary", "oneway": "yes", "lanes": "3"}, "lanes", {}, 10.5),
        ({"highway": "primary"}, "lanes", {}, 7),
        ({"road_type": "5", "lanes": None}, "lanes", {}, 7),
        ({"road_type": "5"}, "lanes", {}, 4.5),
        ({"name": "a"}, "lanes", {}, 4.5),
        ({"oneway": "yes"}, "lanes", {}, 4.5),
    ],
)
def test_a_road_is_as_wide_as_the_rule_says(values, rule, options, metres):
    assert width(values, rule, **options) == metres


def test_only_keys_that_are_read_are_wanted():
    keys = ["osm_id", "name", "lanes", "highway", "width", "maxspeed", "tunnel"]
    usual = ["name", "lanes", "highway", "maxspeed", "tunnel"]
    assert wanted_keys(keys, LabelOptions()) == usual
    assert wanted_keys(keys, LabelOptions(scheme="constant")) == ["name", "highway", "tunnel"]
    assert wanted_keys(keys, LabelOptions(scheme="constant", width="attribute")) == [
        "name",
        "highway",
        "width",
        "tunnel",
    ]
