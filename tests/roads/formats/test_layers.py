import sqlite3
from contextlib import closing

import geopandas as gpd
import pytest
import shapely

from roadseg.roads.formats.layers import write_edges, write_layer
from roadseg.roads.labels.vectors import read_vectors


def test_a_shapefile_has_all_its_parts_and_replaces_those_of_the_one_before(tmp_path, graph):
    (tmp_path / "a.qix").write_text("an index of other shapes")
    write_edges(tmp_path / "a.shp", graph)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a.cpg", "a.dbf", "a.prj", "a.shp", "a.shx"]


def test_names_that_a_shapefile_cuts_are_known_again(tmp_path, graph):
    write_edges(tmp_path / "a.shp", graph)
    assert "travel_tim" in gpd.read_file(tmp_path / "a.shp").columns
    found = read_vectors(tmp_path / "a.shp", lambda keys: [k for k in keys if k == "travel_time"])
    assert found.columns["travel_time"] == pytest.approx(graph.attributes["travel_time_s"])


def test_every_new_geopackage_is_one_that_older_programs_read(tmp_path):
    table = gpd.GeoDataFrame(geometry=[shapely.LineString([(0, 0), (1, 1)])], crs=4326)
    write_layer(tmp_path / "a.gpkg", table, "GPKG")
    with closing(sqlite3.connect(tmp_path / "a.gpkg")) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (10200,)
