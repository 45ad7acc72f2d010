import os
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.errors import DataError, OutputError
from roadseg.raster.extents import Extent
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.strips import Strips
from roadseg.raster.windows import Window
from roadseg.roads.logistic import EdgeModel
from roadseg.roads.masks.mask_files import bins_tags, read_raster_key, write_mask
from roadseg.roads.masks.probabilities import open_probability, write_probability
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from tests.drawing import grid_of, read_probability

GRID = grid_of(20, 30)
VALUES = np.linspace(0, 1, 8 * 600, dtype=np.float32).reshape(8, 20, 30)
VALID = np.ones((20, 30), dtype=bool)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "probabilities" / "a.tif"


def write(path, *, values=VALUES, valid=VALID, cut=13, grid=GRID, bins=DEFAULT_BINS):
    rows = [(0, values[:, :cut], valid[:cut]), (cut, values[:, cut:], valid[cut:])]
    write_probability(path, rows, grid, bins=bins, key="k1", tags={"CHECKPOINT": "fold-0"})


def write_bins(path, mask, bins, grid=GRID):
    """Write a mask as `roadseg prepare` does."""
    write_mask(path, [(Window(0, 0, *mask.shape), mask)], grid, bins=bins)


def test_a_mask_has_no_road_outside_of_the_area(path):
    write_bins(path, np.full((20, 30), 2, dtype=np.uint8), DEFAULT_BINS)
    area = Extent(shapely.MultiPolygon([shapely.box(0, 0, 10, 20)]))
    found, whole = replace(open_probability(path), extent=area), Window(0, 0, 20, 30)
    road, bins = found.read_all(whole)
    for each in (road, bins[1], found.read_road(whole)):
        assert np.array_equal(each, area.inside(whole) * np.uint8(255))
    assert not bins[[0, *range(2, 7)]].any()


def test_probabilities_written_in_two_parts_come_back_as_bytes(path):
    write(path)
    found = read_probability(path)
    assert found.grid == GRID
    assert np.array_equal(np.concatenate([found.bins, [found.road]]), np.rint(VALUES * 255))


def test_the_raster_is_cloud_optimized_and_names_its_bands(path):
    write(path)
    with rasterio.open(path) as source:
        assert source.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert source.descriptions == DEFAULT_BINS.band_names
        assert source.tags()["CHECKPOINT"] == "fold-0"


@pytest.mark.parametrize("bins", [SpeedBins((50.0,), "km/h"), SpeedBins((10.5, 30), "mph")])
def test_the_speed_bins_name_the_bands_and_come_back(path, bins):
    write(path, values=VALUES[: bins.count + 1], bins=bins)
    found = read_probability(path)
    assert (found.speed_bins, found.bins.shape) == (bins, (bins.count, 20, 30))
    with rasterio.open(path) as source:
        assert source.descriptions == bins.band_names


@pytest.fixture
def tagged(write_raster):
    """Give a function that writes a raster of some bands with tags."""

    def write(bands, **tags):
        path = write_raster(np.full((bands, 4, 4), 6, np.uint8), name="a.tif")
        with rasterio.open(path, "r+") as target:
            target.update_tags(**tags)
        return path

    return write


BINS_TAGS = bins_tags(DEFAULT_BINS)


@pytest.mark.parametrize(
    ("bands", "tags", "told"),
    [
        (5, BINS_TAGS, "has 5 bands, expected 1 or 8, as its tags name 7 speed"),
        (8, dict.fromkeys(BINS_TAGS, "many"), r"a\.tif: .* many; expected a file that roadseg wro"),
        *((bands, {}, rf"a\.tif: has {bands} bands, expected 1 or 8") for bands in (2, 7, 9)),
    ],
)
def test_bands_that_no_tags_explain_are_refused(tagged, bands, tags, told):
    with pytest.raises(DataError, match=told):
        read_probability(tagged(bands, **tags))


def test_a_band_taken_out_of_a_probability_raster_is_no_mask(tagged):
    assert read_probability(tagged(1, **BINS_TAGS)).bins is None


def test_eight_bands_without_tags_are_the_default_bins(tagged):
    assert read_probability(tagged(8)).speed_bins == DEFAULT_BINS


def test_a_mask_of_others_without_georeference_needs_the_size_of_its_pixels(write_raster):
    path = write_raster(np.ones((4, 4), np.uint8), crs=None, transform=Affine.identity())
    with pytest.raises(DataError, match=r"imagery\.gsd_m"):
        read_probability(path)
    assert read_probability(path, gsd_m=0.5).grid.pixel_size_m == (0.5, 0.5)


@pytest.fixture
def small_disk(tmp_path):
    """Give a function that mounts a disk of so many pages of 4096 bytes."""
    folder, mount = tmp_path / "small", shutil.which("mount")
    folder.mkdir()

    def mount_pages(pages):
        options = ["-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", str(folder)]
        if os.geteuid() or not mount or subprocess.run([mount, *options], check=False).returncode:
            pytest.skip("only root can mount a small disk")
        return folder

    yield mount_pages
    if folder.is_mount():
        subprocess.run([shutil.which("umount"), str(folder)], check=True)


NOISE = np.random.default_rng(0).random((8, 150, 150), dtype=np.float32)


@pytest.mark.parametrize("pages", [1, 60, 140, 150, 200, 300])
def test_a_full_disk_is_an_error_after_which_the_same_call_goes_on(small_disk, pages):
    folder = small_disk(pages)  # the strip needs 144 pages, the joined one 128, the raster 45
    grid = replace(GRID, height=150, width=150)
    valid = np.ones((150, 150), dtype=bool)
    with pytest.raises(OutputError, match=r"a\.tif: cannot be written: No space left"):
        write(folder / "a.tif", values=NOISE, valid=valid, cut=50, grid=grid)
    strips = Strips.beside(folder / "a.tif", "k1", grid=grid, bands=8)
    assert {p.name for p in folder.iterdir()} <= {strips.folder.name}
    assert (strips.missing == []) == (pages >= 150)


@pytest.mark.parametrize(
    ("crs", "transform"),
    [
        (CRS.from_epsg(4326), Affine(1 / 3e5, 0, -117.1, 0, -1 / 3e5, 32.7)),
        (GRID.crs, Affine(0.3, 0, 660000.1, 0, -0.3, 4000000.7)),
        (GRID.crs, Affine.translation(7e5, 4e6) @ Affine.rotation(31) @ Affine.scale(0.3, -0.3)),
        (GRID.crs, Affine(0.3, 0, 660000.1, 0, 0.3, 4000000.7)),
        (LOCAL_CRS, Affine(0.6, 0, 0, 0, -0.6, 0)),
    ],
    ids=["degrees", "metres", "rotated", "south up", "in no place on earth"],
)
def test_the_raster_lies_exactly_where_its_scene_does(path, crs, transform):
    grid = Grid(crs, transform, 20, 30)
    write(path, grid=grid)
    assert read_probability(path).grid == grid


def write_large(path, values, valid):
    rows, grid = [(0, values, valid)], replace(GRID, height=valid.shape[0], width=valid.shape[1])
    write_probability(path, rows, grid, bins=SpeedBins((50.0,), "km/h"), key="", tags={})


def test_a_large_raster_has_overviews_of_the_means_of_four(path):
    noise = np.random.default_rng(0).integers(0, 255, (3, 600, 1030), dtype=np.uint8)
    write_large(path, noise, np.ones((600, 1030), dtype=bool))
    with rasterio.open(path) as source:
        assert np.array_equal(source.read(), noise)
        assert source.overviews(1) == [2, 4]
        assert source.block_shapes[0] == (512, 512)
    with rasterio.open(path, overview_level=0) as source:
        means = noise.reshape(3, 300, 2, 515, 2).mean(axis=(2, 4))
        assert np.abs(source.read() - means).max() <= 1


def test_overviews_hold_the_means_of_the_pixels_that_hold_data(path):
    values = np.full((3, 600, 1032), 100, dtype=np.uint8)
    known = np.ones((600, 1032), dtype=bool)
    known[100:301, 200:501] = False
    write_large(path, values * known, known)
    for level, factor in enumerate((2, 4)):
        with rasterio.open(path, overview_level=level) as source:
            held = source.dataset_mask() > 0
            assert held.mean() == pytest.approx(known.mean(), abs=4e-3)
            assert held.shape == (600 // factor, 1032 // factor)
            assert (source.read()[:, held] == 100).all()


def test_a_key_of_markup_and_a_name_of_a_pattern_are_kept(tmp_path):
    path = tmp_path / "a&b[1].tif"
    write_probability(path, [(0, VALUES, VALID)], GRID, bins=DEFAULT_BINS, key="<k>", tags={})
    assert read_raster_key(path) == "<k>"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a&b[1].qml", path.name]


def failing(rows):
    yield from rows
    raise RuntimeError("out of memory")


TALL = replace(GRID, height=5000)
TALL_VALUES = np.random.default_rng(1).integers(0, 255, (8, 5000, 30), dtype=np.uint8)
TALL_ROWS = [
    (start, TALL_VALUES[:, start : start + 700], np.ones((min(700, 5000 - start), 30), dtype=bool))
    for start in range(0, 5000, 700)
]


def write_tall(path, rows, key="k1"):
    write_probability(path, rows, TALL, bins=DEFAULT_BINS, key=key, tags={})


def test_after_an_interruption_only_the_missing_rows_are_needed(path):
    with pytest.raises(RuntimeError, match="out of memory"):
        write_tall(path, failing(TALL_ROWS[:6]))
    missing = Strips.beside(path, "k1", grid=TALL, bands=8).missing
    assert missing == [range(4096, 5000)]
    write_tall(path, [(4096, TALL_VALUES[:, 4096:], np.ones((904, 30), dtype=bool))])
    with rasterio.open(path) as source:
        assert np.array_equal(source.read(), TALL_VALUES)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.qml", "a.tif"]


def test_strips_of_another_key_are_removed(path):
    with pytest.raises(RuntimeError, match="out of memory"):
        write_tall(path, failing(TALL_ROWS[:6]), key="old")
    assert [p.name for p in path.parent.iterdir()] == [".strips-a.tif-old"]
    write_tall(path, TALL_ROWS)
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.qml", "a.tif"]


def test_rows_that_are_not_given_are_missed(path):
    with pytest.raises(ValueError, match=r"no rows range\(2048, 4096\) were given"):
        write_tall(path, TALL_ROWS[:3])


def test_a_missing_raster_and_one_of_others_have_no_key(path, write_raster):
    assert read_raster_key(path) is None
    assert read_raster_key(write_raster()) is None


@pytest.mark.parametrize(
    ("values", "nodata", "road"),
    [
        (np.array([0, 1, 7], np.uint8), None, [0, 255, 255]),  # A mask has none above 7.
        (np.array([0, 1, 8], np.uint8), None, [0, 1, 8]),
        (np.array([9, 200, 201], np.uint8), 200, [9, 0, 201]),
        (np.array([0, 1, 255], np.uint8), 255, [0, 255, 0]),
        (np.array([0, 0.5, 1, np.nan, 2], np.float32), None, [0, 128, 255, 0, 255]),
    ],
    ids=["mask", "bytes", "no data", "a mask with pixels to ignore", "floats"],
)
def test_one_band_is_a_mask_or_probabilities(write_raster, values, nodata, road):
    path = write_raster(values[np.newaxis], nodata=nodata, transform=GRID.transform)
    found = read_probability(path)
    assert (found.road.tolist(), found.bins) == ([road], None)


@pytest.mark.parametrize(
    ("values", "is_mask"),
    [
        (np.array([0, 255], np.uint8), True),
        (np.array([0, 254], np.uint8), False),
        (np.array([0, 65535], np.uint16), True),
        (np.array([0, 1, np.nan], np.float32), True),
        (np.array([0, 255], np.float32), True),
        (np.array([0, 1, 7], np.float32), True),
        (np.array([0, 0.99], np.float32), False),
    ],
)
def test_probabilities_that_are_all_0_or_certain_are_a_mask(write_raster, values, is_mask):
    path = write_raster(values[np.newaxis], transform=GRID.transform)
    assert open_probability(path).is_mask == is_mask


def test_a_mask_in_which_255_may_be_road_or_not_is_refused(write_raster):
    path = write_raster(np.array([[0, 1, 255]], np.uint8), name="a.tif")
    with pytest.raises(
        DataError, match=r"a\.tif: has pixels of 1 and of 255; if 255 stands for pi"
    ):
        read_probability(path)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.array([0, 0.5, 2.1], np.float32), "2.1"),
        (np.array([0, 37, 100], np.float32), "100"),
        (np.array([0, 37.5, 99.5, 0.5, np.nan], np.float32), "99.5"),
        (np.array([0, 100, 511], np.uint16), "511"),
    ],
    ids=["a little too much", "whole percent", "percent", "16 bits"],
)
def test_values_that_are_no_probabilities_are_refused(write_raster, values, found):
    path = write_raster(values[np.newaxis], name="a.tif")
    with pytest.raises(DataError, match=rf"a\.tif: has values up to {found}, expected prob"):
        read_probability(path)


def with_tag(path, name, text):
    """Write probabilities with a tag of this text."""
    write(path)
    with rasterio.open(path, "r+", IGNORE_COG_LAYOUT_BREAK="YES") as target:
        target.update_tags(**{f"ROADSEG_{name}": text})
    return path


EDGES = EdgeModel(-0.5, {"log length": 0.25})


def test_a_raster_keeps_the_threshold_of_its_network_and_how_sure_its_edges_are(path):
    write(path)
    found = read_probability(path)
    assert (found.threshold, found.edge_model) == (None, None)
    replace(found, threshold=0.62, edge_model=EDGES).save(path.with_name("b.tif"))
    again = read_probability(path.with_name("b.tif"))
    assert (again.threshold, again.edge_model) == (0.62, EDGES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("THRESHOLD", "half\nof it"),
        ("CONFIDENCE", "sure"),
        ("CONFIDENCE", "{}"),
        ("CONFIDENCE", '{"intercept": 1, "coefficients": {"x": 1}}'),
    ],
)
def test_a_tag_that_is_not_understood_is_one_line(path, name, text):
    with pytest.raises(DataError, match=rf"a\.tif: its tags .*ROADSEG_{name}.*; predict") as no:
        read_probability(with_tag(path, name, text))
    assert "\n" not in str(no.value)
