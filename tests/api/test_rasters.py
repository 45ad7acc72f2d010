"""Arrays with their place are predicted and traced as the files that hold them."""

import re

import numpy as np
import pytest
import rasterio
from affine import Affine
from PIL import Image

import roadseg
from roadseg.errors import CheckpointError, ConfigError, DataError
from roadseg.learn.inference import jobs

FLAT = {"window_px": 64, "overlap_px": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def mask(city):
    with rasterio.open(city / "run" / "masks" / "city_0.tif") as source:
        return source.read(1), source.transform, source.crs


def test_an_array_is_predicted_as_its_file(image, checkpoint):
    with rasterio.open(image) as source:
        pixels, transform, crs = source.read(), source.transform, source.crs
    of_array = roadseg.predict(pixels, checkpoint, transform=transform, crs=crs, **FLAT)
    of_file = roadseg.predict(image, checkpoint, **FLAT)
    np.testing.assert_array_equal(of_array.road, of_file.road)
    assert of_array.grid == of_file.grid


def test_an_image_is_not_read_whole_for_a_key_that_nothing_keeps(image, checkpoint, monkeypatch):
    monkeypatch.setattr(jobs, "fingerprints", lambda *_: 1 / 0)
    assert roadseg.predict(image, checkpoint, **FLAT).road.any()


def test_the_starter_has_its_name(image):
    options = {"gsd": "auto", "scaling": "auto", "bands": (1, 1, 1), **FLAT}
    assert roadseg.predict(image, "starter", **options).edge_model is not None


def test_masked_pixels_hold_no_data(image, checkpoint):
    with rasterio.open(image) as source:
        pixels, transform, crs = np.ma.array(source.read()), source.transform, source.crs
    half = pixels.shape[-1] // 2
    pixels[:, :, :half] = np.ma.masked
    found = roadseg.predict(pixels, checkpoint, transform=transform, crs=crs, **FLAT)
    assert found.road[:, :half].max() == 0
    assert found.road[:, half:].max() > 0


def test_where_an_image_has_no_data_the_saved_probabilities_have_none(image, checkpoint, tmp_path):
    with rasterio.open(image) as source:
        pixels, transform, crs = np.ma.array(source.read()), source.transform, source.crs
    pixels[:, :, :40] = np.ma.masked
    found = roadseg.predict(pixels, checkpoint, transform=transform, crs=crs, **FLAT)
    with rasterio.open(found.save(tmp_path / "probabilities.tif")) as source:
        known = source.dataset_mask() > 0
    assert known.all(axis=0).tolist() == [False] * 40 + [True] * (pixels.shape[2] - 40)
    assert (roadseg.read_graph(found).drawn.valid == known).all()


def test_an_array_without_a_place_has_metres_of_its_own(image, checkpoint):
    with rasterio.open(image) as source:
        pixels, gsd_m = source.read(), source.transform.a
    found = roadseg.predict(pixels, checkpoint, gsd_m=gsd_m, **FLAT)
    assert found.grid.is_local
    assert found.grid.pixel_size_m == pytest.approx((gsd_m, gsd_m))


@pytest.mark.parametrize(
    "as_kind", [np.bool_, lambda road: np.uint8(road) * np.uint8(255), np.float32]
)
def test_bools_bytes_and_shares_are_traced_alike(mask, as_kind):
    pixels, transform, crs = mask
    road = (pixels > 0) & (pixels < 255)
    whole = roadseg.trace(road, transform=transform, crs=crs)
    found = roadseg.trace(as_kind(road), transform=transform, crs=crs)
    assert found.edges.equals(whole.edges)
    assert found.length_km > 0.1


def test_a_traced_array_lies_where_the_file_lies(mask, city):
    pixels, transform, crs = mask
    found = roadseg.trace((pixels > 0) & (pixels < 255), transform=transform, crs=crs)
    of_file = roadseg.trace(city / "run" / "masks" / "city_0.tif")
    assert found.edges.crs == of_file.edges.crs
    assert found.edges.geometry.equals(of_file.edges.geometry)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32])
def test_masked_pixels_are_no_road(dtype):
    road = np.zeros((60, 60), dtype)
    road[20:30] = 1 if dtype != np.uint8 else 255
    pixels = np.ma.masked_array(np.ones_like(road) * road.max(), mask=road == 0)
    found, expected = (roadseg.trace(each, gsd_m=1) for each in (pixels, road))
    assert found.edges.equals(expected.edges)


def test_probabilities_that_just_reach_the_threshold_are_road():
    road = np.zeros((60, 60))
    road[27:33] = 0.5
    assert roadseg.trace(road, gsd_m=1, threshold=0.5).length_km == pytest.approx(0.06, abs=0.002)
    assert roadseg.trace(road, gsd_m=1, threshold=0.51).length_km == 0


def test_an_array_without_a_place_is_traced_where_its_file_is(mask, tmp_path):
    road = (mask[0] > 0) & (mask[0] < 255)
    path = tmp_path / "mask.png"
    Image.fromarray(np.uint8(road) * np.uint8(255)).save(path)
    found, expected = (roadseg.trace(each, gsd_m=0.5) for each in (road, path))
    assert found.edges.geometry.equals(expected.edges.geometry)


def test_a_file_without_a_coordinate_system_is_traced_in_the_given_one(write_raster):
    mask = np.zeros((60, 60), np.uint8)
    mask[20:30] = 1
    path = write_raster(mask, crs=None)
    assert roadseg.trace(path, crs="EPSG:32611").edges.crs == "EPSG:32611"


@pytest.mark.parametrize(
    ("pixels", "place", "message"),
    [
        ("a.tif", {"transform": Affine.scale(1, -1)}, "a.tif: transform is only for arrays"),
        (np.zeros((4, 4), bool), {}, "has no location; expected transform"),
        (
            np.zeros((4, 4), bool),
            {"gsd_m": 0},
            "expected transform and crs, as in rasterio, or gsd_m",
        ),
        (np.zeros((4, 4), bool), {"crs": 32632, "gsd_m": 1}, "has a crs but no transform"),
        (np.zeros((2, 4, 4), bool), {"gsd_m": 1}, "has shape (2, 4, 4), expected (row, col)"),
        (np.zeros((0, 4), bool), {"gsd_m": 1}, "has shape (0, 4), expected (row, col)"),
        (np.full((4, 4), 1.1), {"gsd_m": 1}, "float64 from 1.1 to 1.1, expected bool, uint8"),
        (np.zeros((4, 4), np.int32), {"gsd_m": 1}, "int32 from 0 to 0, expected bool, uint8"),
        (np.eye(4, dtype=np.uint8), {"gsd_m": 1}, "uint8 up to 1, expected 255 for certain"),
        (np.zeros((4, 4), bool), {"transform": Affine.scale(1, -1)}, "has a transform but no crs"),
        (
            np.zeros((4, 4), bool),
            {"transform": Affine.scale(1, -1), "crs": "EPSG:1"},
            "crs: EPSG:1 is not a coordinate system known to PROJ",
        ),
        (None, {}, "found NoneType, expected the path of a file, or an array of numpy"),
        ([[True]], {"gsd_m": 1}, "found list, expected the path of a file, or an array of numpy"),
    ],
)
def test_arrays_that_cannot_be_traced_are_refused_in_one_line(pixels, place, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        roadseg.trace(pixels, **place)
    assert "\n" not in str(caught.value)


def test_probabilities_that_are_nowhere_known_are_no_road():
    assert roadseg.trace(np.full((4, 4), np.nan), gsd_m=1).length_km == 0


@pytest.mark.parametrize("dtype", ["bool", "object", "U3", "float16"])
def test_arrays_that_are_no_pixels_are_refused(checkpoint, dtype):
    with pytest.raises(ConfigError, match="is not a type of pixels, expected one such as uint8, "):
        roadseg.predict(np.ones((3, 64, 64)).astype(dtype), checkpoint, gsd_m=1, **FLAT)


def test_the_order_of_bytes_in_an_array_does_not_matter(image, checkpoint):
    with rasterio.open(image) as source:
        pixels = source.read().astype("uint16")
    swapped = pixels.astype(">u2")
    one, other = (
        roadseg.predict(each, checkpoint, gsd_m=1, scaling="auto", **FLAT).road
        for each in (pixels, swapped)
    )
    assert np.array_equal(one, other)


def test_errors_speak_of_the_array_and_not_of_a_file(image, checkpoint):
    with rasterio.open(image) as source:
        pixels = source.read()
    with pytest.raises((CheckpointError, DataError), match=r"^the array") as caught:
        roadseg.predict(pixels[:2], checkpoint, gsd_m=0.6, **FLAT)
    assert "/roadseg-" not in str(caught.value)
    with pytest.raises(ConfigError, match="transform is only for arrays"):
        roadseg.predict(image, checkpoint, transform=Affine.scale(1, -1), **FLAT)
    with pytest.raises(ConfigError, match=re.escape("the array: has shape (4,), expected (band")):
        roadseg.predict(np.zeros(4, np.uint8), checkpoint, gsd_m=0.6, **FLAT)
