"""Routes on OpenStreetMap's roads: as its tags let cars drive, whatever file they are in."""

import contextlib
import itertools
import json

import networkx as nx
import numpy as np
import osmnx
import pytest
import shapely
from pyproj import Geod
from scipy.spatial import cKDTree

from roadseg.api.graphs import read_graph, route
from roadseg.commands.roads.route import run
from roadseg.errors import DataError, RoadsegError
from roadseg.roads.options import RouteOptions
from tests.data.make_osm import write_osm

METRE = 1e-5  # Degrees of a little more than a metre, at the equator.
GEOD = Geod(ellps="WGS84")
LINES = ([(0, 0), (100, 0)], [(0, 0), (0, 100), (100, 100), (100, 0)])


def place(x, y):
    return x * METRE, y * METRE


def geojson(path, *ways):
    """Write ways, each the positions of its nodes in metres and its tags."""
    features = [
        {
            "type": "Feature",
            "properties": tags,
            "geometry": {"type": "LineString", "coordinates": [place(*xy) for xy in nodes]},
        }
        for nodes, tags in ways
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


@pytest.fixture
def town(tmp_path):
    """Give a function that writes a short street with some tags and a detour, in any format."""

    def write(name="town.geojson", **tags):
        short = (LINES[0], {"highway": "residential", "name": "Short Street", **tags})
        ways = [short, (LINES[1], {"highway": "residential", "name": "Long Street"})]
        if name.endswith(".geojson"):
            return geojson(tmp_path / name, *ways)
        return write_osm(
            tmp_path / name, [([place(*xy) for xy in nodes], tags) for nodes, tags in ways]
        )

    return write


def names(path, start=(0, 0), goal=(100, 0)):
    """Return the names of the streets of the shortest route."""
    options = RouteOptions(weight="length")
    return [part.name for part in run(path, place(*start), place(*goal), options=options).sections]


@pytest.mark.parametrize("name", ["town.geojson", "town.osm"])
@pytest.mark.parametrize(
    ("tags", "there", "back"),
    [
        ({}, "Short Street", "Short Street"),
        ({"oneway": "yes"}, "Short Street", "Long Street"),
        ({"oneway": "-1"}, "Long Street", "Short Street"),
        ({"junction": "roundabout"}, "Short Street", "Long Street"),
        ({"highway": "motorway"}, "Short Street", "Long Street"),
        ({"highway": "motorway", "oneway": "no"}, "Short Street", "Short Street"),
        ({"highway": "footway"}, "Long Street", "Long Street"),
        ({"access": "private"}, "Long Street", "Long Street"),
        ({"access": "no", "motor_vehicle": "yes"}, "Short Street", "Short Street"),
    ],
)
def test_a_car_drives_by_the_tags(town, name, tags, there, back):
    path = town(name, **tags)
    assert names(path) == [there]
    assert names(path, (100, 0), (0, 0)) == [back]


def test_a_footway_drawn_over_a_street_does_not_hide_it(tmp_path):
    ways = [(LINES[0], {"highway": highway}) for highway in ("footway", "residential")]
    assert len(names(geojson(tmp_path / "a.geojson", *ways))) == 1


def test_streets_are_listed_by_name_and_class_and_usual_speeds_are_told(tmp_path):
    ways = [
        ([(0, 0), (100, 0)], {"highway": "primary", "ref": "B 3", "maxspeed": "50"}),
        ([(100, 0), (200, 0)], {"highway": "primary", "ref": "B 3", "maxspeed": "50"}),
        ([(200, 0), (300, 0)], {"highway": "residential", "name": "Am Zoo"}),
        ([(300, 0), (400, 0)], {"highway": "service"}),
    ]
    found = run(geojson(tmp_path / "a.geojson", *ways), place(0, 0), place(400, 0))
    told = [(part.name, part.highway, round(part.speed_kph)) for part in found.sections]
    assert told == [("B 3", "primary", 50), ("Am Zoo", "residential", 40), ("", "service", 32)]
    assert found.assumed_share == pytest.approx(0.5)
    assert "assumed on 50.0% of the length" in str(found)
    assert str(found).splitlines()[-3].startswith("B 3     primary        50  222")


def test_roads_without_any_for_cars_are_refused(tmp_path):
    path = geojson(tmp_path / "a.geojson", (LINES[0], {"highway": "steps"}))
    with pytest.raises(DataError, match="cars may drive on none of its 1 road"):
        run(path, place(0, 0), place(100, 0))


def test_streets_that_lead_elsewhere_only_are_told_as_the_reason(tmp_path):
    ways = [(line, {"highway": "residential", "oneway": "yes"}) for line in LINES]
    with pytest.raises(RoadsegError, match="no route: one-way streets lead"):
        run(geojson(tmp_path / "a.geojson", *ways), place(100, 0), place(0, 0))


@pytest.mark.parametrize(("metres", "is_far"), [(49.9, False), (50.1, True)])
def test_a_place_more_than_50_m_from_the_road_is_told(town, caplog, metres, is_far):
    _, lat, _ = GEOD.fwd(0, 0, 180, metres)
    found = run(town(), (50 * METRE, lat), place(100, 0))
    assert found.from_road_m == pytest.approx(metres, abs=0.05)
    assert ("the nearest road for cars is" in caplog.text) == is_far


@pytest.fixture
def one_way_town():
    """Return a town as osmnx has it: Short Street leads east, the detour both ways."""
    network = nx.MultiDiGraph(crs="epsg:4326")
    for node, xy in enumerate([(0, 0), (100, 0), (100, 100), (0, 100)]):
        network.add_node(node, x=xy[0] * METRE, y=xy[1] * METRE)
    facts = {"highway": "residential", "length": 111.0}
    network.add_edge(0, 1, name="Short Street", oneway=True, osmid=1, **facts)
    for u, v in ((1, 2), (2, 3), (3, 0)):
        network.add_edge(u, v, name="Long Street", oneway=False, osmid=2, **facts)
        network.add_edge(v, u, name="Long Street", oneway=False, osmid=2, **facts)
    return network


def test_a_graph_of_osmnx_is_driven_along_its_edges(tmp_path, one_way_town):
    path = tmp_path / "a.graphml"
    osmnx.save_graphml(one_way_town, path)
    assert names(path) == ["Short Street"]
    assert names(path, (100, 0), (0, 0)) == ["Long Street"]


def test_a_graph_of_networkx_is_driven_along_its_edges(one_way_town):
    there = route(one_way_town, place(0, 0), place(100, 0), weight="length")
    back = route(one_way_town, place(100, 0), place(0, 0), weight="length")
    assert there.length_m < back.length_m / 2


def test_a_geopackage_of_osmnx_is_driven_along_its_edges(tmp_path, one_way_town):
    path = tmp_path / "a.gpkg"
    projected = osmnx.project_graph(one_way_town)
    osmnx.save_graph_geopackage(projected, path, directed=True)
    assert names(path) == ["Short Street"]
    assert names(path, (100, 0), (0, 0)) == ["Long Street"]


def _segments(features):
    """Return the segments along which cars may drive by the tags, each two positions in degrees."""
    closed = {"footway", "steps", "path", "pedestrian"}
    for feature in features:
        tags, nodes = feature["properties"], feature["geometry"]["coordinates"]
        if tags["highway"] in closed:
            continue
        way = tags.get("oneway") or ("yes" if tags.get("junction") == "roundabout" else "no")
        for one, other in itertools.pairwise(map(tuple, nodes)):
            if way != "-1":
                yield one, other
            if way in ("-1", "no"):
                yield other, one


@pytest.mark.real
def test_no_street_of_monaco_is_driven_against_its_tags(real_data):
    path = real_data / "osm/monaco_highways.geojson"
    features = json.loads(path.read_text())["features"]
    allowed = set(_segments(features))
    vertices = [tuple(xy) for f in features for xy in f["geometry"]["coordinates"]]
    nearest = cKDTree(vertices)
    streets = [f for f in features if f["properties"]["highway"] in ("residential", "primary")]
    rng = np.random.default_rng(3)
    roads, routes = read_graph(path), 0
    for _ in range(60):
        rows = rng.choice(len(streets), 2, replace=False)
        # From vertex to vertex, a route is made of whole segments of ways.
        ends = [tuple(streets[row]["geometry"]["coordinates"][1]) for row in rows]
        with contextlib.suppress(RoadsegError):  # Some streets lead out of Monaco only.
            found = route(roads, *ends)
            routes += 1
            for line in found.graph.edges.to_crs(4326).geometry:
                away, rows = nearest.query(shapely.get_coordinates(line))
                assert away.max() < 1e-7
                driven = [vertices[row] for row in rows]
                assert {p for p in itertools.pairwise(driven) if p[0] != p[1]} <= allowed
    assert routes > 40
