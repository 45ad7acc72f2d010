"""A forecast says how long a training takes, before its images are cut into chips."""

from types import SimpleNamespace

import pytest
from pyproj import CRS
from rasterio import Affine

from roadseg.commands.survey import training_plan
from roadseg.config import load_config
from roadseg.learn.training.rehearsal import KEEPING_S, Pace
from roadseg.raster.grid import Grid


def scene(height, width):
    grid = Grid(CRS.from_epsg(32611), Affine.identity(), width, height)
    return SimpleNamespace(grid=grid, bands=(1, 2, 3))


ALIKE = [(scene(500, 500), 1.0)] * 50  # 40 chips to train on, and 10 of 4 windows held out.


@pytest.fixture
def foretell(monkeypatch):
    """Give a function that forecasts at a pace of 0.1 s to learn, 0.01 s to validate a window."""
    monkeypatch.setattr(training_plan, "guess_pace", lambda *_, **__: Pace(0.1, 0.01))

    def foretell(scenes=ALIKE, **options):
        own = [f"train.{name}={value}" for name, value in options.items()]
        config = load_config(None, ["imagery.chip_px=500", "split.folds=5", *own])
        return training_plan.forecast_training(scenes, config, device=None)

    return foretell


def test_scenes_are_cut_into_chips_and_these_into_windows(foretell):
    scenes = [(scene(1000, 600), 1.0), (scene(500, 500), 3.0)]
    seen = foretell(scenes, windows_per_chip=10)
    # The large scene is four chips of 500 x 300; every chip is covered by four windows.
    assert seen.windows == (4 + 3) * 10 * 4 / 5
    assert seen.held_out == (4 * 4 + 4) / 5


def test_without_a_limit_it_takes_as_long_as_the_config_says(foretell):
    seen = foretell(epochs=7, windows_per_chip=2)
    assert seen.windows == 80
    assert seen.epoch_s == pytest.approx(80 * 0.1 + 40 * 0.01 + KEEPING_S)
    assert seen.options.epochs == 7


def test_with_a_limit_it_takes_as_long_as_that(foretell):
    seen = foretell(minutes=5)
    assert 0.9 * 300 < seen.epoch_s * seen.options.epochs < 300
    assert seen.windows % 8 == 0


def test_few_windows_are_validated_on_where_the_config_says_so(foretell):
    few = foretell(epochs=7, windows_per_chip=2, validation_windows=3)
    assert few.epoch_s == pytest.approx(80 * 0.1 + 3 * 0.01 + KEEPING_S)


def test_no_more_windows_are_validated_on_than_there_are(foretell):
    many = foretell(epochs=7, windows_per_chip=2, validation_windows=5000)
    assert many.epoch_s == foretell(epochs=7, windows_per_chip=2).epoch_s
