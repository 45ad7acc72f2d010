"""Ways on graph files: as osmnx finds them, from wherever one starts, written whole."""

import json

import networkx as nx
import numpy as np
import osmnx
import pyogrio
import pytest
import shapely
from pyproj import CRS

from roadseg.commands.roads.route import run
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.raster.grid import DEGREES, LOCAL_CRS, transformer
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.formats.graphml import write_graphml
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.options import RouteOptions
from tests.drawing import lines_of

BY_LENGTH = RouteOptions(weight="length")

UTM = CRS.from_epsg(32632)
ORIGIN = np.array([477_000.0, 5_473_000.0])  # Heidelberg
STREET, APART = [(0, 0), (300, 0)], [(0, 400), (300, 400)]


def drawn(*roads, crs=UTM, origin=ORIGIN, **columns):
    return graph_from_lines(lines_of(*[np.add(road, origin) for road in roads]), crs, columns)


def degrees(*xy):
    return transformer(UTM, DEGREES).transform(*np.add(xy, ORIGIN))


@pytest.fixture
def write(tmp_path):
    """Give a function that writes roads as GeoPackage."""

    def write_roads(*roads, name="a.gpkg", **options):
        write_gpkg(tmp_path / name, drawn(*roads, **options))
        return tmp_path / name

    return write_roads


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """Write a town of bent streets, each with a speed of its own, in both formats."""
    rng = np.random.default_rng(7)
    corners = [(x, y) for x in range(7) for y in range(7)]
    pairs = [((x, y), (x + a, y + b)) for x, y in corners for a, b in ((1, 0), (0, 1))]
    roads = []
    for one, other in pairs:
        bend = np.add(one, other) * 50 + rng.uniform(-30, 30, 2)
        roads.append([np.multiply(one, 100), bend, np.multiply(other, 100)])
    graph = add_travel(drawn(*roads), rng.choice([30.0, 50, 80, 100], len(roads)))
    folder = tmp_path_factory.mktemp("town")
    write_gpkg(folder / "town.gpkg", graph)
    write_graphml(folder / "town.graphml", graph)
    return folder


@pytest.mark.parametrize("name", ["town.gpkg", "town.graphml"])
@pytest.mark.parametrize(("by", "column"), [("time", "travel_time"), ("length", "length")])
def test_ways_between_nodes_are_those_of_osmnx(town, name, by, column):
    network = osmnx.load_graphml(town / "town.graphml")
    rng = np.random.default_rng(1)
    for start, goal in rng.choice(len(network), (6, 2), replace=False):
        places = [(network.nodes[node]["x"], network.nodes[node]["y"]) for node in (start, goal)]
        found = run(town / name, *places, options=RouteOptions(weight=by))
        path = osmnx.shortest_path(network, start, goal, weight=column)
        assert found.edges == len(path) - 1
        expected = nx.path_weight(network, path, column)
        assert (found.seconds if by == "time" else found.length_m) == pytest.approx(expected)


def test_the_way_is_one_line_of_the_length_told(town, tmp_path):
    graph = read_gpkg(town / "town.gpkg")
    found = run(town / "town.gpkg", degrees(20, 5), degrees(510, 580), output=tmp_path / "w.gpkg")
    (line,) = pyogrio.read_dataframe(tmp_path / "w.gpkg", layer="edges").geometry
    assert line.geom_type == "LineString"
    assert line.length == pytest.approx(found.length_m)
    assert shapely.union_all(graph.lines).buffer(0.001).covers(line)


def test_qgis_shows_a_route_in_a_colour_that_no_road_has(town, tmp_path):
    run(town / "town.gpkg", degrees(20, 5), degrees(510, 580), output=tmp_path / "w.gpkg")
    styles = pyogrio.read_dataframe(tmp_path / "w.gpkg", layer="layer_styles")
    assert '"255,63,180,255"' in styles.set_index("f_table_name")["styleQML"]["edges"]


def test_geojson_is_in_degrees_with_the_totals(write, tmp_path):
    run(
        write(STREET),
        degrees(50, 10),
        degrees(250, -10),
        options=BY_LENGTH,
        output=tmp_path / "w.geojson",
    )
    (feature,) = json.loads((tmp_path / "w.geojson").read_text())["features"]
    ends = np.array(feature["geometry"]["coordinates"])
    assert ends == pytest.approx(np.array([degrees(50, 0), degrees(250, 0)]), abs=1e-7)
    assert feature["properties"]["length"] == pytest.approx(200)
    assert feature["properties"]["from_road_m"] == pytest.approx(10)


def test_sections_are_runs_of_one_class_and_speed(write):
    roads = [[(x, 0), (x + 100, 0)] for x in range(0, 400, 100)]
    facts = {
        "highway": np.array(["primary", "primary", "track", "primary"], dtype=object),
        "speed_kph": np.array([72.0, 72, 36, 72]),
        "inferred": np.array([0, 0, 1, 0], dtype=np.uint8),
    }
    found = run(write(*roads, **facts), degrees(50, 0), degrees(400, 0))
    told = [(part.highway, part.speed_kph, round(part.length_m)) for part in found.sections]
    assert told == [("primary", 72, 150), ("track", 36, 100), ("primary", 72, 100)]
    assert [part.seconds for part in found.sections] == pytest.approx([7.5, 10, 5])
    assert (found.edges, found.inferred_share) == (4, pytest.approx(100 / 350))
    assert "track      36  100.0  10.0" in str(found)


@pytest.mark.parametrize("name", ["town.gpkg", "."])
def test_the_graph_is_not_overwritten(town, name):
    path, before = town / name, (town / "town.gpkg").read_bytes()
    with pytest.raises(ConfigError, match="is a file to read"):
        run(path, degrees(20, 5), degrees(510, 580), output=town / "town.gpkg")
    assert (town / "town.gpkg").read_bytes() == before


def test_from_a_place_to_itself_there_is_nothing_to_drive(write, tmp_path):
    path = write(STREET, speed_kph=np.array([36.0]))
    found = run(path, degrees(50, 10), degrees(50, 10), output=tmp_path / "w.geojson")
    assert (found.seconds, found.length_m, found.edges, found.sections) == (0, 0, 0, [])
    assert (tmp_path / "w.geojson").exists()


def test_roads_that_are_not_connected_are_told_with_their_size(write, tmp_path):
    path = write(STREET, APART, [(300, 400), (500, 400)])
    with pytest.raises(RoadsegError, match=r"0.30 km of roads, --to on one with 0.50 km") as error:
        run(path, degrees(50, 0), degrees(50, 400), options=BY_LENGTH, output=tmp_path / "w.gpkg")
    assert (error.value.exit_code, (tmp_path / "w.gpkg").exists()) == (1, False)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (degrees(50, 0)[::-1], "; longitude comes first: did you mean --from {1:.9g},{0:.9g}?"),
        ((8.0, 50.0), "the nearest road is"),
        ((200, 95), "--from 200,95: expected longitude and latitude"),
    ],
)
def test_a_place_that_is_no_start_is_refused_and_asked_about_if_it_is_swapped(write, place, told):
    with pytest.raises(ConfigError) as caught:
        run(write(STREET), place, degrees(60, 0), options=BY_LENGTH)
    assert told.format(*place) in str(caught.value)
    assert ("did you mean" in str(caught.value)) == ("did you mean" in told)


@pytest.mark.parametrize(("metres", "is_near"), [(499, True), (501, False)])
def test_a_place_may_be_500_m_from_the_road(write, metres, is_near):
    path, place = write(STREET), degrees(50, -metres)
    if is_near:
        assert run(path, place, degrees(60, 0), options=BY_LENGTH).from_road_m == pytest.approx(
            metres
        )
    else:
        with pytest.raises(
            ConfigError, match="the nearest road is 501 m away, expected at most 500 m"
        ):
            run(path, degrees(60, 0), place, options=BY_LENGTH)


def test_places_of_a_local_graph_are_its_metres(write):
    path = write(STREET, crs=LOCAL_CRS, origin=(0, -600))
    found = run(path, (50, -590), (-20, -600), options=BY_LENGTH)
    assert (found.length_m, found.from_road_m, found.to_road_m) == (50, 10, 20)
    with pytest.raises(ConfigError, match="roads are at x 0 to 300, y -600 to -600, in metres"):
        run(path, (5000, 0), (0, 0), options=BY_LENGTH)


def test_a_graph_without_roads_or_no_graph_at_all_is_refused(write, tmp_path):
    with pytest.raises(DataError, match="contains no roads"):
        run(write(), (8, 49), (8, 49))
    (tmp_path / "many").mkdir()
    for name in "ab":
        write(STREET, name=f"many/{name}.gpkg")
    with pytest.raises(DataError, match="expected one file with a graph"):
        run(tmp_path / "many", (8, 49), (8, 49))


def test_another_suffix_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigError, match=r"w.txt: use a file name that ends in .geojson or .gpkg"):
        run(tmp_path / "none.gpkg", (8, 49), (8, 49), output=tmp_path / "w.txt")


@pytest.fixture
def run_folder(tmp_path):
    """Give a function that makes a run folder with graphs of streets by name."""

    def make(**graphs):
        for file in ("chips.json", "folds.gpkg"):
            (tmp_path / "run" / file).parent.mkdir(exist_ok=True)
            (tmp_path / "run" / file).touch()
        for name, roads in graphs.items():
            (tmp_path / "run/graphs").mkdir(exist_ok=True)
            write_gpkg(tmp_path / f"run/graphs/{name}.gpkg", drawn(*roads))
        return tmp_path / "run"

    return make


def test_of_a_run_its_network_is_driven(run_folder):
    folder = run_folder(a=[APART], network=[STREET, [(300, 0), (500, 0)]])
    assert run(folder, degrees(0, 0), degrees(500, 0), options=BY_LENGTH).edges == 2
    assert run(folder / "graphs", degrees(0, 0), degrees(500, 0), options=BY_LENGTH).edges == 2


def test_of_a_run_with_one_graph_that_is_driven(run_folder):
    assert run(run_folder(a=[STREET]), degrees(0, 0), degrees(300, 0), options=BY_LENGTH).edges == 1


def test_of_a_run_with_several_graphs_one_is_to_be_named(run_folder):
    folder = run_folder(a=[STREET], b=[APART])
    with pytest.raises(DataError, match=r"found 2 that are not joined; name one.*graphs/a\.gpkg"):
        run(folder, degrees(0, 0), degrees(300, 0))


def test_of_a_run_without_graphs_the_stage_is_named(run_folder):
    with pytest.raises(DataError, match="a run without graphs; run `roadseg graph` first"):
        run(run_folder(), degrees(0, 0), degrees(300, 0))
