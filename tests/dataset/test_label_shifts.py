"""A shift that was put into labels is found and undone, for vector files and for raster masks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.errors import NotGeoreferencedWarning
from scipy import ndimage

from roadseg.dataset.scenes import SceneTask, prepare_scene
from roadseg.dataset.shifts import SURE, Shift, find_shifts, shrunk
from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.tiff import new_profile, open_new
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.options import LabelOptions
from tests.drawing import LAS_VEGAS, UTM, write_lines

SIDE = 240
WEST, NORTH = LAS_VEGAS
ROWS, COLS = np.mgrid[:SIDE, :SIDE].astype(float)
# Two roads that cross; metres from their middles, as pixels are of a metre.
AWAY = np.minimum(np.abs(ROWS - 100), np.abs(COLS - 130 + ROWS / 4) * math.cos(math.atan(1 / 4)))
LINES = [[(0, 100.5), (SIDE, 100.5)], [(130.5, 0), (70.5, SIDE)]]  # x right, y down


def draw_image(path, *, seed=3, north_up=True):
    rng = np.random.default_rng(seed)
    rough = ndimage.gaussian_filter(rng.normal(size=(3, SIDE, SIDE)), (0, 1.5, 1.5)) * 150
    smooth = rng.normal(size=(3, SIDE, SIDE)) * 3
    pixels = np.where(AWAY <= 4, 60 + smooth, 120 + rough).clip(0, 255).astype(np.uint8)
    transform = Affine(1, 0, WEST, 0, -1, NORTH)
    if not north_up:  # The first row lies in the east, and rows run to the north.
        transform = Affine(0, -1, WEST + SIDE, 1, 0, NORTH - SIDE)
    write(path, pixels, transform)


def write(path, pixels, transform):
    count, *sides = pixels.shape
    grid = Grid(UTM, transform, *sides)
    with open_new(path, new_profile(grid, count=count, dtype=pixels.dtype.name)) as raster:
        raster.write(pixels)


def draw_mask(path, east, north):
    roads = (AWAY <= 3).astype(np.uint8)[np.newaxis]
    write(path, roads, Affine(1, 0, WEST + east, 0, -1, NORTH + north))


def draw_lines(path, east, north):
    lines = [[(x + east, north - y) for x, y in line] for line in LINES]
    write_lines(path, lines, 32611, highway="residential")


DRAW = {".tif": draw_mask, ".geojson": draw_lines}


def task_of(folder, *, suffix=".tif", off=(0.0, 0.0), shift="set", name="a", **image):
    """Draw a scene and its labels, which lie metres east and north off the image."""
    draw_image(folder / f"{name}.image.tif", **image)
    labels = folder / f"{name}.labels{suffix}"
    DRAW[suffix](labels, *off)
    return SceneTask(
        name=name,
        image=folder / f"{name}.image.tif",
        labels=labels,
        fingerprints={"image": name, "labels": f"{folder}{off}"},
        shared=False,
        mask=folder / f"{name}.mask.tif",
        record=folder / f"{name}.json",
        imagery=ImageryOptions(images=("unused",)),
        label_options=LabelOptions(shift=shift),
        sample_px=100,
    )


@pytest.mark.parametrize("suffix", DRAW)
@pytest.mark.parametrize("off", [(0, 0), (4, 0), (0, -5), (-3, 6)])
def test_labels_are_moved_back_by_what_they_lie_off(tmp_path, suffix, off):
    task = task_of(tmp_path, suffix=suffix, off=off)
    found = find_shifts([task], workers=1)["a"]
    assert found == pytest.approx((-off[0], -off[1]), abs=0.6)


@pytest.mark.parametrize("suffix", DRAW)
def test_masks_made_of_moved_labels_are_those_of_labels_that_lay_right(tmp_path, suffix):
    (tmp_path / "right").mkdir()
    right = task_of(tmp_path / "right", suffix=suffix)
    wrong = replace(task_of(tmp_path, suffix=suffix, off=(4.0, -2.0)), shift_m=(-4.0, 2.0))
    for task in (right, wrong):
        prepare_scene(task)
    assert np.array_equal(read_mask(wrong.mask), read_mask(right.mask))


def test_a_raster_mask_may_be_moved_by_parts_of_a_pixel(tmp_path):
    task = replace(task_of(tmp_path), shift_m=(0.4, 0.0))
    other = replace(task, shift_m=(0.6, 0.0), mask=tmp_path / "other.tif")
    prepare_scene(task)
    prepare_scene(other)
    less, more = read_mask(task.mask), read_mask(other.mask)
    assert np.array_equal(less[:, 1:-1], more[:, 2:])


@pytest.mark.parametrize(("shift", "shift_m"), [((3.0, -1.5), (3.0, -1.5)), ("none", (0.0, 0.0))])
def test_a_given_shift_is_taken_as_it_is(tmp_path, shift, shift_m):
    task = task_of(tmp_path, off=(4, 0), shift=shift)
    assert find_shifts([task], workers=1) == {"a": shift_m}


def test_east_and_north_are_those_of_the_map_however_the_image_is_turned(tmp_path):
    transform = Affine(0, -1, WEST + SIDE, 1, 0, NORTH - SIDE)
    task = task_of(tmp_path, north_up=False)
    roads = (AWAY <= 3).astype(np.uint8)[np.newaxis]
    write(task.labels, roads, Affine.translation(5, 2) @ transform)
    found = find_shifts([task], workers=1)["a"]
    assert found == pytest.approx((-5, -2), abs=0.6)


def set_of(folder, offs, **options):
    return [
        task_of(folder, off=off, name=f"s{number}", seed=number, **options)
        for number, off in enumerate(offs)
    ]


def test_one_shift_of_the_set_is_the_median_of_its_scenes(tmp_path):
    found = find_shifts(set_of(tmp_path, [(4, 0), (5, 0), (5, 0), (6, 3)]), workers=1)
    assert len(set(found.values())) == 1
    assert found["s0"] == pytest.approx((-5, 0), abs=0.7)


def test_each_scene_gets_its_own_where_it_can_be_told(tmp_path):
    offs = [(4, 0), (5, 0), (7, 2)]
    found = find_shifts(set_of(tmp_path, offs, shift="scene"), workers=1)
    for (east, north), shift_m in zip(offs, found.values(), strict=True):
        assert shift_m == pytest.approx((-east, -north), abs=0.7)


def show_nothing(task):
    write(task.image, np.full((3, SIDE, SIDE), 90, np.uint8), Affine(1, 0, WEST, 0, -1, NORTH))


def test_a_scene_that_says_nothing_gets_what_the_set_has(tmp_path):
    tasks = set_of(tmp_path, [(5, 0), (5, 0), (5, 0)], shift="scene")
    show_nothing(tasks[1])
    found = find_shifts(tasks, workers=1)
    assert found["s1"] == pytest.approx((-5, 0), abs=0.7)


def test_a_set_that_says_nothing_stays(tmp_path):
    task = task_of(tmp_path, off=(4, 0))
    show_nothing(task)
    assert find_shifts([task], workers=1) == {"a": (0.0, 0.0)}


def test_a_scene_that_cannot_be_read_says_nothing_and_fails_later(tmp_path):
    tasks = set_of(tmp_path, [(5, 0), (5, 0)])
    tasks[0].image.write_bytes(b"no image")
    assert find_shifts(tasks, workers=1)["s1"] == pytest.approx((-5, 0), abs=0.7)


@pytest.mark.parametrize(("confidence", "share"), [(0.0, 0), (SURE, 0), (0.85, 0.5), (1.0, 1)])
def test_the_surer_a_shift_the_more_of_it_is_trusted(confidence, share):
    found = shrunk(Shift(4.0, -2.0, confidence))
    assert (found.x_m, found.y_m) == pytest.approx((4 * share, -2 * share))


def without_place(task):
    """Write image and mask of a scene again as files without georeference."""
    for path in (task.image, task.labels):
        with rasterio.open(path) as raster:
            pixels = raster.read()
        count, height, width = pixels.shape
        profile = {"height": height, "width": width, "count": count, "dtype": pixels.dtype}
        with pytest.warns(NotGeoreferencedWarning), rasterio.open(path, "w", **profile) as raster:
            raster.write(pixels)
    return replace(task, imagery=ImageryOptions(images=("unused",), gsd_m=1.0))


def test_masks_of_images_without_a_place_are_moved_up_for_north(tmp_path):
    task = replace(without_place(task_of(tmp_path)), shift_m=(2.0, 3.0))
    prepare_scene(task)
    mask = read_mask(task.mask)
    assert (mask[-3:] == IGNORE).all()
    assert (mask[:, :2] == IGNORE).all()
    assert np.array_equal(mask[:-3, 2:] > 0, AWAY[3:, :-2] <= 3)


def test_an_area_over_an_image_without_a_place_is_refused(tmp_path):
    task = replace(without_place(task_of(tmp_path)), area=(tmp_path / "area.gpkg",))
    with pytest.raises(DataError, match=r"labels\.area needs images with georeference"):
        prepare_scene(task)
