"""Masks in memory are those that `roadseg prepare` writes."""

import re

import geopandas as gpd
import numpy as np
import pytest
import rasterio

import roadseg
from roadseg.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def paths(city):
    return city / "roads" / "city_0.geojson", city / "images" / "city_0.tif"


@pytest.fixture(scope="module")
def mask(city, paths):
    config = roadseg.load_config(city / "roadseg.json")
    return roadseg.burn(*paths, gsd_m=config.imagery.gsd_m)


def test_a_mask_is_that_of_prepare(city, mask):
    with rasterio.open(city / "run" / "masks" / "city_0.tif") as source:
        np.testing.assert_array_equal(mask.pixels, source.read(1))
        assert mask.grid.transform == source.transform


def test_a_saved_mask_is_traced_as_the_one_in_memory(mask, tmp_path):
    path = mask.save(tmp_path / "mask.tif")
    assert roadseg.trace(mask).edges.equals(roadseg.trace(path).edges)


def test_labels_may_be_a_table(paths, mask):
    labels, image = paths
    table = gpd.read_file(labels)
    with rasterio.open(image) as source:
        gsd_m = source.transform.a * source.width / mask.pixels.shape[1]
    assert roadseg.burn(table, image, gsd_m=gsd_m).road.sum() == mask.road.sum()


def test_labels_are_moved(paths):
    labels, image = paths
    table = gpd.read_file(labels)
    table = table.to_crs(table.estimate_utm_crs())
    moved = table.set_geometry(table.translate(6, -3))
    expected = roadseg.burn(moved, image).pixels
    np.testing.assert_array_equal(roadseg.burn(labels, image, shift=[6, -3]).pixels, expected)


def test_a_table_without_crs_needs_one(paths):
    labels, image = paths
    table = gpd.read_file(labels).set_crs(None, allow_override=True)
    with pytest.raises(DataError, match=r"^the GeoDataFrame: has no .* with set_crs"):
        roadseg.burn(table, image)
    expected = roadseg.burn(labels, image).pixels
    np.testing.assert_array_equal(roadseg.burn(table, image, crs="EPSG:4326").pixels, expected)


def test_a_mask_shows_itself(mask):
    assert re.fullmatch(r"<Mask: \d+ x \d+ pixels, \d+\.\d% road>", repr(mask))
    assert mask._repr_png_().startswith(b"\x89PNG")


def test_options_and_places_that_do_not_fit_are_errors(paths):
    labels, image = paths
    with pytest.raises(ConfigError, match=r"buffer: no such option, expected one of .*buffer_m"):
        roadseg.burn(labels, image, buffer=3)
    table = gpd.read_file(labels)
    far = table.set_geometry(table.geometry.translate(10))
    with pytest.raises(DataError, match=r"^the GeoDataFrame: none of its \d+ roads touches"):
        roadseg.burn(far, image)
