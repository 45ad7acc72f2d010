from dataclasses import replace

import numpy as np
import pytest
from affine import Affine
from PIL import Image

from roadseg.dataset.quality import Example
from roadseg.dataset.shifts import SURE, WORTH_M, Shift
from roadseg.errors import OutputError
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.report.plots.sheets import write_sheets
from roadseg.roads.colours import bin_colours
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins

MASK = np.zeros((300, 300), np.uint8)
MASK[140:152], MASK[:, 200:210] = 3, 1
HALF_METRES = Grid(LOCAL_CRS, Affine.scale(0.5), 300, 300)
EXAMPLE = Example("city_0", np.full((3, 300, 300), 90, np.uint8), MASK, HALF_METRES)
ALARM, CYAN, YELLOW = (190, 40, 0), (0, 230, 255), (255, 225, 0)
BELOW_KEY, LEFT, SIDE = 58, 24, 420  # of the picture of a scene
CLOSE = (slice(214, 420), slice(452, 658))  # the enlarged part with outlines


def sheet(folder, *examples, bins=DEFAULT_BINS):
    (path,) = write_sheets(folder, examples, bins=bins)
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))[BELOW_KEY:].astype(int)


def shows(picture, colour):
    return bool((np.abs(picture - colour) < 40).all(axis=-1).any())


def middle(picture):
    """Return the row in which the yellow and the cyan of the enlarged part have their middle."""
    return [
        np.argwhere((np.abs(picture[CLOSE] - colour) < 60).all(axis=-1))[:, 0].mean()
        for colour in (YELLOW, CYAN)
    ]


def with_shift(length_m, confidence=1.0, along_deg=None):
    return replace(EXAMPLE, shift=Shift(length_m, 0.0, confidence, along_deg))


@pytest.mark.parametrize(("examples", "sheets"), [(1, 1), (6, 1), (7, 2)])
def test_six_examples_share_a_sheet(tmp_path, examples, sheets):
    paths = write_sheets(tmp_path / "quality", [EXAMPLE] * examples, bins=DEFAULT_BINS)
    assert [path.name for path in paths] == ["sheet_01.png", "sheet_02.png"][:sheets]
    assert sorted((tmp_path / "quality").iterdir()) == paths


def test_without_examples_no_sheet_is_written(tmp_path):
    assert write_sheets(tmp_path / "quality", [], bins=DEFAULT_BINS) == []


def test_sheets_of_before_are_removed_and_other_files_stay(tmp_path):
    write_sheets(tmp_path, [EXAMPLE] * 7, bins=DEFAULT_BINS)
    (tmp_path / "notes.png").touch()
    write_sheets(tmp_path, [EXAMPLE], bins=DEFAULT_BINS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.png", "sheet_01.png"]


def test_labels_off_by_more_than_two_metres_are_shown_moved_and_told_in_red(tmp_path):
    picture = sheet(tmp_path, with_shift(WORTH_M + 0.1))
    assert shows(picture, CYAN)
    assert shows(picture, ALARM)


@pytest.mark.parametrize(
    "example", [EXAMPLE, with_shift(WORTH_M), with_shift(9.0, confidence=SURE - 0.01)]
)
def test_labels_that_are_not_surely_off_raise_no_alarm(tmp_path, example):
    picture = sheet(tmp_path, example)
    assert not shows(picture, CYAN)
    assert not shows(picture, ALARM)


def test_every_shift_has_words_of_its_own(tmp_path):
    shifts = [1.0, 3.0, -3.0], [1.0, 0.5], [None, 0.0]
    pictures = [
        sheet(tmp_path, with_shift(length, confidence, along)).tobytes()
        for length in shifts[0]
        for confidence in shifts[1]
        for along in shifts[2]
    ]
    assert len(set(pictures)) == 7  # those not sure are alike: "cannot be told here"


def test_a_name_too_long_for_its_line_loses_its_middle(tmp_path):
    pictures = [
        sheet(tmp_path, replace(EXAMPLE, name="a" * 70 + middle + "z" * 70)) for middle in "bc"
    ]
    assert np.array_equal(*pictures)


def test_the_share_of_road_is_written_below_the_picture(tmp_path):
    more = replace(EXAMPLE, mask=np.where(np.arange(300) < 20, np.uint8(3), MASK))
    below = [sheet(tmp_path, example)[SIDE:] for example in (EXAMPLE, more)]
    assert not np.array_equal(*below)


@pytest.mark.parametrize("bins", [SpeedBins((30.0,)), SpeedBins(tuple(range(5, 155, 5)), "km/h")])
def test_the_key_has_room_for_any_number_of_bins(tmp_path, bins):
    (path,) = write_sheets(tmp_path, [EXAMPLE], bins=bins)
    with Image.open(path) as picture:
        assert picture.width == 960
        assert (np.asarray(picture)[:BELOW_KEY, -4:] == 255).all()


def test_roads_have_the_colours_of_their_bins_over_the_image(tmp_path):
    scene = sheet(tmp_path, EXAMPLE)[:SIDE, LEFT : LEFT + SIDE]
    colours = np.array(bin_colours(DEFAULT_BINS))
    blended = (colours[[2, 0]] + 90) / 2
    across, down = scene[SIDE * 146 // 300, 60], scene[60, SIDE * 205 // 300]
    assert np.allclose([across, down], blended, atol=4)
    assert np.allclose(scene[60, 60], 90, atol=2)


def test_what_is_not_known_is_striped(tmp_path):
    mask = np.where(np.arange(300) < 150, np.uint8(255), MASK)
    scene = sheet(tmp_path, replace(EXAMPLE, mask=mask))[20:100, LEFT + 20 : LEFT + 100]
    assert shows(scene, (70, 70, 70))
    assert shows(scene, (150, 150, 150))


def test_outlines_are_moved_down_by_the_metres_of_the_shift(tmp_path):
    mask = np.zeros((300, 300), np.uint8)
    mask[140:152] = 3
    shift = Shift(0.0, 8.0, 1.0, None)
    picture = sheet(tmp_path, replace(EXAMPLE, mask=mask, shift=shift))
    here, moved = middle(picture)
    assert moved - here == pytest.approx(8.0 * 206 / 80, abs=4)  # 206 pixels show 80 m


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 2), (40, 700)])
@pytest.mark.parametrize("value", [0, 1, 255])
def test_scenes_of_any_shape_are_drawn(tmp_path, shape, value):
    grid = Grid(LOCAL_CRS, Affine.identity(), *shape)
    example = Example("a", np.zeros((1, *shape), np.uint8), np.full(shape, value, np.uint8), grid)
    assert sheet(tmp_path, example).any()


def test_a_sheet_of_before_that_cannot_be_removed_is_named(tmp_path):
    (tmp_path / "sheet_09.png").mkdir()
    with pytest.raises(OutputError, match=r"sheet_09\.png: cannot be removed"):
        write_sheets(tmp_path, [], bins=DEFAULT_BINS)
