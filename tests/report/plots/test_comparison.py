from dataclasses import replace

import numpy as np
import pytest
from affine import Affine
from matplotlib.image import imread

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.report.plots import comparison
from roadseg.report.plots.comparison import draw_comparison
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.speeds import SpeedBins
from tests.drawing import UTM, drawn

GRID = Grid(UTM, Affine(1, 0, 660000, 0, -1, 4000000), 100, 100)
SCENE = np.full((3, 100, 100), 90, np.uint8)
CERTAIN = Probability(GRID, np.full((100, 100), 255, np.uint8), None)
ROAD = [(660010, 3999950), (660090, 3999950)]


def graph(*roads, kph=50.0, crs=UTM):
    return add_travel(drawn(*roads, crs=crs), np.full(len(roads), kph))


def draw(path, *, image=SCENE, probability=CERTAIN, reference=None, predicted=None):
    draw_comparison(path, image, probability, reference or graph(ROAD), predicted or graph())
    return imread(path)[..., :3]


def saturated(picture):
    """Return the share of pixels that are neither black, grey nor white."""
    return (np.ptp(picture, axis=-1) > 0.2).mean()


@pytest.mark.parametrize("bands", [1, 2, 3, 8])
def test_scenes_of_any_number_of_bands_are_drawn(tmp_path, bands):
    picture = draw(tmp_path / "a.png", image=np.full((bands, 100, 100), 90, np.uint8))
    assert picture.shape == (1160, 3200, 3)


def test_roads_are_drawn_where_they_are_known_only(tmp_path):
    picture = draw(tmp_path / "a.png")
    assert saturated(picture[610:700, :980]) > 0
    assert saturated(picture[610:700, 2060:2900]) == 0


def test_the_road_runs_along_its_row(tmp_path):
    panel = draw(tmp_path / "a.png")[:, :940]
    rows = np.flatnonzero((np.ptp(panel, axis=-1) > 0.2).any(axis=1))
    assert rows.mean() == pytest.approx(652, abs=5)


def road_colour(path, *, kph, bins):
    found = replace(CERTAIN, speed_bins=bins)
    picture = draw(path, probability=found, reference=graph(ROAD, kph=kph))
    panel = picture[:, :940].reshape(-1, 3)
    return panel[np.ptp(panel, axis=-1).argmax()]


@pytest.mark.parametrize(("kph", "alike"), [(30, True), (50, True), (50.01, False)])
def test_roads_of_one_speed_bin_have_one_colour(tmp_path, kph, alike):
    bins = SpeedBins((20.0, 50.0), "km/h")
    colours = [road_colour(tmp_path / "a.png", kph=speed, bins=bins) for speed in (45, kph)]
    assert np.allclose(*colours) is alike


@pytest.fixture
def figures(monkeypatch):
    """Give the list of figures that are drawn."""
    found, save = [], comparison.save_figure
    monkeypatch.setattr(comparison, "save_figure", lambda f, path: found.append(f) or save(f, path))
    return found


def test_the_picture_names_its_scene(tmp_path, figures):
    draw(tmp_path / "city_7.png")
    assert figures[0].get_suptitle() == "city_7"


def test_the_key_has_the_edges_of_the_bins_and_their_unit(tmp_path, figures):
    draw(tmp_path / "a.png", probability=replace(CERTAIN, speed_bins=SpeedBins((7.5, 50), "km/h")))
    key = figures[0].axes[-1]
    assert [text.get_text() for text in key.get_yticklabels()] == ["7.5", "50"]
    assert key.get_ylabel() == "speed, km/h"


def test_a_scene_without_georeference_is_drawn(tmp_path):
    grid = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 0), 100, 100)
    road = graph([(10, -50), (90, -50)], crs=LOCAL_CRS)
    picture = draw(
        tmp_path / "a.png",
        probability=replace(CERTAIN, grid=grid),
        reference=road,
        predicted=graph(crs=LOCAL_CRS),
    )
    assert saturated(picture[610:700, :980]) > 0
