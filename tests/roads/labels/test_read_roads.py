import json
from collections import Counter

import geopandas as gpd
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES
from roadseg.roads.labels.roads import read_roads
from roadseg.roads.options import LabelOptions

UTM = CRS.from_epsg(32611)
XY = [[2.28, 48.98], [2.29, 48.98]]
LINE = {"type": "LineString", "coordinates": XY}
REVERSED = {"type": "LineString", "coordinates": XY[::-1]}
POINT = {"type": "Point", "coordinates": [2.28, 48.98]}
BOW_TIE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}
METRES = {"type": "LineString", "coordinates": [[660000, 4000000], [660003, 4000004]]}
SWAPPED = {"type": "LineString", "coordinates": [[36.2, -115.1], [36.3, -115.1]]}


def named(name):
    return {"type": "name", "properties": {"name": name}}


@pytest.fixture
def write(tmp_path):
    """Give a function that writes features, each geometry and properties, as GeoJSON."""

    def make(*features, **more):
        path = tmp_path / "roads.geojson"
        found = [{"type": "Feature", "geometry": g, "properties": p} for g, p in features]
        path.write_text(json.dumps({"type": "FeatureCollection", **more, "features": found}))
        return path

    return make


def line(number):
    return {"type": "LineString", "coordinates": [[0, number], [1, number]]}


def test_roads_have_the_width_that_the_scheme_finds(write):
    path = write((line(0), {"w": 7.5}), (line(1), {"w": None}))
    options = LabelOptions(width="attribute", width_key="w", buffer_m=2)
    assert read_roads(path, options=options).roads.width_m.tolist() == [7.5, 4]


def test_speeds_stay_with_their_lines_when_some_are_left_out(write):
    multi = {"type": "MultiLineString", "coordinates": [XY, [[0, 0], [1, 1]]]}
    found = read_roads(write((None, {"speed_mph": 1}), (multi, {"speed_mph": 2}), (POINT, {})))
    assert found.roads.speed_mph.tolist() == [2, 2]
    assert (found.features, found.dropped) == (3, {"null": 1, "a point": 1})


def test_lines_of_one_label_share_its_travel_time_by_their_length(write):
    multi = {"type": "MultiLineString", "coordinates": [[[0, 0], [1, 0]], [[0, 1], [3, 1]]]}
    found = read_roads(write((multi, {"travel_time": 8}), (LINE, {"travel_time": 5})))
    assert found.roads.travel_time_s.tolist() == [2, 6, 5]


def broken(*coordinates):
    return {"type": "LineString", "coordinates": coordinates}, {}


FOOTWAY, PRIMARY = (LINE, {"highway": "footway"}), (LINE, {"highway": "primary"})


@pytest.mark.parametrize(
    ("features", "roads", "dropped"),
    [
        ([], 0, {}),
        ([FOOTWAY], 0, {"not for cars": 1}),
        ([FOOTWAY, PRIMARY], 1, {"not for cars": 1}),
        ([(LINE, {}), broken([float("nan"), 48.98], XY[1])], 1, {"not finite": 1}),
        ([(LINE, {}), broken([float("inf"), 48.98], XY[1])], 1, {"not finite": 1}),
        ([(LINE, {}), broken(XY[0]), (None, {})], 1, {"broken": 1, "null": 1}),
        ([(LINE, {}), (REVERSED, {})], 1, {"duplicate": 1}),
    ],
    ids=[
        *("none", "footways only", "a duplicate of one left out", "NaN", "infinity", "one point"),
        "drawn twice",
    ],
)
def test_features_that_are_no_roads_are_counted_and_left_out(write, features, roads, dropped):
    found = read_roads(write(*features))
    assert (len(found.roads.shapes), found.features) == (roads, len(features))
    assert found.dropped == dropped


def test_a_key_that_the_file_lacks_is_refused(write):
    with pytest.raises(DataError, match=r"roads\.geojson: no attribute 'vmax' .*: name"):
        read_roads(
            write((LINE, {"name": "A"})), options=LabelOptions(scheme="attribute", speed_key="vmax")
        )


def test_a_file_without_features_needs_no_speed_attribute(write):
    options = LabelOptions(scheme="attribute", speed_key="vmax")
    assert len(read_roads(write(), options=options).roads.shapes) == 0


@pytest.mark.parametrize(
    ("geometry", "reason"),
    [
        (None, r"none of its 1 features is a road \(1 null\)"),
        (POINT, r"no layer with lines or polygons \(found roads: Point\)"),
    ],
    ids=["null", "point"],
)
def test_a_file_of_features_that_are_no_roads_is_refused(write, geometry, reason):
    with pytest.raises(DataError, match=reason):
        read_roads(write((geometry, {})))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"crs": named("urn:ogc:def:crs:OGC:1.3:CRS84")},
        {"crs": named("EPSG:4326")},
        {"crs": None},
    ],
    ids=["none", "CRS84", "EPSG", "null"],
)
def test_geojson_is_in_degrees_x_before_y(write, more):
    roads = read_roads(write((LINE, {}), **more)).roads
    assert roads.crs == DEGREES
    assert shapely.get_coordinates(roads.shapes).tolist() == XY


@pytest.mark.parametrize("crs", [named("urn:ogc:def:crs:EPSG::999999"), None])
def test_metres_in_geojson_of_an_unknown_crs_are_refused(write, crs):
    told = r"roads\.geojson: .*system.*, and x 660000, y 4000000 are not degrees; set labels\.crs"
    with pytest.raises(DataError, match=told):
        read_roads(write((METRES, {}), crs=crs))


@pytest.mark.parametrize(
    ("geometry", "stated", "given", "crs"),
    [
        (METRES, named("urn:ogc:def:crs:EPSG::32611"), DEGREES, UTM),
        (METRES, named("EPSG:32611"), DEGREES, UTM),
        (METRES, named("EPSG:999999"), UTM, UTM),
        (METRES, None, UTM, UTM),
        (LINE, None, UTM, DEGREES),
        (SWAPPED, None, UTM, DEGREES),
    ],
    ids=["URN", "name", "unknown", "metres", "degrees", "swapped degrees"],
)
def test_the_given_crs_counts_where_geojson_has_none(write, geometry, stated, given, crs):
    path = write((geometry, {"crs": "here"}), crs=stated)  # A property is no CRS.
    assert read_roads(path, crs=given).roads.crs == crs


@pytest.mark.parametrize(
    ("prj", "told"),
    [
        (
            'LOCAL_CS["site",UNIT["metre",1]]',
            r"""'LOCAL_CS\["site".* is not known; set labels\.crs""",
        ),
        (
            None,
            r"roads\.shp: no coordinate system found; set labels\.crs .* of a run; .* ogr2ogr",
        ),
    ],
)
def test_a_file_without_a_place_on_earth_takes_the_given_one(tmp_path, prj, told):
    path = tmp_path / "roads.shp"
    line = shapely.LineString([(0, 0), (3, 4)])
    gpd.GeoDataFrame({"a": [1]}, geometry=[line], crs=UTM).to_file(path)
    path.with_suffix(".prj").unlink()
    if prj:
        path.with_suffix(".prj").write_text(prj)
    assert read_roads(path, crs=UTM).roads.crs == UTM
    with pytest.raises(DataError, match=told):
        read_roads(path)


@pytest.mark.real
@pytest.mark.parametrize(("folder", "source"), [("spacenetroads", "road_type"), ("osm", "highway")])
@pytest.mark.parametrize("number", [990, 991, 995, 997])
def test_labels_of_vegas_are_read_whole(real_data, folder, source, number):
    labels = real_data / "spacenet" / "labels_only" / folder
    found = read_roads(labels / f"AOI_2_Vegas_img{number}.geojson")
    assert len(found.roads.shapes) + found.dropped.total() >= found.features > 0
    assert source in found.roads.speed_source
    assert found.scheme == {"spacenetroads": "spacenet"}.get(folder, found.scheme)


@pytest.mark.real
def test_the_stated_speeds_of_vegas_are_taken(real_data):
    (labels,) = (real_data / "spacenet" / "vegas").glob("*.geojson")
    found = read_roads(labels)
    assert (found.features, set(found.roads.speed_source)) == (38, {"speed_mph"})


@pytest.mark.real
def test_a_compressed_city_is_read_whole(real_data):
    found = read_roads(real_data / "osm" / "rhein_neckar_highways.geojson.gz")
    assert (found.features, found.scheme) == (37344, "osm")
    assert Counter(found.roads.speed_source.tolist()) == {"maxspeed": 24815, "highway": 12458}
    assert found.dropped == {"tunnel": 67, "duplicate": 4}
