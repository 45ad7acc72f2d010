"""A forecast says how long a training takes, before its images are cut into chips."""

import pytest
from pyproj import CRS
from rasterio import Affine

from roadseg.learn.options import TrainOptions
from roadseg.learn.training import timetable as module
from roadseg.learn.training.rehearsal import KEEPING_S, Pace
from roadseg.learn.training.timetable import forecast
from roadseg.raster.grid import Grid


def grid(height, width):
    return Grid(CRS.from_epsg(32611), Affine.identity(), width, height)


ALIKE = [(grid(500, 500), 1.0)] * 50  # 40 chips to train on, and 10 of 4 windows held out.


@pytest.fixture
def foretell(monkeypatch, cpu):
    """Give a function that forecasts at a pace of 0.1 s to learn, 0.01 s to validate a window."""
    monkeypatch.setattr(module, "guess_pace", lambda *_, **__: Pace(0.1, 0.01))

    def foretell(scenes=ALIKE, chip_px=500, **options):
        usual = {"chip_px": chip_px, "folds": 5, "bands": 3, "bins": 1}
        return forecast(TrainOptions(**options), scenes, **usual, device=cpu, workers=0)

    return foretell


def test_scenes_are_cut_into_chips_and_these_into_windows(foretell):
    scenes = [(grid(1000, 600), 1.0), (grid(500, 500), 3.0)]
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
