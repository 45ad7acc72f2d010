import json

import geopandas
import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.io.roads import read_roads

UTM = CRS.from_epsg(32611)
LINE = {"type": "LineString", "coordinates": [[2.28, 48.98], [2.29, 48.98]]}
POINT = {"type": "Point", "coordinates": [2.28, 48.98]}
CRS84 = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}


@pytest.fixture
def write(tmp_path):
    """Give a function that writes features, each geometry and properties, as GeoJSON."""

    def make(*features, **more):
        path = tmp_path / "roads.geojson"
        found = [{"type": "Feature", "geometry": g, "properties": p} for g, p in features]
        path.write_text(json.dumps({"type": "FeatureCollection", "features": found, **more}))
        return path

    return make


def read(path, **options):
    return read_roads(path, default_mph=25, **options)


def test_lines_come_with_their_speeds(write):
    roads = read(write((LINE, {"speed_mph": 45}), (LINE, {"highway": "tertiary"}))).roads
    assert roads.speed_mph.tolist() == [45, 30]
    assert roads.speed_source.tolist() == ["speed_mph", "highway"]


def test_roads_without_attributes_have_the_default_speed(write):
    roads = read(write((LINE, {}))).roads
    assert (roads.speed_mph.tolist(), roads.speed_source.tolist()) == ([25], ["default"])


@pytest.mark.parametrize("key", ["lane_number", "lane_numbe"])
def test_numbers_may_be_strings_under_both_spellings(write, key):
    assert read(write((LINE, {"road_type": "1", key: "3"}))).roads.speed_mph.tolist() == [65]


def test_a_value_that_one_feature_lacks_is_not_taken_from_another(write):
    roads = read(write((LINE, {"speed_mph": 45}), (LINE, {"speed_mph": None}), (LINE, {}))).roads
    assert roads.speed_mph.tolist() == [45, 25, 25]


def test_speeds_stay_with_their_lines_when_some_are_left_out(write):
    multi = {"type": "MultiLineString", "coordinates": [LINE["coordinates"]] * 2}
    found = read(write((None, {"speed_mph": 1}), (multi, {"speed_mph": 2}), (POINT, {})))
    assert found.roads.speed_mph.tolist() == [2, 2]
    assert (found.features, found.dropped) == (3, {"null": 1, "not a line": 1})


@pytest.mark.parametrize("crs", [{}, {"crs": CRS84}], ids=["none", "CRS84"])
def test_geojson_is_in_degrees_x_before_y(write, crs):
    roads = read(write((LINE, {}), **crs)).roads
    assert shapely.get_coordinates(roads.to_crs(CRS.from_epsg(4326)).lines)[0].tolist() == [
        2.28,
        48.98,
    ]
    assert np.allclose(
        shapely.get_coordinates(roads.to_crs(CRS.from_epsg(32631)).lines)[0],
        [447315, 5425413],
        atol=100,
    )


def test_geojson_keeps_the_crs_that_it_names(write):
    named = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32611"}}
    assert read(write((LINE, {}), crs=named)).roads.crs == UTM


def test_a_file_without_features_is_a_scene_without_roads(write):
    found = read(write())
    assert (len(found.roads.lines), found.features, found.dropped) == (0, 0, {})


def test_the_keys_of_the_attributes_are_told(write):
    assert read(write((LINE, {"highway": "road", "name": "A"}))).keys == ("highway", "name")


def test_a_coordinate_that_is_nan_is_counted(write):
    broken = {"type": "LineString", "coordinates": [[float("nan"), 48.98], [2.29, 48.98]]}
    found = read(write((LINE, {}), (broken, {})))
    assert (len(found.roads.lines), found.dropped) == (1, {"not finite": 1})


def test_a_line_of_one_point_is_counted(write):
    broken = {"type": "LineString", "coordinates": [[2.28, 48.98]]}
    found = read(write((LINE, {}), (broken, {})))
    assert (len(found.roads.lines), found.dropped.total()) == (1, 1)


@pytest.mark.parametrize(
    ("geometry", "reason"), [(None, "1 null"), (POINT, "1 not a line")], ids=["null", "point"]
)
def test_a_file_whose_features_have_no_line_is_refused(write, geometry, reason):
    with pytest.raises(DataError, match=rf"none of its 1 features is a road line \({reason}\)"):
        read(write((geometry, {})))


def test_ways_that_are_not_for_cars_are_counted_and_left_out(write):
    ways = [(LINE, {"highway": way}) for way in ("footway", "primary", "steps")]
    found = read(write(*ways))
    assert found.roads.speed_mph.tolist() == [45]
    assert found.dropped == {"no road for cars": 2}


def test_a_file_of_ways_that_are_not_for_cars_is_refused(write):
    with pytest.raises(DataError, match=r"none of its 1 features is a road line \(1 no road for"):
        read(write((LINE, {"highway": "footway"})))


def test_of_several_layers_the_one_with_lines_is_read(tmp_path):
    path = tmp_path / "graph.gpkg"
    shapes = {"nodes": shapely.Point(0, 0), "edges": shapely.LineString([(0, 0), (3, 4)])}
    for layer, shape in shapes.items():
        geopandas.GeoDataFrame({"a": [1]}, geometry=[shape], crs=UTM).to_file(path, layer=layer)
    assert shapely.length(read(path).roads.lines).tolist() == [5]


@pytest.mark.parametrize("suffix", ["gpkg", "shp", "fgb"])
def test_other_formats_are_read_alike(tmp_path, suffix):
    frame = geopandas.GeoDataFrame(
        {"speed_mph": [45.0]}, geometry=[shapely.LineString([(0, 0), (3, 4)])], crs=UTM
    )
    frame.to_file(tmp_path / f"roads.{suffix}")
    roads = read(tmp_path / f"roads.{suffix}").roads
    assert roads.crs.to_epsg() == 32611
    assert (shapely.length(roads.lines), roads.speed_mph) == (5, 45)


@pytest.fixture
def placeless(tmp_path):
    """Write a shapefile without its .prj."""
    line = shapely.LineString([(0, 0), (3, 4)])
    geopandas.GeoDataFrame({"a": [1]}, geometry=[line], crs=UTM).to_file(tmp_path / "roads.shp")
    (tmp_path / "roads.prj").unlink()
    return tmp_path / "roads.shp"


def test_a_file_without_a_crs_is_refused(placeless):
    with pytest.raises(DataError, match=r"no coordinate system found, .*; set labels\.crs"):
        read(placeless)


def test_a_file_without_a_crs_takes_the_given_one(placeless):
    assert read(placeless, crs=UTM).roads.crs == UTM


def test_a_file_keeps_its_own_crs(write):
    assert read(write((LINE, {})), crs=UTM).roads.crs.to_epsg() == 4326


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "roads.geojson").touch()
    with pytest.raises(DataError, match="the file is empty, expected a vector file with road line"):
        read(tmp_path / "roads.geojson")


@pytest.mark.parametrize(
    "text", ["<html>not found</html>", '{"type": "FeatureCollection", "features": [{"ty', "[1, 2]"]
)
def test_a_file_that_is_no_vector_file_is_refused(tmp_path, text):
    (tmp_path / "roads.geojson").write_text(text)
    with pytest.raises(DataError, match=r"roads\.geojson: not a readable vector file \(") as caught:
        read(tmp_path / "roads.geojson")
    assert "\n" not in str(caught.value)


def test_a_table_without_geometry_is_refused(tmp_path):
    (tmp_path / "roads.csv").write_text("name,speed_mph\nA,25\n")
    with pytest.raises(DataError, match=r"roads\.csv: has no geometry, expected road lines"):
        read(tmp_path / "roads.csv")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"roads\.geojson does not exist"):
        read(tmp_path / "roads.geojson")


@pytest.mark.real
@pytest.mark.parametrize("number", [990, 991, 995, 997])
def test_spacenet_labels_of_vegas_are_read_whole(real_data, number):
    labels = real_data / "spacenet" / "labels_only" / "spacenetroads"
    found = read(labels / f"AOI_2_Vegas_img{number}.geojson")
    assert len(found.roads.lines) >= found.features > 0
    assert set(found.roads.speed_source) == {"road_type"}


@pytest.mark.real
@pytest.mark.parametrize("number", [990, 991, 995, 997])
def test_osm_labels_of_vegas_are_read_whole(real_data, number):
    found = read(
        real_data / "spacenet" / "labels_only" / "osm" / f"AOI_2_Vegas_img{number}.geojson"
    )
    assert len(found.roads.lines) >= found.features > 0
    assert "highway" in found.roads.speed_source


@pytest.mark.real
def test_the_stated_speeds_of_vegas_are_taken(real_data):
    (labels,) = (real_data / "spacenet" / "vegas").glob("*.geojson")
    found = read(labels)
    assert (found.features, set(found.roads.speed_source)) == (38, {"speed_mph"})
