from dataclasses import replace

import numpy as np
import pytest
import shapely
from affine import Affine
from matplotlib.image import imread
from matplotlib.text import Text

from roadseg.errors import OutputError
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.report.plots import maps
from roadseg.report.plots.figures import Paper
from roadseg.report.plots.maps import (
    Errors,
    Ground,
    draw_comparison,
    draw_errors,
    draw_graph,
    draw_scene,
)
from roadseg.roads.colours import FALSE, FOUND, MISSED
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from tests.drawing import UTM, drawn

GRID = Grid(UTM, Affine(1, 0, 500000, 0, -1, 4000000), 100, 100)
NOWHERE = Grid(LOCAL_CRS, Affine(1, 0, 500000, 0, -1, 4000000), 100, 100)
IMAGE = np.full((100, 100, 3), (60, 90, 60), np.uint8)
GROUND = Ground("city", GRID, IMAGE)
LOW, HIGH = ([(500010, y), (500090, y)] for y in (3999930, 3999970))
PAPER = Paper(width_in=3, dpi=100)
OPTIONS = {"bins": DEFAULT_BINS, "paper": PAPER}


def graph(*roads, kph=40.0, crs=UTM, **attributes):
    found = add_travel(drawn(*roads, crs=crs), np.full(len(roads), kph))
    more = {name: np.array(values) for name, values in attributes.items()}
    return replace(found, attributes=found.attributes | more)


def colourful(picture):
    """Tell which pixels are neither black, grey nor white."""
    return np.ptp(picture[..., :3], axis=-1) > 0.35


@pytest.fixture
def texts(monkeypatch):
    """Return a list that gets all texts of the figures drawn."""
    found = []
    save = maps.save_figure

    def watch(figure, path):
        found.extend({text.get_text() for text in figure.findobj(Text)})
        save(figure, path)

    monkeypatch.setattr(maps, "save_figure", watch)
    return found


def test_a_map_has_the_width_of_its_paper(tmp_path):
    draw_graph(tmp_path / "a.png", GROUND, graph(LOW), **OPTIONS)
    assert imread(tmp_path / "a.png").shape[1] == 300


@pytest.mark.parametrize(
    ("suffix", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_the_suffix_is_the_format_and_equal_maps_are_equal_files(tmp_path, suffix, begin):
    paths = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for path in paths:
        draw_graph(path, GROUND, graph(LOW), **OPTIONS)
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(begin)
    assert first == second


def test_roads_are_drawn_where_they_are(tmp_path):
    draw_graph(tmp_path / "a.png", replace(GROUND, image=None), graph(LOW), **OPTIONS)
    picture = imread(tmp_path / "a.png")
    rows = np.flatnonzero(colourful(picture).mean(axis=1) > 0.4)
    assert rows.mean() == pytest.approx(22 + 292 * 0.7, abs=4)


def test_a_scene_stands_beside_its_labels(tmp_path):
    draw_scene(tmp_path / "a.png", GROUND, graph(LOW), **OPTIONS)
    left, right = np.array_split(colourful(imread(tmp_path / "a.png")), 2, axis=1)
    assert not left[:160].any()
    assert right[:160].any()


def test_a_scene_without_labels_has_the_whole_paper(tmp_path, texts):
    draw_scene(tmp_path / "a.png", GROUND, None, **OPTIONS)
    assert imread(tmp_path / "a.png").shape[0] > 300
    assert not any("labels" in text for text in texts)


def test_the_key_names_the_speeds_that_there_are(tmp_path, texts):
    draw_graph(tmp_path / "a.png", GROUND, graph(LOW, HIGH, kph=45.0), **OPTIONS)
    assert [text for text in texts if "km/h" in text] == ["32 to 48 km/h"]
    assert "city: 0.16 km of road" in texts


@pytest.mark.parametrize(("inferred", "told"), [([0, 1], ["inferred, 0.08 km"]), ([0, 0], [])])
def test_what_was_inferred_is_told_if_there_is_any(tmp_path, texts, inferred, told):
    draw_graph(tmp_path / "a.png", GROUND, graph(LOW, HIGH, inferred=inferred), **OPTIONS)
    assert [text for text in texts if "inferred" in text] == told


def test_errors_are_told_in_kilometres(tmp_path, texts):
    errors = Errors(graph(LOW, HIGH), graph(), graph(HIGH), tolerance_m=4)
    draw_errors(tmp_path / "a.png", GROUND, errors, paper=PAPER)
    assert {"found, 0.08 km", "missed, 0.00 km", "false, 0.08 km"} <= set(texts)


def test_errors_have_three_colours(tmp_path):
    middle = [(500010, 3999950), (500090, 3999950)]
    errors = Errors(graph(LOW, HIGH), graph(middle), graph(HIGH), tolerance_m=4)
    draw_errors(tmp_path / "a.png", replace(GROUND, image=None), errors, paper=PAPER)
    picture = imread(tmp_path / "a.png")[..., :3]
    rows = [22 + round(292 * share) for share in (0.3, 0.5, 0.7)]
    false, missed, found = (picture[row, 150] for row in rows)
    assert np.allclose([false, missed, found], np.array([FALSE, MISSED, FOUND]) / 255, atol=0.02)


def test_marks_are_left_out_where_there_is_no_place(tmp_path, texts):
    draw_graph(
        tmp_path / "a.png", replace(GROUND, grid=NOWHERE), graph(LOW, crs=LOCAL_CRS), **OPTIONS
    )
    assert "N" not in texts
    draw_graph(tmp_path / "a.png", GROUND, graph(LOW), **OPTIONS)
    assert {"N", "20 m"} <= set(texts)


def test_what_was_trained_on_is_pale_and_named(tmp_path, texts):
    part = replace(GROUND, held_out=shapely.box(0, 0, 50, 100))
    draw_graph(tmp_path / "a.png", part, graph(LOW), **OPTIONS)
    held_out, trained_on = imread(tmp_path / "a.png")[100, [100, 200], 0]
    assert trained_on > held_out + 0.1
    assert "trained on" in texts


def test_a_scene_much_taller_than_wide_stays_on_the_paper(tmp_path):
    tall = Ground("city", replace(GRID, height=1000), None)
    draw_graph(tmp_path / "a.png", tall, graph(LOW), **OPTIONS)
    height, width = imread(tmp_path / "a.png").shape[:2]
    assert width == 300
    assert height < 300 * 1.5


def test_a_map_without_roads_is_drawn(tmp_path):
    draw_graph(tmp_path / "a.png", GROUND, graph(), **OPTIONS)
    assert (tmp_path / "a.png").exists()


def compared(path, labels, predicted, *, grid=GRID, bins=None):
    """Draw both sides with a certain probability, and return the three panels."""
    certain = Probability(grid, np.full((100, 100), 255, np.uint8), None, bins)
    draw_comparison(path, Ground("city_7", grid, IMAGE), certain, labels, predicted)
    picture = imread(path)[..., :3]
    width = picture.shape[1]
    assert width == pytest.approx(3200, abs=10)
    return np.split(picture, [width // 3, 2 * width // 3], axis=1)


@pytest.mark.parametrize("grid", [GRID, NOWHERE])
def test_roads_stand_beside_their_probability_on_the_side_that_has_them(tmp_path, grid):
    panels = compared(tmp_path / "a.png", graph(crs=grid.crs), graph(HIGH, crs=grid.crs), grid=grid)
    labels, _, found = [colourful(panel).any() for panel in panels]
    assert (labels, found) == (False, True)


def test_the_comparison_names_scene_lengths_and_speeds_of_both_sides(tmp_path, texts):
    bins = SpeedBins((20.0, 50.0), "km/h")
    compared(tmp_path / "a.png", graph(LOW, kph=10), graph(HIGH, kph=60), bins=bins)
    assert {"city_7: probability of road", "labels: 0.08 km", "found: 0.08 km"} <= set(texts)
    assert {bins.shown_names[0], bins.shown_names[2]} <= set(texts)
    assert bins.shown_names[1] not in texts


def test_a_map_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "a").write_text("no folder")
    with pytest.raises(OutputError, match=r"a/b\.png: cannot be written"):
        draw_graph(tmp_path / "a" / "b.png", GROUND, graph(LOW), **OPTIONS)
