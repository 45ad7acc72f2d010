"""route on the command line: places with minus signs, JSON, errors in one line."""

import json

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.system.units import chosen_units, shown_in

PLACE = np.array([601_000.0, 4_120_000.0])  # California, -121.86, 37.22
LINES = [[(0, 0), (400, 0)], [(0, 900), (400, 900)]]
FROM, TO = "-121.8606,37.2209", "-121.8585,37.2209"


@pytest.fixture
def call(call, tmp_path):
    """Give a function that runs the command line in a folder with a graph."""
    lines = np.array([shapely.LineString(np.add(line, PLACE)) for line in LINES])
    graph = graph_from_lines(lines, CRS.from_epsg(32610))
    write_gpkg(tmp_path / "a.gpkg", add_travel(graph, np.array([36.0, 36.0])))
    return call


@pytest.mark.parametrize("ends", [("--from", FROM, "--to", TO), (f"--from={FROM}", f"--to={TO}")])
def test_places_may_begin_with_a_minus(call, ends):
    found = json.loads(call("route", "a.gpkg", *ends, "--json").stdout)
    assert found["length_m"] == pytest.approx(186, abs=2)
    assert found["seconds"] == pytest.approx(found["length_m"] / 10)


def test_without_json_the_way_is_a_table(call):
    result = call("route", "a.gpkg", "--from", FROM, "--to", TO, "--output", "way.geojson")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("time         0:19 min")
    assert "output       way.geojson" in result.stdout


@pytest.mark.parametrize("place", ["8.69", "8.69,", "a,b", "1,2,3", "nan,1", "inf,1"])
def test_what_is_no_place_exits_with_2(call, place):
    result = call("route", "a.gpkg", "--from", place, "--to", TO)
    assert result.exit_code == 2
    assert f"expected longitude,latitude in degrees, such as 8.69,49.41, got '{place}'" in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (("a.gpkg", "--from", FROM, "--to", "-121.8585,37.2290"), 1, "no route"),
        (("a.gpkg", "--from", FROM, "--to", "37.2209,-121.8585"), 2, "expected longitude and lat"),
        (("a.gpkg", "--from", FROM, "--to", "-121.8,37.2"), 2, "the nearest road is"),
        (("b.gpkg", "--from", FROM, "--to", TO), 3, "b.gpkg does not exist"),
    ],
)
def test_what_goes_wrong_is_one_line(call, words, exit_code, message):
    result = call("route", *words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (exit_code, "", 1)
    assert message in result.stderr


@pytest.mark.parametrize(("units", "length"), [("metric", "0.186 km"), ("miles", "0.116 mi")])
def test_units_are_those_of_the_option(call, units, length):
    with shown_in("metric"):
        told = call("route", "a.gpkg", "--from", FROM, "--to", TO, "--units", units).stdout
    assert length in told


def test_json_keeps_its_units(call):
    words = ("route", "a.gpkg", "--from", FROM, "--to", TO, "--json")
    with shown_in("metric"):
        assert call(*words, "--units", "miles").stdout == call(*words).stdout


def test_units_of_a_command_on_a_run_are_those_of_the_config(call):
    with shown_in("metric"):
        call("config", "show", "--set", "compute.units=miles")
        assert chosen_units() == "miles"


def test_units_in_which_init_tells_what_it_found_are_those_of_its_settings(call):
    with shown_in("metric"):
        call("init", "--images", "nowhere", "--labels", "a.gpkg", "--set", "compute.units=miles")
        assert chosen_units() == "miles"
