"""Audits of files: layers with styles, figures, and one line for bad input."""

import json
import sqlite3

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from affine import Affine
from pyproj import CRS
from rasterio.features import rasterize

from roadseg.commands.roads.audit import run
from roadseg.errors import ConfigError, DataError
from roadseg.roads.audit.tables import shift_text
from roadseg.roads.options import AuditOptions

UTM = CRS.from_epsg(32632)
X, Y, SIDE_M = 477_000.0, 5_473_000.0, 300
STREETS = {"1": [(20, 150), (280, 150)], "2": [(20, 50), (280, 50)], "3": [(20, 250), (280, 250)]}
ROADS = [[(20, 150), (280, 150)], [(20, 57), (280, 57)]]  # of the image


def line(coordinates):
    return shapely.LineString(np.add(coordinates, (X, Y)))


@pytest.fixture
def image(write_raster):
    """Give the path of a probability raster of the roads; what is east of 220 m has no data."""
    place = {"crs": UTM.to_wkt(), "transform": Affine(0.5, 0, X, 0, -0.5, Y + SIDE_M)}
    shapes = [(line(road).buffer(4), 250) for road in ROADS]
    road = rasterize(shapes, (600, 600), transform=place["transform"], fill=1, dtype="uint8")
    road[:, 440:] = 255
    path = write_raster(road, name="city.tif", nodata=255, **place)
    with rasterio.open(path, "r+") as file:
        file.update_tags(ROADSEG_THRESHOLD="0.45")
    return path


@pytest.fixture
def roads(tmp_path):
    """Give the path of a map of three streets."""
    facts = {"osm_id": [*STREETS], "name": ["Confirmed", "Shifted", "Unseen"]}
    facts |= {"highway": "residential", "status": "old", "fid": [7, 8, 9]}
    table = gpd.GeoDataFrame(facts, geometry=[*map(line, STREETS.values())], crs=UTM)
    table.to_crs(4326).to_file(tmp_path / "map.geojson", driver="GeoJSON")
    return tmp_path / "map.geojson"


def test_figures_of_a_map(roads, image):
    found = run(roads, image)
    km = {each.status: each.km for each in found.statuses}
    assert km == {
        "confirmed": pytest.approx(0.2, abs=0.003),
        "shifted": pytest.approx(0.2, abs=0.003),
        "not seen": pytest.approx(0.2, abs=0.003),
        "no data": pytest.approx(0.18, abs=0.009),
    }
    assert found.threshold == (0.45, 0.45)
    assert "3 ways on 1 raster; shifted means at least 4.0 m away" in str(found)


def test_a_map_that_lies_too_far_south_has_to_be_moved_north(image, tmp_path):
    ways = [line(np.subtract(road, (0, 2))) for road in ROADS]
    table = gpd.GeoDataFrame({"highway": ["residential"] * 2}, geometry=ways, crs=UTM)
    table.to_file(tmp_path / "south.gpkg")
    found = run(tmp_path / "south.gpkg", image)
    assert (found.shift_east_m, found.shift_north_m) == pytest.approx((0, 2), abs=0.3)


@pytest.mark.parametrize(
    ("shift_m", "words"),
    [
        ((0.06, 0.06), "on average, the map fits the image to within 0.1 m"),
        (
            (0.1, -2.0),
            "the roads of the image lie 0.1 m to the east and 2.0 m to the south of the m",
        ),
        ((float("nan"), float("nan")), ""),
    ],
)
def test_the_shift_of_the_map_in_words(shift_m, words):
    assert words in shift_text(shift_m)


def test_layers_keep_the_attributes_of_the_map(roads, image, tmp_path):
    run(roads, image, output=tmp_path / "audit.gpkg")
    layers = pyogrio.list_layers(tmp_path / "audit.gpkg")[:, 0].tolist()
    assert layers[:3] == ["stretches", "ways", "summary"]
    ways = pyogrio.read_dataframe(tmp_path / "audit.gpkg", layer="ways")
    assert ways["osm_id"].tolist() == ["1", "2", "3"]
    assert ways["rank"].tolist() == [3, 2, 1]
    assert ways["map_status"].tolist() == ["old"] * 3
    assert ways["status"].tolist() == ["confirmed", "shifted", "not seen"]
    stretches = pyogrio.read_dataframe(tmp_path / "audit.gpkg", layer="stretches")
    assert stretches["osm_id"].tolist() == [str(way) for way in stretches["way"]]
    assert stretches.geometry.length.tolist() == pytest.approx(stretches["length_m"], abs=0.01)


def test_qgis_colours_both_layers_by_status(roads, image, tmp_path):
    run(roads, image, output=tmp_path / "audit.gpkg")
    with sqlite3.connect(tmp_path / "audit.gpkg") as file:
        rows = file.execute("SELECT f_table_name, styleQML, useAsDefault FROM layer_styles")
        styles = {name: (qml, default) for name, qml, default in rows}
    assert set(styles) == {"stretches", "ways"}
    assert all('attr="status"' in qml and default for qml, default in styles.values())
    assert styles["ways"][0].count("<category ") == 4


@pytest.mark.parametrize("folder", ["folder", "run/probabilities"])
def test_a_folder_of_rasters_or_of_a_run_is_read(roads, image, tmp_path, folder):
    (tmp_path / folder).mkdir(parents=True)
    image.rename(tmp_path / folder / "city.tif")
    assert run(roads, tmp_path / folder.split("/")[0]).probabilities == 1


def test_a_vrt_is_read(roads, image, tmp_path):
    with rasterio.open(image) as source, rasterio.vrt.WarpedVRT(source, crs="EPSG:4326") as warped:
        rasterio.shutil.copy(warped, tmp_path / "city.vrt", driver="VRT")
    found = {each.status: each.km for each in run(roads, tmp_path / "city.vrt").statuses}
    assert found["shifted"] == pytest.approx(0.2, abs=0.003)


def refused(match, roads, image, tmp_path, kind=DataError, *, output=None):
    output = output or tmp_path / "out.gpkg"
    before = sorted(tmp_path.iterdir())
    with pytest.raises(kind, match=match) as told:
        run(roads, image, output=output)
    assert "\n" not in str(told.value)
    assert sorted(tmp_path.iterdir()) == before


def test_the_map_of_another_place_is_refused(image, tmp_path):
    far = gpd.GeoDataFrame({"id": [1]}, geometry=[shapely.LineString([(1, 1), (1, 2)])], crs=4326)
    far.to_file(tmp_path / "far.geojson", driver="GeoJSON")
    refused("none of its 1 ways touches", tmp_path / "far.geojson", image, tmp_path)


def test_a_raster_without_georeference_is_refused(roads, write_raster, tmp_path):
    write_raster(bands=1, name="plain.tif", crs=None, transform=Affine.identity())
    why = "plain.tif: has no georeference, so the ways of the map cannot be placed on it; add one"
    refused(why, roads, tmp_path / "plain.tif", tmp_path)


def test_the_map_itself_is_not_overwritten(roads, image, tmp_path):
    gpd.read_file(roads).to_file(tmp_path / "map.gpkg")
    before = (tmp_path / "map.gpkg").read_bytes()
    source, output = tmp_path / "map.gpkg", tmp_path / "." / "map.gpkg"
    refused("is a file to read", source, image, tmp_path, ConfigError, output=output)
    assert source.read_bytes() == before


def test_other_suffixes_are_refused_before_anything_is_read(tmp_path):
    missing, output = tmp_path / "missing", tmp_path / "out.shp"
    refused("use a file name that ends in", missing, missing, tmp_path, ConfigError, output=output)


@pytest.mark.parametrize(("min_shift_m", "status"), [(6.5, "shifted"), (7.5, "confirmed")])
def test_the_least_shift_is_an_option(roads, image, min_shift_m, status):
    found = run(roads, image, options=AuditOptions(min_shift_m=min_shift_m))
    assert {each.status: each.km > 0 for each in found.statuses}["shifted"] is (status == "shifted")


@pytest.mark.parametrize(("given", "used"), [("0.7", [0.7, 0.7]), ("auto", [0.45, 0.45])])
def test_the_threshold_is_a_number_or_auto(call, roads, image, given, used):
    result = call("audit", roads, "--probabilities", image, "--threshold", given, "--json")
    assert json.loads(result.stdout)["threshold"] == used
