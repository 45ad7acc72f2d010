"""Converting roads: what is kept, what is assumed, and what cannot be done."""

from dataclasses import replace

import geopandas as gpd
import numpy as np
import pytest
import shapely

from roadseg.commands.roads.convert import run
from roadseg.errors import ConfigError, DataError, OutputError
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.formats.osm_xml import write_osm


@pytest.fixture
def source(tmp_path, graph):
    write_gpkg(tmp_path / "city.gpkg", graph)
    return tmp_path / "city.gpkg"


@pytest.fixture
def lines(tmp_path):
    """Give a function that writes two roads that meet, with columns; return the file."""

    def write(**columns):
        shapes = [
            shapely.LineString([(430_000, 4_580_000), (430_100, 4_580_000)]),
            shapely.LineString([(430_100, 4_580_000), (430_100, 4_580_300)]),
        ]
        table = gpd.GeoDataFrame(columns, geometry=shapes, crs="EPSG:32631")
        table.to_file(tmp_path / "lines.gpkg")
        return tmp_path / "lines.gpkg"

    return write


def test_a_graph_is_the_same_graph_in_another_format(tmp_path, source, graph):
    summary = run(source, tmp_path / "b.graphml")
    assert (summary.nodes, summary.edges) == (len(graph.nodes), len(graph.lines))
    assert summary.road_km == pytest.approx(graph.length_m.sum() / 1000, abs=0.001)


def test_lines_are_joined_and_measured_and_keep_what_they_say(tmp_path, lines):
    summary = run(lines(surface=["asphalt", "gravel"], width=[6.5, 4.0]), tmp_path / "b.gpkg")
    found = read_gpkg(tmp_path / "b.gpkg")
    assert (summary.nodes, summary.edges, summary.assumed_share) == (3, 2, 1)
    assert found.length_m.tolist() == [100, 300]
    assert found.attributes["surface"].tolist() == ["asphalt", "gravel"]
    assert found.attributes["width_m"].tolist() == [6.5, 4.0]
    assert found.attributes["speed_kph"] == pytest.approx(40.2336)


def test_roads_that_cross_are_joined_if_asked_for(tmp_path):
    shapes = [shapely.LineString([(430_000, y), (430_100, 9e6 - y)]) for y in (4.5e6, 4.5e6 + 50)]
    gpd.GeoSeries(shapes, crs="EPSG:32631").to_file(tmp_path / "a.gpkg")
    assert run(tmp_path / "a.gpkg", tmp_path / "b.gpkg").nodes == 4
    assert run(tmp_path / "a.gpkg", tmp_path / "b.gpkg", node=True).nodes == 5


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        ({"fid": [5, 5], "surface": ["asphalt", "gravel"]}, {"surface"}),
        ({"Surface": ["a", "b"], "surface": ["c", "d"]}, {"Surface"}),
        ({"inferred": ["yes", "no"]}, {"inferred"}),
        ({"Layer": ["a", "b"], "bridge": ["yes", "no"]}, {"layer", "bridge"}),
        ({"LENGTH": [1, 2], "SPEED_KPH": [3, 4], "geom": [5, 6], "Lanes": [7, 8]}, {"Lanes"}),
    ],
)
def test_columns_that_a_geopackage_cannot_hold_are_no_obstacle(tmp_path, lines, columns, kept):
    table = gpd.read_file(lines()).assign(**columns)
    table.to_parquet(tmp_path / "lines.parquet")
    for name in ("b.gpkg", "c.gpkg"):  # A file of ours is read in another way.
        run(tmp_path / ("lines.parquet" if name == "b.gpkg" else "b.gpkg"), tmp_path / name)
    assert kept <= set(read_gpkg(tmp_path / "c.gpkg").attributes)


def test_it_says_on_how_much_of_the_length_speeds_are_assumed(tmp_path, lines):
    summary = run(lines(speed_kph=[50.0, np.nan]), tmp_path / "b.fgb")
    assert "speeds are assumed on 75.0% of the length" in str(summary)


def test_stated_speeds_are_said_to_be_nothing_else(tmp_path, lines):
    assert "assumed" not in str(run(lines(speed_kph=[50.0, 60.0]), tmp_path / "b.fgb"))


def test_frequent_tags_of_a_map_become_columns(tmp_path, graph):
    pytest.importorskip("osmium")
    told = {"surface": np.array(["gravel"] * 6, dtype=object)}
    write_gpkg(tmp_path / "a.gpkg", replace(graph, attributes={**graph.attributes, **told}))
    run(tmp_path / "a.gpkg", tmp_path / "b.osm.pbf")
    summary = run(tmp_path / "b.osm.pbf", tmp_path / "c.gpkg")
    assert read_gpkg(tmp_path / "c.gpkg").attributes["surface"].tolist() == ["gravel"] * 6
    assert {"aerialway", "other_tags", "z_order"}.isdisjoint(summary.attributes)


def test_an_earlier_file_is_replaced(tmp_path, source, lines):
    run(source, tmp_path / "b.shp")
    assert run(lines(), tmp_path / "b.shp").edges == 2
    assert len(gpd.read_file(tmp_path / "b.shp")) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("city.gpkg", "city.gpkg: is a file to read"),
        ("b.csv", "SpaceNet's csv has lines in the pixels of an image"),
        ("b.dxf", r"b\.dxf: use a file name that ends in \.gpkg, \.geojson"),
        ("b", r"b: use a file name that ends in"),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path, source, name, words):
    before = source.read_bytes()
    with pytest.raises(ConfigError, match=words):
        run(source, tmp_path / name)
    assert (source.read_bytes(), len(list(tmp_path.iterdir()))) == (before, 1)


def test_a_source_that_is_missing_or_cut_short_leaves_no_target(tmp_path, graph):
    write_osm(tmp_path / "a.osm", graph)
    whole = (tmp_path / "a.osm").read_bytes()
    (tmp_path / "a.osm").write_bytes(whole[: len(whole) // 2])
    for name in ("none.fgb", "a.osm"):
        with pytest.raises(DataError, match=name):
            run(tmp_path / name, tmp_path / "b.fgb")
    assert [path.name for path in tmp_path.iterdir()] == ["a.osm"]


def test_a_folder_that_cannot_be_written_is_said_in_one_line(source):
    with pytest.raises(OutputError, match="Not a directory"):
        run(source, source / "b.fgb")


def test_a_graph_without_georeference_has_no_degrees(tmp_path, local):
    write_gpkg(tmp_path / "a.gpkg", local)
    with pytest.raises(DataError, match="the format osm needs degrees"):
        run(tmp_path / "a.gpkg", tmp_path / "b.osm")
