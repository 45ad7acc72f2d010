import numpy as np
import pytest
from PIL import Image

from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.errors import OutputError
from roadseg.raster.windows import Window
from roadseg.report.plots import fold_maps
from roadseg.report.plots.fold_maps import draw_folds

BLUE, ORANGE = (0, 114, 178), (230, 159, 0)


def chip(name, x, y, *, zone=32611, side_m=100.0):
    corners = ((x, y), (x + side_m, y), (x + side_m, y - side_m), (x, y - side_m))
    return ChipRecord(name, name, Window(0, 0, 100, 100), corners, zone, 0.1, 1.0)


def row_of(count, **options):
    return [chip(f"s{i}", 500_000.0 + 100 * i, 4e6, **options) for i in range(count)]


def picture(path, chips, folds):
    draw_folds(path, chips, np.array(folds))
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


@pytest.fixture
def figures(monkeypatch):
    """Give the list of figures that are drawn."""
    found, save = [], fold_maps.save_figure
    monkeypatch.setattr(fold_maps, "save_figure", lambda f, path: found.append(f) or save(f, path))
    return found


def places(pixels, colour):
    """Return rows and columns of a colour on the ground of the panels, left of the legend."""
    return np.argwhere((pixels == colour).all(axis=2)[:, : pixels.shape[1] - 290])


def test_a_chip_to_the_east_is_drawn_to_the_right_and_of_the_same_size(tmp_path):
    pixels = picture(tmp_path / "a.png", row_of(2), [0, 1])
    west, east = places(pixels, BLUE), places(pixels, ORANGE)
    assert west[:, 1].max() < east[:, 1].min()
    assert len(west) == pytest.approx(len(east), rel=0.05)


def test_a_chip_to_the_north_is_drawn_above(tmp_path):
    chips = [chip("s", 5e5, 4e6), chip("n", 5e5, 4e6 + 300)]
    pixels = picture(tmp_path / "a.png", chips, [0, 1])
    assert places(pixels, ORANGE)[:, 0].max() < places(pixels, BLUE)[:, 0].min()


@pytest.mark.parametrize("apart_m", [2_000, 200_000])
def test_chips_too_small_to_be_seen_are_drawn_as_squares_of_eight_pixels(tmp_path, apart_m):
    chips = [chip("a", 4e5, 4e6, side_m=1.0)]
    chips += [chip(f"b{i}", 4e5 + (i + 1) * apart_m / 9, 4e6, side_m=1.0) for i in range(9)]
    pixels = picture(tmp_path / "a.png", chips, [0] + [1] * 9)
    assert (np.ptp(places(pixels, BLUE), axis=0) + 1).tolist() == [8, 8]


def test_areas_far_apart_have_a_panel_each(tmp_path):
    chips = [chip("vegas", 660_000, 4e6), chip("paris", 450_000, 5_420_000, zone=32631)]
    pixels = picture(tmp_path / "a.png", chips, [0, 1])
    assert np.ptp(places(pixels, BLUE), axis=0).min() > 400
    assert np.ptp(places(pixels, ORANGE), axis=0).min() > 400


def test_more_areas_than_panels_are_one_map(tmp_path):
    chips = [chip(f"s{z}", 5e5, 4e6, zone=32610 + z) for z in range(10)]
    pixels = picture(tmp_path / "a.png", chips, [0] + [1] * 9)
    assert np.ptp(places(pixels, BLUE), axis=0).max() < 10


def test_scenes_without_georeference_lie_side_by_side(tmp_path):
    pixels = picture(tmp_path / "a.png", [chip(n, 0, 0, zone=NO_ZONE) for n in "ab"], [0, 1])
    assert places(pixels, BLUE)[:, 1].max() < places(pixels, ORANGE)[:, 1].min()


def test_chips_of_a_scene_without_georeference_lie_as_in_the_scene(tmp_path):
    chips = [chip("a", 0, 0, zone=NO_ZONE), chip("a", 0, -100, zone=NO_ZONE)]
    pixels = picture(tmp_path / "a.png", chips, [0, 1])
    assert places(pixels, BLUE)[:, 0].max() < places(pixels, ORANGE)[:, 0].min()


@pytest.mark.parametrize("side_m", [0.1, 100.0, 100_000.0])
def test_one_chip_of_any_size_fills_its_panel(tmp_path, side_m):
    pixels = picture(tmp_path / "a.png", [chip("a", 5e5, 4e6, side_m=side_m)], [0])
    assert np.ptp(places(pixels, BLUE), axis=0).min() > 900


@pytest.mark.parametrize(("folds", "shown"), [(2, 2), (26, 26), (27, 25)])
def test_the_key_names_every_fold_that_there_is_room_for(tmp_path, figures, folds, shown):
    draw_folds(tmp_path / "a.png", row_of(folds), np.arange(folds))
    names = [text.get_text() for text in figures[0].legends[0].get_texts()]
    more = [f"and {folds - shown} more"] if shown < folds else []
    assert names == [f"{fold}: 1, 10.0%" for fold in range(shown)] + more


def test_a_picture_is_the_same_every_time(tmp_path):
    for name in "ab":
        draw_folds(tmp_path / f"{name}.png", row_of(5), np.arange(5))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OutputError, match=r"a\.png: cannot be written"):
        draw_folds(tmp_path / "a.png", row_of(2), np.arange(2))
