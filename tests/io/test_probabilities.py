import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS

from roadseg.core.grid import Grid
from roadseg.core.speeds import BAND_NAMES
from roadseg.errors import DataError, RoadsegError
from roadseg.io.probabilities import read_key, read_probability, write_probability
from roadseg.io.rasters import write_mask

GRID = Grid(CRS.from_epsg(32611), Affine(1, 0, 660000, 0, -1, 4000000), 20, 30)
VALUES = np.linspace(0, 1, 8 * 600, dtype=np.float32).reshape(8, 20, 30)
VALID = np.ones((20, 30), dtype=bool)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "probabilities" / "a.tif"


def write(path, *, values=VALUES, valid=VALID, cut=13):
    rows = [(0, values[:, :cut], valid[:cut]), (cut, values[:, cut:], valid[cut:])]
    write_probability(path, rows, GRID, key="k1", tags={"CHECKPOINT": "fold-0"})


def write_raster(path, values, **profile):
    path.parent.mkdir()
    bands, height, width = values.shape
    options = {"driver": "GTiff", "crs": "EPSG:32611", "transform": GRID.transform} | profile
    with rasterio.open(
        path, "w", count=bands, height=height, width=width, dtype=values.dtype.name, **options
    ) as target:
        target.write(values)


def test_probabilities_written_in_two_parts_come_back_as_bytes(path):
    write(path)
    found = read_probability(path)
    assert found.grid == GRID
    assert np.array_equal(np.concatenate([found.bins, [found.road]]), np.rint(VALUES * 255))


def test_the_raster_is_cloud_optimized_and_names_its_bands(path):
    write(path)
    with rasterio.open(path) as source:
        assert source.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert source.descriptions == BAND_NAMES
        assert source.tags()["CHECKPOINT"] == "fold-0"


def test_pixels_without_data_are_masked(path):
    valid = np.indices((20, 30)).sum(axis=0) > 5
    write(path, valid=valid)
    with rasterio.open(path) as source:
        assert np.array_equal(source.dataset_mask() > 0, valid)


def test_only_the_raster_lies_in_its_folder(path):
    write(path)
    assert [p.name for p in path.parent.iterdir()] == ["a.tif"]


def test_nothing_is_left_behind_when_the_rows_fail(path):
    def rows():
        yield 0, VALUES[:, :5], VALID[:5]
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        write_probability(path, rows(), GRID, key="k1", tags={})
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error(path):
    path.parent.write_text("no folder")
    with pytest.raises(RoadsegError, match=r"probabilities/a\.tif: cannot be written"):
        write(path)


def test_the_key_is_kept(path):
    write(path)
    assert read_key(path) == "k1"


def test_a_missing_raster_and_one_of_others_have_no_key(path):
    assert read_key(path) is None
    write_raster(path, np.zeros((1, 20, 30), np.uint8))
    assert read_key(path) is None


def test_a_mask_of_speed_bins_is_certain_of_its_bins(path):
    mask = (np.arange(600).reshape(20, 30) % 8).astype(np.uint8)
    mask[0, :5] = 255
    write_mask(path, mask, GRID)
    found = read_probability(path)
    assert np.array_equal(found.road, np.where((mask > 0) & (mask < 255), 255, 0))
    assert np.array_equal(found.bins[2], np.where(mask == 3, 255, 0))


@pytest.mark.parametrize(("largest", "first"), [(7, 255), (8, 1)])
def test_bytes_are_a_mask_when_none_is_above_7(path, largest, first):
    write_raster(path, np.array([[[0, 1, largest]]], np.uint8))
    found = read_probability(path)
    assert found.road.tolist() == [[0, first, 255 if largest == 7 else 8]]
    assert found.bins is None


def test_floats_of_one_band_are_probabilities(path):
    write_raster(path, np.array([[[0, 0.5, 1, np.nan, 2]]], np.float32))
    assert read_probability(path).road.tolist() == [[0, 128, 255, 0, 255]]


def test_pixels_without_data_are_no_road(path):
    write_raster(path, np.array([[[9, 200, 201]]], np.uint8), nodata=200)
    assert read_probability(path).road.tolist() == [[9, 0, 201]]


def test_a_scene_without_road_has_none(path):
    write_raster(path, np.zeros((1, 4, 4), np.uint8))
    assert not read_probability(path).road.any()


@pytest.mark.parametrize("bands", [2, 7, 9])
def test_another_number_of_bands_is_refused(path, bands):
    write_raster(path, np.zeros((bands, 4, 4), np.uint8))
    with pytest.raises(DataError, match=rf"a\.tif: has {bands} bands, expected 1 or 8"):
        read_probability(path)


def test_a_raster_that_lies_nowhere_is_refused(path):
    write_raster(path, np.zeros((1, 4, 4), np.uint8), crs=None)
    with pytest.raises(DataError, match=r"a\.tif: no coordinate system found"):
        read_probability(path)
