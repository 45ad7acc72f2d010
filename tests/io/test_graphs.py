import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import networkx as nx
import numpy as np
import osmnx
import pyogrio
import pytest
import shapely
from pyogrio.errors import FeatureError
from pyproj import CRS
from scipy.sparse.csgraph import dijkstra

from roadseg.core.graphs import RoadGraph, graph_from_lines
from roadseg.core.grid import LOCAL_CRS
from roadseg.core.roads import reproject
from roadseg.core.travel import add_travel
from roadseg.errors import DataError, OutputError, RoadsegError
from roadseg.io.graphs import read_graph, write_geojson, write_gpkg, write_graphml

UTM = CRS.from_epsg(32631)
WRITERS = [(write_gpkg, "a.gpkg"), (write_geojson, "a.geojson"), (write_graphml, "a.graphml")]
LINES = [
    [(0, 0), (300, 0)],
    [(300, 0), (300, 400)],
    [(0, 0), (150, 200), (300, 400)],
    [(0, 0), (150, 250), (300, 400)],  # parallel
    [(300, 400), (350, 400), (350, 450), (300, 400)],  # loop
    [(900, 900), (950, 900)],  # apart
]


@pytest.fixture
def graph():
    """Roads near Barcelona: a triangle with a parallel edge and a loop, and one apart."""
    xy = [np.add(line, (430_000.1, 4_580_000.7)) for line in LINES]
    lines = np.array([shapely.LineString(line) for line in xy], dtype=object)
    names = {"name": np.array(list("abcdef"), dtype=object), "lanes": np.arange(6)}
    return add_travel(graph_from_lines(lines, UTM, names), np.array([50, 30, 20, 90, 30, 30]))


@pytest.fixture
def local():
    """Roads of a scene without georeference."""
    lines = np.array([shapely.LineString(np.add(line, (0.125, -600))) for line in LINES])
    return add_travel(graph_from_lines(lines, LOCAL_CRS), np.full(6, 50))


@pytest.fixture
def empty():
    nothing = np.array([], dtype=object)
    return add_travel(graph_from_lines(nothing, UTM), np.zeros(0))


def test_a_graph_read_back_is_the_same(tmp_path, graph):
    write_gpkg(tmp_path / "a.gpkg", graph)
    back = read_graph(tmp_path / "a.gpkg")
    assert back.crs == graph.crs
    assert np.array_equal(back.nodes, graph.nodes)
    assert np.array_equal(back.ends, graph.ends)
    assert shapely.equals_exact(back.lines, graph.lines).all()
    assert {k: v.tolist() for k, v in back.attributes.items()} == {
        k: v.tolist() for k, v in graph.attributes.items()
    }


def test_an_empty_graph_read_back_is_empty(tmp_path, empty):
    write_gpkg(tmp_path / "a.gpkg", empty)
    back = read_graph(tmp_path / "a.gpkg")
    assert (back.nodes.shape, back.ends.shape, back.lines.shape) == ((0, 2), (0, 2), (0,))
    assert (back.crs, list(back.attributes)) == (UTM, ["speed_kph", "travel_time_s"])


def test_a_graph_without_place_on_earth_read_back_is_the_same(tmp_path, local):
    write_gpkg(tmp_path / "a.gpkg", local)
    back = read_graph(tmp_path / "a.gpkg")
    assert back.crs == LOCAL_CRS
    assert np.array_equal(back.nodes, local.nodes)
    assert shapely.equals_exact(back.lines, local.lines).all()


def test_an_empty_graph_without_place_on_earth_read_back_is_empty(tmp_path, empty):
    write_gpkg(tmp_path / "a.gpkg", replace(empty, crs=LOCAL_CRS))
    assert read_graph(tmp_path / "a.gpkg").crs == LOCAL_CRS


def test_geojson_of_a_graph_without_place_on_earth_is_in_metres(tmp_path, local):
    write_geojson(tmp_path / "a.geojson", local)
    written = json.loads((tmp_path / "a.geojson").read_text())
    lines = [shapely.geometry.shape(feature["geometry"]) for feature in written["features"]]
    assert shapely.equals_exact(np.array(lines), local.lines, tolerance=1e-6).all()
    assert "crs" not in written


def test_graphml_of_a_graph_without_place_on_earth_is_in_metres(tmp_path, local):
    write_graphml(tmp_path / "a.graphml", local)
    network = osmnx.load_graphml(tmp_path / "a.graphml")
    nodes, edges = osmnx.graph_to_gdfs(network)
    assert edges.crs == LOCAL_CRS
    assert nodes[["x", "y"]].to_numpy().tolist() == local.nodes.tolist()
    assert edges.length.sort_values().unique() == pytest.approx(sorted(set(local.length_m)))


def test_a_geopackage_has_nodes_and_edges_with_the_columns_of_osmnx(tmp_path, graph):
    write_gpkg(tmp_path / "a.gpkg", graph)
    nodes = pyogrio.read_dataframe(tmp_path / "a.gpkg", layer="nodes")
    edges = pyogrio.read_dataframe(tmp_path / "a.gpkg", layer="edges")
    assert list(nodes.columns) == ["osmid", "x", "y", "geometry"]
    assert {"u", "v", "key", "length", "speed_kph", "travel_time"} < set(edges.columns)
    assert edges["length"].tolist() == graph.length_m.tolist()


def test_parallel_edges_have_keys_of_their_own(tmp_path, graph):
    backwards = RoadGraph(
        UTM,
        graph.nodes,
        np.vstack([graph.ends, graph.ends[:1, ::-1]]),
        np.append(graph.lines, shapely.reverse(graph.lines[:1])),
    )
    write_gpkg(tmp_path / "a.gpkg", backwards)
    edges = pyogrio.read_dataframe(tmp_path / "a.gpkg", layer="edges")
    assert edges["key"].tolist() == [0, 0, 0, 1, 0, 0, 1]


def test_geojson_is_longitude_latitude_without_a_crs_member(tmp_path, graph):
    write_geojson(tmp_path / "a.geojson", graph)
    written = json.loads((tmp_path / "a.geojson").read_text())
    lon, lat = written["features"][0]["geometry"]["coordinates"][0]
    assert (round(lon, 1), round(lat, 1)) == (2.2, 41.4)
    assert "crs" not in written
    assert written["features"][3]["properties"]["speed_kph"] == 90


def test_an_empty_graph_makes_a_geojson_without_features(tmp_path, empty):
    write_geojson(tmp_path / "a.geojson", empty)
    written = json.loads((tmp_path / "a.geojson").read_text())
    assert (written["type"], written["features"]) == ("FeatureCollection", [])


def test_osmnx_finds_the_fastest_route_that_our_arrays_hold(tmp_path, graph):
    write_graphml(tmp_path / "a.graphml", graph)
    network = osmnx.load_graphml(tmp_path / "a.graphml")
    route = osmnx.shortest_path(network, 1, 2, weight="travel_time")
    edges = osmnx.routing.route_to_gdf(network, route, weight="travel_time")

    seconds, length = graph.attributes["travel_time_s"], graph.length_m
    fastest = np.full((len(graph.nodes),) * 2, np.inf)
    np.minimum.at(fastest, tuple(graph.ends.T), seconds)
    _, before = dijkstra(fastest, directed=False, indices=1, return_predecessors=True)
    assert route == [1, before[2], 2] == [1, 0, 2]
    taken = np.flatnonzero(np.isin(seconds, [fastest[0, 1], fastest[0, 2]]))
    assert edges["length"].sum() == pytest.approx(length[taken].sum(), rel=1e-12)


def test_graphml_holds_what_osmnx_expects(tmp_path, graph):
    write_graphml(tmp_path / "a.graphml", graph)
    network = osmnx.load_graphml(tmp_path / "a.graphml")
    assert network.graph["crs"] == "epsg:4326"
    assert isinstance(network, nx.MultiDiGraph)
    assert sorted(network.nodes) == [0, 1, 2, 3, 4]
    assert network.edges[0, 2, 1]["speed_kph"] == 90
    assert network.edges[0, 2, 1]["oneway"] is False


def test_graphml_has_both_directions_of_an_edge_and_a_loop_once(tmp_path, graph):
    write_graphml(tmp_path / "a.graphml", graph)
    network = osmnx.load_graphml(tmp_path / "a.graphml")
    osmids = sorted(network.get_edge_data(*edge)["osmid"] for edge in network.edges)
    assert osmids == [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5]
    loop = to_metres(network.edges[2, 2, 0]["geometry"])
    assert shapely.equals_exact(loop, graph.lines[4], tolerance=0.001)


def to_metres(line):
    return reproject(np.array([line], dtype=object), CRS.from_epsg(4326), UTM)[0]


def test_the_line_of_every_graphml_edge_runs_in_its_direction(tmp_path, graph):
    write_graphml(tmp_path / "a.graphml", graph)
    network = osmnx.load_graphml(tmp_path / "a.graphml")
    for u, v, line in network.edges(data="geometry"):
        ends = [(network.nodes[node]["x"], network.nodes[node]["y"]) for node in (u, v)]
        assert [line.coords[0], line.coords[-1]] == ends


def test_graphml_leaves_out_what_is_missing(tmp_path, graph):
    names = np.array(["a", None, "c", "d", "e", "f"], dtype=object)
    write_graphml(tmp_path / "a.graphml", replace(graph, attributes={"name": names}))
    network = osmnx.load_graphml(tmp_path / "a.graphml")
    named = sorted({d["osmid"] for *_, d in network.edges(data=True) if "name" in d})
    assert named == [0, 2, 3, 4, 5]


def test_an_empty_graph_makes_a_graphml_without_nodes(tmp_path, empty):
    write_graphml(tmp_path / "a.graphml", empty)
    assert len(osmnx.load_graphml(tmp_path / "a.graphml")) == 0


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_writing_again_replaces_the_file_and_leaves_nothing_else(
    write, name, tmp_path, graph, empty
):
    write(tmp_path / name, graph)
    write(tmp_path / name, empty)
    size = (tmp_path / name).stat().st_size
    write(tmp_path / ("b" + name), empty)
    assert size == (tmp_path / ("b" + name)).stat().st_size
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, "b" + name]


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_a_file_that_cannot_be_finished_leaves_the_old_one(
    write, name, tmp_path, graph, monkeypatch
):
    def fail(_, partial, **_options):
        partial.write_text("half a file")
        raise OSError("disk full") if write is write_graphml else FeatureError("disk full")

    (tmp_path / name).write_text("old")
    monkeypatch.setattr(pyogrio, "write_dataframe", fail)
    monkeypatch.setattr(nx, "write_graphml", fail)
    with pytest.raises(RoadsegError, match=rf"/{name}: cannot be written: disk full"):
        write(tmp_path / name, graph)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, "old")]


def test_a_geojson_whose_end_is_missing_is_an_error(tmp_path, graph, monkeypatch):
    def cut_short(table, path, **options):
        write(table, path, **options)
        os.truncate(path, path.stat().st_size - 3)

    write = pyogrio.write_dataframe
    monkeypatch.setattr(pyogrio, "write_dataframe", cut_short)
    with pytest.raises(OutputError, match=r"a\.geojson: cannot be written: No space left"):
        write_geojson(tmp_path / "a.geojson", graph)
    assert list(tmp_path.iterdir()) == []


def test_a_geopackage_without_its_indices_is_an_error(tmp_path, graph, monkeypatch):
    def without_index(table, path, **options):
        write(table, path, **options, SPATIAL_INDEX="NO")

    write = pyogrio.write_dataframe
    monkeypatch.setattr(pyogrio, "write_dataframe", without_index)
    with pytest.raises(OutputError, match=r"a\.gpkg: cannot be written: No space left"):
        write_gpkg(tmp_path / "a.gpkg", graph)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_an_attribute_named_as_a_column_of_the_file_is_refused(write, name, tmp_path, graph):
    with pytest.raises(ValueError, match="'key'"):
        write(tmp_path / name, replace(graph, attributes={"key": np.zeros(6)}))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"a\.gpkg: layer nodes cannot be read"):
        read_graph(tmp_path / "a.gpkg")


def test_a_file_that_is_no_geopackage_is_refused(tmp_path):
    (tmp_path / "a.gpkg").write_text("no")
    with pytest.raises(DataError, match="run `roadseg graph`"):
        read_graph(tmp_path / "a.gpkg")


def test_a_geopackage_without_edges_is_refused(tmp_path, graph):
    write_gpkg(tmp_path / "a.gpkg", graph)
    nodes = pyogrio.read_dataframe(tmp_path / "a.gpkg", layer="nodes")
    pyogrio.write_dataframe(nodes, tmp_path / "b.gpkg", layer="nodes")
    with pytest.raises(DataError, match=r"b\.gpkg: layer edges cannot be read"):
        read_graph(tmp_path / "b.gpkg")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM gpkg_contents WHERE table_name = 'edges'", "layer edges has no column geom"),
        ("ALTER TABLE edges DROP COLUMN v", "layer edges has no column v"),
        ("DELETE FROM nodes WHERE osmid = 1", "names a node"),
        ("UPDATE nodes SET osmid = 1", "two nodes of one osmid"),
        ("UPDATE edges SET u = NULL WHERE fid = 1", "names a node"),
        ("UPDATE edges SET geom = NULL WHERE fid = 1", "no LineString"),
        ("UPDATE gpkg_geometry_columns SET srs_id = 4326", "not in a metric CRS"),
    ],
)
def test_a_geopackage_that_holds_no_whole_graph_is_refused(tmp_path, graph, change, words):
    write_gpkg(tmp_path / "a.gpkg", graph)
    spoil(tmp_path / "a.gpkg", change)
    with pytest.raises(DataError, match=words):
        read_graph(tmp_path / "a.gpkg")


def spoil(path, change):
    """Change a GeoPackage behind GDAL's back; its triggers need functions that sqlite lacks."""
    with closing(sqlite3.connect(path)) as file, file:
        triggers = file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            file.execute(f'DROP TRIGGER "{name}"')
        file.execute(change)
