from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import osmnx
import pytest
import shapely
from pyproj import CRS

from roadseg.raster.grid import LOCAL_CRS, reproject
from roadseg.roads.formats.graphml import write_graphml
from roadseg.roads.graph.road_graph import graph_from_lines

UTM = CRS.from_epsg(32631)


@pytest.fixture
def load(tmp_path):
    """Give a function that writes a graph and loads it with osmnx."""

    def write_and_load(graph, **options):
        write_graphml(tmp_path / "a.graphml", graph)
        return osmnx.load_graphml(tmp_path / "a.graphml", **options)

    return write_and_load


def with_column(graph, name, *values):
    return replace(graph, attributes={name: np.array(values, dtype=object)})


def to_metres(line):
    return reproject(np.array([line], dtype=object), CRS.from_epsg(4326), UTM)[0]


def test_it_holds_what_osmnx_expects(load, graph):
    network = load(graph)
    assert network.graph["crs"] == "epsg:4326"
    assert isinstance(network, nx.MultiDiGraph)
    assert sorted(network.nodes) == [0, 1, 2, 3, 4]
    assert network.edges[0, 2, 1]["speed_kph"] == 90
    assert network.edges[0, 2, 1]["oneway"] is False


def test_every_edge_is_there_in_both_directions_and_a_loop_once(load, graph):
    network = load(graph)
    osmids = sorted(network.get_edge_data(*edge)["osmid"] for edge in network.edges)
    assert osmids == [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 5]
    loop = to_metres(network.edges[2, 2, 0]["geometry"])
    assert shapely.equals_exact(loop, graph.lines[4], tolerance=0.001)


@pytest.mark.parametrize(("one_way", "ends"), [(1, (0, 1)), (-1, (1, 0))])
def test_a_one_way_road_is_there_in_its_direction_only(load, one_way, ends):
    street = np.array([shapely.LineString([(5e5, 4e6), (500_100, 4e6)])])
    network = load(graph_from_lines(street, UTM, {"oneway": np.array([one_way])}))
    assert list(network.edges) == [(*ends, 0)]
    assert network.edges[*ends, 0]["oneway"] is True
    first = network.edges[*ends, 0]["geometry"].coords[0]
    assert first == (network.nodes[ends[0]]["x"], network.nodes[ends[0]]["y"])


@pytest.mark.parametrize("missing", [None, "", np.nan])
def test_what_is_missing_is_left_out(load, graph, missing):
    network = load(with_column(graph, "name", "a", missing, "c", "d", "e", "f"))
    named = sorted({d["osmid"] for *_, d in network.edges(data=True) if "name" in d})
    assert named == [0, 2, 3, 4, 5]


def test_the_example_of_the_docs_reads_numbers_as_such(tmp_path, monkeypatch, graph):
    columns = ("probability", "min_probability", "confidence", "width_m")
    facts = {name: np.linspace(0, 1, 6) for name in columns}
    flags = {name: np.ones(6, dtype=np.uint8) for name in ("inferred", "speed_known")}
    (tmp_path / "run/graphs").mkdir(parents=True)
    attributes = {**graph.attributes, **facts, **flags}
    write_graphml(tmp_path / "run/graphs/city_0.graphml", replace(graph, attributes=attributes))
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[3] / "docs/graphs.md").read_text()
    example = (
        page.partition("## Use the network in osmnx")[2].split("```")[1].removeprefix("python")
    )
    exec(example, names := {})  # noqa: S102 - our own page
    told = names["network"].edges[0, 1, 0]
    numbers = ("probability", "min_probability", "confidence", "width")
    assert {type(told[name]) for name in numbers} == {float}
    assert (told["inferred"], told["speed_known"]) == (1, 1)


def test_a_graph_without_place_on_earth_is_in_metres(load, local):
    nodes, edges = osmnx.graph_to_gdfs(load(local))
    assert edges.crs == LOCAL_CRS
    assert nodes[["x", "y"]].to_numpy().tolist() == local.nodes.tolist()
    assert edges.length.sort_values().unique() == pytest.approx(sorted(set(local.length_m)))
