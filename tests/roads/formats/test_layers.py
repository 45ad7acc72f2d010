import sqlite3
from contextlib import closing

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import DataError, OutputError
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.formats.layers import (
    write_fgb,
    write_gdb,
    write_layer,
    write_pmtiles,
    write_shp,
)
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.labels.vectors import read_vectors

WRITERS = [(write_fgb, "a.fgb"), (write_shp, "a.shp"), (write_gdb, "a.gdb")]
WRITERS.append((write_pmtiles, "a.pmtiles"))


def test_a_geodatabase_is_the_same_graph_to_a_tenth_of_a_millimetre(tmp_path, graph):
    write_gdb(tmp_path / "a.gdb", graph)
    back = read_gpkg(tmp_path / "a.gdb")
    assert back.ends.tolist() == graph.ends.tolist()
    np.testing.assert_allclose(back.nodes, graph.nodes, atol=1e-4)
    assert back.length_m == pytest.approx(graph.length_m, abs=1e-3)


def test_a_geodatabase_has_whole_numbers_for_its_ids(tmp_path, graph):
    write_gdb(tmp_path / "a.gdb", graph)
    info = pyogrio.read_info(tmp_path / "a.gdb", layer="edges")
    types = dict(zip(info["fields"], info["dtypes"], strict=True))
    assert [types[name] for name in ("osmid", "u", "v", "key")] == ["int32"] * 4


def test_another_folder_of_the_name_of_a_geodatabase_is_kept(tmp_path, graph):
    (tmp_path / "a.gdb").mkdir()
    (tmp_path / "a.gdb" / "letter.txt").write_text("")
    with pytest.raises(OutputError, match=r"a\.gdb: .* holds something else .*choose another name"):
        write_gdb(tmp_path / "a.gdb", graph)
    assert (tmp_path / "a.gdb" / "letter.txt").exists()


def test_a_shapefile_has_all_its_parts_and_replaces_those_of_the_one_before(tmp_path, graph):
    (tmp_path / "a.qix").write_text("an index of other shapes")
    write_shp(tmp_path / "a.shp", graph)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a.cpg", "a.dbf", "a.prj", "a.shp", "a.shx"]


def test_names_that_a_shapefile_cuts_are_known_again(tmp_path, graph):
    write_shp(tmp_path / "a.shp", graph)
    assert "travel_tim" in gpd.read_file(tmp_path / "a.shp").columns
    found = read_vectors(tmp_path / "a.shp", lambda keys: [k for k in keys if k == "travel_time"])
    assert found.columns["travel_time"] == pytest.approx(graph.attributes["travel_time_s"])


def test_tiles_show_the_roads_where_they_are(tmp_path, graph):
    write_pmtiles(tmp_path / "a.pmtiles", graph)
    shown = shapely.union_all(gpd.read_file(tmp_path / "a.pmtiles").to_crs(graph.crs).geometry)
    away = shapely.hausdorff_distance(shown, shapely.union_all(graph.lines), densify=0.01)
    assert away < 1


@pytest.mark.parametrize(("side_m", "zoom"), [(1_000.0, "11"), (100_000.0, "5")])
def test_tiles_begin_where_all_roads_are_a_part_of_one(tmp_path, side_m, zoom):
    line = np.array([shapely.LineString([(430_000, 4_580_000), (430_000 + side_m, 4_580_000)])])
    write_pmtiles(tmp_path / "a.pmtiles", graph_from_lines(line, CRS.from_epsg(32631)))
    facts = pyogrio.read_info(tmp_path / "a.pmtiles")["dataset_metadata"]
    assert (facts["minzoom"], facts["maxzoom"]) == (zoom, "15")


def test_tiles_are_no_network(tmp_path, graph):
    write_pmtiles(tmp_path / "a.pmtiles", graph)
    with pytest.raises(DataError, match=r"a\.pmtiles: tiles hold roads cut in pieces"):
        read_vectors(tmp_path / "a.pmtiles", list)


def test_every_new_geopackage_is_one_that_older_programs_read(tmp_path):
    table = gpd.GeoDataFrame(geometry=[shapely.LineString([(0, 0), (1, 1)])], crs=4326)
    write_layer(tmp_path / "a.gpkg", table, "GPKG")
    with closing(sqlite3.connect(tmp_path / "a.gpkg")) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (10200,)


@pytest.mark.parametrize(("write", "name"), WRITERS)
def test_a_full_disk_leaves_nothing(tmp_path, graph, largest_file, write, name):
    with largest_file(400), pytest.raises(OutputError, match=rf"{name}: cannot be written"):
        write(tmp_path / name, graph)
    assert list(tmp_path.iterdir()) == []
