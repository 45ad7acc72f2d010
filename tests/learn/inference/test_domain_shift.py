"""Images that are unlike those of a training are named before they are predicted."""

import numpy as np
import pytest

from roadseg.learn.inference.domain_shift import describe_shift, warn_of_shift
from roadseg.raster.images import read_facts
from roadseg.raster.scaling import Scaling

BYTES = Scaling({"uint8": ((0.0, 255.0),) * 3}, (100.0,) * 3, (40.0,) * 3)


def pixels(mean, std, bands=3):
    """Return pixels of which half are a standard deviation below the mean, half above it."""
    values = np.array([mean - std, mean + std] * 50)
    return np.tile(values, (bands, 1)).astype(np.uint8)


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        (100, 40, ""),
        (147, 40, ""),
        (149, 40, "brighter by 1.2 standard deviations"),
        (51, 40, "darker by 1.2 standard deviations"),
        (100, 14, ""),
        (100, 13, "0.33 times the contrast"),
        (127, 120, ""),
        (127, 121, "3 times the contrast"),
        (190, 10, "brighter by 2.2 standard deviations, 0.25 times the contrast"),
    ],
)
def test_brightness_and_contrast_are_compared_with_the_training(mean, std, words):
    assert describe_shift(pixels(mean, std), BYTES) == words


def test_values_are_compared_after_the_scaling_of_the_training():
    counts = Scaling({"uint16": ((0.0, 2550.0),)}, (100.0,), (40.0,))
    alike = np.array([[600, 1400] * 9], dtype=np.uint16)
    assert describe_shift(alike, counts) == ""
    assert "darker" in describe_shift(alike // 10, counts)


def test_an_image_without_data_is_not_compared():
    assert describe_shift(np.zeros((3, 0), dtype=np.uint8), BYTES) == ""


def test_the_warning_names_three_images_and_counts_the_others(make_scene, tmp_path, caplog):
    for number in range(5):
        make_scene(tmp_path, f"city_{number}")
    scenes = [read_facts(path) for path in sorted((tmp_path / "images").iterdir())]
    dark = Scaling({"uint8": ((0.0, 255.0),) * 3}, (2.0,) * 3, (1.0,) * 3)
    warn_of_shift([(scene, dark) for scene in scenes])
    (record,) = caplog.records
    assert "city_0.tif (brighter by" in record.getMessage()
    assert "and 2 more" in record.getMessage()


def test_images_like_those_of_the_training_need_no_warning(make_scene, tmp_path, caplog):
    make_scene(tmp_path, "city")
    facts = read_facts(tmp_path / "images/city.tif")
    alike = Scaling({"uint8": ((0.0, 255.0),) * 3}, (110.0,) * 3, (60.0,) * 3)
    warn_of_shift([(facts, alike)])
    assert not caplog.records


def test_an_image_that_cannot_be_read_is_left_to_the_prediction(make_scene, tmp_path, caplog):
    make_scene(tmp_path, "city")
    path = tmp_path / "images/city.tif"
    facts = read_facts(path)
    path.write_bytes(path.read_bytes()[:2000])
    warn_of_shift([(facts, BYTES)])
    assert not caplog.records
