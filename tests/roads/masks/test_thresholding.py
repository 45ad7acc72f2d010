import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import rasterio

from roadseg.errors import OutputError
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_grid
from roadseg.raster.windows import CERTAIN
from roadseg.roads.masks.mask_files import classify, read_mask, read_raster_key, write_road_mask
from roadseg.roads.masks.probabilities import write_probability
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from tests.drawing import PLACE, UTM, read_probability

THREE = SpeedBins((10.0, 20.0))


def drawn(height, width, bands=8):
    return np.random.default_rng(0).random((bands, height, width), dtype=np.float32)


@pytest.fixture
def probability(tmp_path):
    """Give a function that writes a probability raster."""

    def write(values=None, *, valid=None, bins=DEFAULT_BINS, crs=UTM):
        values = drawn(40, 60) if values is None else values
        valid = np.ones(values.shape[1:], dtype=bool) if valid is None else valid
        path = tmp_path / "probability.tif"
        grid = Grid(crs, PLACE, *values.shape[1:])
        write_probability(path, [(0, values, valid)], grid, bins=bins, key="k1", tags={})
        return path

    return write


@pytest.fixture
def masked(tmp_path):
    """Give a function that writes the mask of a probability raster; return its path."""

    def write(probability, threshold=0.5):
        path = tmp_path / "masks" / "a.tif"
        write_road_mask(probability, path, threshold=threshold, key="f00")
        return path

    return write


def test_a_pixel_is_road_from_the_threshold_on_and_has_the_likeliest_bin():
    values = np.array(
        [
            [[90, 90, 10, 10, 70]],
            [[80, 80, 20, 10, 70]],
            [[127, 128, 255, 128, 255]],
        ],
        dtype=np.uint8,
    )
    valid = np.array([[True, True, True, True, False]])
    assert classify(values, valid, threshold=0.5).tolist() == [[0, 1, 2, 1, 255]]


@pytest.mark.parametrize(("threshold", "road"), [(0.4, 1), (0.401, 0)])
def test_a_probability_of_just_the_threshold_is_road(threshold, road):
    values = np.array([[[9]], [[0.4 * CERTAIN]]], dtype=np.uint8)
    assert classify(values, np.array([[True]]), threshold=threshold).tolist() == [[road]]


def test_a_mask_larger_than_its_blocks_is_that_of_its_probabilities(probability, masked):
    values = drawn(21, 15).repeat(100, axis=1).repeat(20, axis=2)
    pixels = read_mask(masked(probability(values), 0.7))
    as_bytes = np.rint(values * CERTAIN).astype(np.uint8)
    expected = classify(as_bytes, np.ones(pixels.shape, dtype=bool), threshold=0.7)
    assert set(expected.ravel()) == set(range(8))
    assert np.array_equal(pixels, expected)


def test_a_mask_lies_where_its_probabilities_lie_and_is_a_cog(probability, masked):
    path = masked(probability())
    assert read_grid(path) == Grid(UTM, PLACE, 40, 60)
    with rasterio.open(path) as source:
        assert source.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
    assert sorted(each.name for each in path.parent.iterdir()) == ["a.qml", "a.tif"]


def test_pixels_without_data_have_no_class(probability, masked):
    valid = np.arange(60) % 3 > np.zeros((40, 1))
    with rasterio.open(masked(probability(valid=valid))) as source:
        assert source.nodata == 255
        assert np.array_equal(source.dataset_mask() > 0, valid)


def test_a_mask_keeps_its_key(probability, masked):
    assert read_raster_key(masked(probability())) == "f00"


def test_a_mask_is_read_as_certain_probabilities(probability, masked):
    path = probability(drawn(40, 60, 4), bins=THREE)
    found, source = read_probability(masked(path)), read_probability(path)
    assert found.speed_bins == THREE
    assert np.array_equal(found.road > 0, source.road >= 0.5 * CERTAIN)


def test_too_little_room_is_noticed_before_the_start(probability, masked, tmp_path, monkeypatch):
    path = probability()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(
        OutputError, match=r"masks/a\.tif: .* its disk has .* free; free some space"
    ):
        masked(path)
    assert not (tmp_path / "masks").exists()
