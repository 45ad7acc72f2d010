from dataclasses import replace

import numpy as np
import pytest
import rasterio
from affine import Affine

from roadseg.errors import CheckpointError, ConfigError, DataError
from roadseg.learn.inference.compatibility import require_fit, scaling_to_predict, scene_to_predict
from roadseg.raster.images import read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import read_window
from roadseg.raster.scaling import Scaling

BYTES = Scaling({"uint8": ((0.0, 255.0),) * 3}, mean=(90.0,) * 3, std=(20.0,) * 3)
TRAINED = {"bands": [1, 2, 3], "gsd_m": 1.0, "resample_m": None, "nodata": None}


def fit(image, trained=None, *, gsd="strict", **imagery):
    facts = TRAINED | (trained or {})
    return scene_to_predict(image, facts, imagery=ImageryOptions(**imagery), gsd=gsd)


@pytest.fixture
def scene(make_scene, tmp_path):
    """Give a function that writes a scene; return its image."""

    def write(**options):
        return make_scene(tmp_path, "scene", **options)[0]

    return write


@pytest.fixture
def off(scene):
    """Give a function that returns a scene and facts whose pixels differ by so many percent."""
    found = read_facts(scene())
    size_m = sum(found.grid.pixel_size_m) / 2
    return lambda percent: (found, {"gsd_m": size_m / (1 + percent / 100)})


def describe(image, *names):
    with rasterio.open(image, "r+") as target:
        target.descriptions = names
    return image


@pytest.mark.parametrize("percent", [-19.9, 0, 19.9])
def test_pixels_of_about_the_size_of_the_training_are_taken_as_they_are(off, percent):
    found, trained = off(percent)
    assert require_fit(found, trained, gsd="strict") == found
    assert require_fit(found, trained, gsd="auto") == found


@pytest.mark.parametrize("percent", [-20.1, 20.1])
def test_pixels_of_another_size_are_refused(off, percent):
    found, trained = off(percent)
    message = r"scene\.tif: pixels of 1 m, .* trained on \S+ m; .* --gsd auto .* imagery\.gsd_m"
    with pytest.raises(CheckpointError, match=message):
        require_fit(found, trained, gsd="strict")


@pytest.mark.parametrize(("percent", "size_px"), [(-20.1, 51), (20.1, 77)])
def test_pixels_of_another_size_are_resampled_on_request(off, percent, size_px):
    found, trained = off(percent)
    fitting = require_fit(found, trained, gsd="auto")
    assert (fitting.grid.height, fitting.grid.width) == (size_px, size_px)
    assert read_window(fitting, (0, 0, size_px, size_px))[0].shape == (3, size_px, size_px)


@pytest.mark.parametrize(("gsd_m", "fits"), [(0.45, True), (0.35, False)])
def test_a_network_trained_on_several_sizes_takes_what_is_near_any_of_them(scene, gsd_m, fits):
    found = read_facts(scene(gsd_m=gsd_m, size_px=128))
    trained = {"gsd_m": 1.0, "gsd_range_m": [0.5, 2.0]}
    fitting = require_fit(found, trained, gsd="auto")
    assert (fitting == found) == fits


@pytest.mark.parametrize(("trained", "imagery"), [({"resample_m": 1.0}, {}), ({}, {"gsd_m": 1.0})])
def test_the_size_of_pixels_is_that_of_the_training_or_else_of_the_settings(
    scene, trained, imagery
):
    assert fit(scene(gsd_m=2.0), trained, **imagery).grid.height == 128


@pytest.fixture
def nowhere(write_raster):
    """Write an image without georeference."""
    values = np.zeros((3, 64, 64), dtype=np.uint8)
    return write_raster(values, name="nowhere.tif", crs=None, transform=Affine.identity())


def test_the_size_set_for_an_image_without_georeference_is_that_of_its_pixels(nowhere):
    found = fit(nowhere, {"resample_m": 1.0}, gsd_m=1.1)
    assert found.grid.pixel_size_m == pytest.approx((1.1, 1.1))


@pytest.mark.parametrize("gsd", ["strict", "auto"])
def test_an_image_without_georeference_is_not_resampled(nowhere, gsd):
    with pytest.raises(CheckpointError, match=r"pixels of 1\.3 m, .*; correct imagery\.gsd_m"):
        fit(nowhere, gsd=gsd, gsd_m=1.3)


def test_pixels_of_a_known_type_are_scaled_as_in_training(scene):
    assert scaling_to_predict(read_facts(scene()), BYTES, unknown="auto") is BYTES


def test_pixels_of_an_unknown_type_are_refused(scene):
    found = read_facts(scene(dtype="uint16"))
    with pytest.raises(
        CheckpointError, match=r"pixels of uint16, .* trained on uint8; .* --scaling"
    ):
        scaling_to_predict(found, BYTES, unknown="strict")


def test_pixels_of_an_unknown_type_are_stretched_on_request(scene):
    found = read_facts(scene(dtype="uint16"))
    scaling = scaling_to_predict(found, BYTES, unknown="auto")
    scaled = scaling.apply(read_window(found, (0, 0, 64, 64))[0])
    assert np.percentile(scaled, (2, 98)).tolist() == pytest.approx([0, 255], abs=2)
    assert (scaling.mean, scaling.std) == (BYTES.mean, BYTES.std)


def test_an_image_without_data_cannot_be_stretched(nowhere):
    found = replace(read_facts(nowhere, ImageryOptions(gsd_m=1.0, nodata=0)), dtype="uint16")
    with pytest.raises(DataError, match=r"nowhere\.tif: contains no valid pixel"):
        scaling_to_predict(found, BYTES, unknown="auto")


def test_an_image_with_too_few_bands_is_refused(scene):
    message = r"has no band 2, only bands 1 to 1; .*imagery\.bands, .* such as 1,1,1"
    with pytest.raises(DataError, match=message):
        fit(scene(bands=1))


@pytest.mark.parametrize("bands", [(1, 2), (1, 2, 3, 4)])
def test_as_many_bands_as_in_training_have_to_be_chosen(scene, bands):
    with pytest.raises(ConfigError, match=rf"imagery\.bands: found {len(bands)} bands, expected 3"):
        fit(scene(bands=4), bands=bands)


def test_bands_known_by_name_are_found_wherever_they_are(scene):
    image = describe(scene(bands=4), "blue", "green", "nir", "red")
    assert fit(image, {"bands": ["Red", "green", "blue"]}).bands == (4, 2, 1)


def test_bands_in_another_order_are_refused_where_both_sides_name_them(scene):
    image = describe(scene(), "blue", "green", "red")
    with pytest.raises(CheckpointError, match=r"are blue, green, red, but .* on red, green, blue"):
        fit(image, {"band_names": ["red", "green", "blue"]})


@pytest.mark.parametrize(
    ("names", "trained", "chosen"),
    [
        (("Red", "Green", "Blue"), ["red", "green", "blue"], None),
        ((None, None, None), ["red", "green", "blue"], None),
        (("red", "green", "blue"), ["", "", ""], None),
        (("B4", "B3", "B2"), ["red", "green", "blue"], (1, 2, 3)),
    ],
    ids=["alike", "none in the image", "none in training", "bands chosen"],
)
def test_names_are_no_obstacle_otherwise(scene, names, trained, chosen):
    image = describe(scene(), *names)
    assert fit(image, {"band_names": trained}, bands=chosen).bands == (1, 2, 3)


@pytest.mark.parametrize(("trained", "found"), [(0, 0), (None, 9)])
def test_the_value_without_data_is_that_of_the_training_or_else_of_the_settings(
    scene, trained, found
):
    assert fit(scene(), {"nodata": trained}, nodata=9).nodata == found


@pytest.mark.parametrize(("bands", "chosen"), [((1, 2, 3), None), ((4, 2, 1), (4, 2, 1))])
def test_a_scene_that_fits_is_that_which_is_read_with_its_bands(scene, bands, chosen):
    image = scene(bands=4)
    expected = read_facts(image, ImageryOptions(bands=bands))
    assert fit(image, bands=chosen) == expected
