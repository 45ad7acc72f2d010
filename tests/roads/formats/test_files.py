import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.errors import ConfigError, DataError, OutputError
from roadseg.raster.grid import Grid
from roadseg.roads.formats.by_suffix import write_graphs
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.formats.layers import write_edges
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel

UTM = CRS.from_epsg(32631)
GRID = Grid(UTM, Affine(0.5, 0, 430_000, 0, -0.5, 4_581_000), 2000, 2000)
FORMATS = ["gpkg", "geojson", "graphml", "parquet", "osm", "csv", "pbf", "fgb"]


@pytest.fixture
def graph(graph):
    """The drawn roads with names and lanes before their speeds."""
    names = {"name": np.array(list("abcdef"), dtype=object), "lanes": np.arange(6)}
    return replace(graph, attributes=names | graph.attributes)


@pytest.fixture
def traced(graph):
    """The same roads with all attributes of a traced graph."""
    unknown = np.nan
    return replace(
        graph,
        attributes={
            "speed_kph": graph.attributes["speed_kph"],
            "travel_time_s": graph.attributes["travel_time_s"],
            "inferred": np.array([0, 1, 0, 0, 0, 1], dtype=np.uint8),
            "confidence": np.array([unknown, 0.5, unknown, unknown, unknown, 1]),
            "probability": np.linspace(0, 1, 6),
            "min_probability": np.zeros(6),
            "width_m": np.array([7.25, unknown, 1, 2, 3, 4]),
            "speed_known": np.array([1, 1, 1, 0, 1, 1], dtype=np.uint8),
            "highway": np.array(["residential", "road"] * 3, dtype=object),
            "source": np.full(6, "scene.v2 <1> é", dtype=object),
            "model": np.full(6, "", dtype=object),
        },
    )


@pytest.fixture
def empty():
    nothing = np.array([], dtype=object)
    return add_travel(graph_from_lines(nothing, UTM), np.zeros(0))


@pytest.mark.parametrize("kind", ["graph", "traced", "local", "empty"])
def test_a_graph_read_back_is_the_same(tmp_path, request, kind):
    graph = request.getfixturevalue(kind)
    write_gpkg(tmp_path / "a.gpkg", graph)
    back = read_gpkg(tmp_path / "a.gpkg")
    assert back.crs == graph.crs
    assert np.array_equal(back.nodes, graph.nodes)
    assert np.array_equal(back.ends, graph.ends)
    assert back.lines.shape == graph.lines.shape
    assert shapely.equals_exact(back.lines, graph.lines).all()
    assert list(back.attributes) == list(graph.attributes)
    for name, column in graph.attributes.items():
        assert back.attributes[name].dtype == column.dtype
        np.testing.assert_array_equal(back.attributes[name], column)


def test_a_geopackage_has_nodes_and_edges_with_the_columns_of_osmnx(tmp_path, traced):
    write_gpkg(tmp_path / "a.gpkg", traced)
    nodes = pyogrio.read_dataframe(tmp_path / "a.gpkg", layer="nodes")
    edges = pyogrio.read_dataframe(tmp_path / "a.gpkg", layer="edges")
    assert list(nodes.columns) == ["osmid", "x", "y", "street_count", "geometry"]
    assert {"osmid", "u", "v", "key", "length", "travel_time", "width"} < set(edges.columns)
    assert edges["length"].tolist() == traced.length_m.tolist()


def test_a_geopackage_lists_both_layers_and_their_styles(tmp_path, traced):
    write_gpkg(tmp_path / "a.gpkg", traced)
    layers = dict(pyogrio.list_layers(tmp_path / "a.gpkg"))
    assert layers == {"nodes": "Point", "edges": "LineString", "layer_styles": None}
    with closing(sqlite3.connect(tmp_path / "a.gpkg")) as file:
        styles = file.execute("SELECT f_table_name, useAsDefault, styleQML FROM layer_styles")
        found = {name: (default, qml[:15]) for name, default, qml in styles}
    assert found == dict.fromkeys(("nodes", "edges"), (1, "<!DOCTYPE qgis "))


def test_geojson_of_a_graph_without_place_on_earth_is_in_metres(tmp_path, local):
    write_edges(tmp_path / "a.geojson", local)
    written = json.loads((tmp_path / "a.geojson").read_text())
    lines = [shapely.geometry.shape(feature["geometry"]) for feature in written["features"]]
    assert shapely.equals_exact(np.array(lines), local.lines, tolerance=1e-6).all()
    assert "crs" not in written


def test_geojson_is_longitude_latitude_without_a_crs_member(tmp_path, graph):
    write_edges(tmp_path / "a.geojson", graph)
    written = json.loads((tmp_path / "a.geojson").read_text())
    lon, lat = written["features"][0]["geometry"]["coordinates"][0]
    assert (round(lon, 1), round(lat, 1)) == (2.2, 41.4)
    assert "crs" not in written
    assert written["features"][3]["properties"]["speed_kph"] == 90


def test_geopandas_reads_the_geoparquet(tmp_path, traced):
    pytest.importorskip("pyarrow")
    write_edges(tmp_path / "a.parquet", traced)
    table = gpd.read_parquet(tmp_path / "a.parquet")
    assert table.crs == UTM
    assert shapely.equals_exact(table.geometry.to_numpy(), traced.lines).all()
    np.testing.assert_array_equal(table["width"], traced.attributes["width_m"])


def test_duckdb_reads_the_geoparquet(tmp_path, traced):
    duckdb = pytest.importorskip("duckdb")
    write_edges(tmp_path / "a.parquet", traced)
    query = "SELECT sum(length), count(*) FILTER (inferred = 1) FROM read_parquet(?)"
    found = duckdb.execute(query, [str(tmp_path / "a.parquet")]).fetchone()
    assert found == (pytest.approx(traced.length_m.sum()), 2)


@pytest.mark.parametrize("suffix", FORMATS)
def test_writing_again_replaces_the_file_and_leaves_nothing_else(tmp_path, traced, empty, suffix):
    write_graphs(tmp_path, "a", traced, formats=[suffix], grid=GRID)
    write_graphs(tmp_path, "a", empty, formats=[suffix], grid=GRID)
    write_graphs(tmp_path, "b", empty, formats=[suffix], grid=GRID)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert list(sizes) in ([f"a.{suffix}", f"b.{suffix}"], [f"b.{suffix}", f"a.{suffix}"])
    assert abs(sizes[f"a.{suffix}"] - sizes[f"b.{suffix}"]) <= 1  # the id of the CSV's one row


def test_an_unknown_format_is_refused_before_anything_is_written(tmp_path, graph):
    with pytest.raises(ConfigError, match="as 'dxf', only as gpkg, geojson, graphml, parquet, osm"):
        write_graphs(tmp_path, "a", graph, formats=["gpkg", "dxf"])
    assert list(tmp_path.iterdir()) == []


def test_a_submission_of_a_graph_that_is_not_of_one_image_is_refused(tmp_path, graph):
    with pytest.raises(ConfigError, match=r"a\.csv: .* csv has lines in pixels"):
        write_graphs(tmp_path, "a", graph, formats=["csv"])


@pytest.mark.parametrize("suffix", [*FORMATS, "shp"])
def test_a_full_disk_leaves_the_old_file(tmp_path, traced, suffix, largest_file):
    path = tmp_path / f"a.{suffix}"
    path.write_text("old")
    with largest_file(100), pytest.raises(OutputError, match=rf"/a\.{suffix}: cannot be written"):
        write_graphs(tmp_path, "a", traced, formats=[suffix], grid=GRID)
    assert [found.read_text() for found in tmp_path.iterdir()] == ["old"]


write_table = pyogrio.write_dataframe


def without_end(table, path, **options):
    write_table(table, path, **options)
    os.truncate(path, path.stat().st_size - 3)


def without_index(table, path, **options):
    write_table(table, path, **options, SPATIAL_INDEX="NO")


def without_styles(table, path, **options):
    write_table(table[:1] if options["layer"] == "layer_styles" else table, path, **options)


@pytest.mark.parametrize(
    ("case", "write_less"),
    [
        ((write_edges, "a.geojson"), without_end),
        ((write_gpkg, "a.gpkg"), without_index),
        ((write_gpkg, "a.gpkg"), without_styles),
    ],
)
def test_a_file_that_is_not_whole_is_an_error(tmp_path, graph, monkeypatch, case, write_less):
    write, name = case
    monkeypatch.setattr(pyogrio, "write_dataframe", write_less)
    with pytest.raises(OutputError, match=rf"{name}: cannot be written: No space left"):
        write(tmp_path / name, graph)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, "no"], ids=["missing", "a text"])
def test_a_file_that_is_no_geopackage_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "a.gpkg").write_text(content)
    with pytest.raises(
        DataError, match=r"a\.gpkg: layer nodes cannot be read .*a GeoPackage of `roadseg graph`"
    ):
        read_gpkg(tmp_path / "a.gpkg")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM gpkg_contents WHERE table_name = 'edges'", "layer edges cannot be read"),
        (
            "UPDATE edges SET inferred = 32768",
            r"a\.gpkg: layer edges cannot be read \(.*roadseg graph",
        ),
        ("ALTER TABLE edges DROP COLUMN v", "layer edges has no column v"),
        ("DELETE FROM nodes WHERE osmid = 1", "nodes and edges are not a graph"),
        ("UPDATE nodes SET osmid = 1", "nodes and edges are not a graph"),
        ("UPDATE edges SET u = NULL WHERE fid = 1", "nodes and edges are not a graph"),
        ("UPDATE edges SET geom = NULL WHERE fid = 1", "nodes and edges are not a graph"),
        ("UPDATE gpkg_geometry_columns SET srs_id = 4326", "not in a metric CRS"),
    ],
)
def test_a_geopackage_that_holds_no_whole_graph_is_refused(tmp_path, traced, change, words):
    write_gpkg(tmp_path / "a.gpkg", traced)
    spoil(tmp_path / "a.gpkg", change)
    with pytest.raises(DataError, match=words):
        read_gpkg(tmp_path / "a.gpkg")


def spoil(path, change):
    """Change a GeoPackage behind GDAL's back; its triggers need functions that sqlite lacks."""
    with closing(sqlite3.connect(path)) as file, file:
        triggers = file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            file.execute(f'DROP TRIGGER "{name}"')
        file.execute(change)
