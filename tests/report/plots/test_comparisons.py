from dataclasses import replace

import numpy as np
import pytest
from affine import Affine
from matplotlib.image import imread
from matplotlib.text import Text

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.report.plots import comparisons
from roadseg.report.plots.comparisons import SceneImage, draw_comparison
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.speeds import SpeedBins
from tests.drawing import UTM, drawn

GRID = Grid(UTM, Affine(1, 0, 500000, 0, -1, 4000000), 100, 100)
NOWHERE = Grid(LOCAL_CRS, Affine(1, 0, 500000, 0, -1, 4000000), 100, 100)
IMAGE = np.full((100, 100, 3), (60, 90, 60), np.uint8)
LOW, HIGH = ([(500010, y), (500090, y)] for y in (3999930, 3999970))


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
    save = comparisons.save_figure

    def watch(figure, path):
        found.extend({text.get_text() for text in figure.findobj(Text)})
        save(figure, path)

    monkeypatch.setattr(comparisons, "save_figure", watch)
    return found


def compared(path, labels, predicted, *, grid=GRID, bins=None, image=IMAGE):
    """Draw both sides with a certain probability, and return the three panels."""
    certain = Probability(grid, np.full((100, 100), 255, np.uint8), None, bins)
    draw_comparison(path, SceneImage("city_7", grid, image), certain, labels, predicted)
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


def test_equal_scenes_are_equal_files(tmp_path):
    for name in "ab":
        compared(tmp_path / f"{name}.png", graph(LOW), graph(LOW))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_roads_are_drawn_where_they_are(tmp_path):
    dark = np.zeros_like(IMAGE)
    compared(tmp_path / "a.png", graph(LOW), graph(HIGH), image=dark)
    picture = imread(tmp_path / "a.png")[..., :3]
    left, _, right = np.split(picture, [picture.shape[1] // 3, 2 * picture.shape[1] // 3], axis=1)
    low, high = (
        np.flatnonzero(colourful(panel).mean(axis=1) > 0.4).mean() for panel in (left, right)
    )
    side = (3200 - 2 * 0.04 * 360 - 2 * 0.08 * 360) / 3  # of a panel that shows 100 m
    assert low - high == pytest.approx(0.4 * side, abs=8)
    assert high == pytest.approx(0.22 * 360 + 0.3 * side, abs=8)


def test_a_scene_much_taller_than_wide_stays_on_the_paper(tmp_path):
    compared(tmp_path / "a.png", graph(LOW), graph(), grid=replace(GRID, height=1000))
    height, width = imread(tmp_path / "a.png").shape[:2]
    assert height < width * 1.5


def test_links_across_gaps_are_dashed(tmp_path):
    dark = np.zeros_like(IMAGE)
    solid, _, dashed = compared(
        tmp_path / "a.png", graph(LOW), graph(LOW, inferred=[1]), image=dark
    )
    solid, dashed = (colourful(panel).any(axis=0).mean() for panel in (solid, dashed))
    assert 0.3 * solid < dashed < 0.9 * solid
