import numpy as np
import pytest

from roadseg.commands.survey.contents import collar_share

SIDE = 200
ROWS, COLS = np.mgrid[:SIDE, :SIDE]
ALL = np.ones((SIDE, SIDE), dtype=bool)


def image(black, *, low=60, high=255):
    """Make bright pixels of three bands, and 0 where it is black."""
    bands = np.random.default_rng(0).integers(low, high, (3, SIDE, SIDE))
    return np.where(black, 0, bands).astype(np.uint8)


def turned(degrees):
    """Say what lies outside of a square turned around the middle."""
    x, y = COLS - SIDE / 2 + 0.5, ROWS - SIDE / 2 + 0.5
    sin, cos = np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))
    return np.maximum(abs(cos * x + sin * y), abs(cos * y - sin * x)) > SIDE / 2 - 5


@pytest.mark.parametrize(
    "black",
    [turned(20), turned(2), COLS < 30, ROWS > 190, ROWS + COLS < 50, (ROWS < 60) & (COLS < 60)],
    ids=["turned", "turned a little", "columns", "rows", "corner", "square"],
)
def test_black_around_an_image_is_found(black):
    assert collar_share(image(black), ALL) == pytest.approx(black.mean())


def test_shadows_do_not_hide_wedges():
    shadows = np.random.default_rng(1).random((SIDE, SIDE)) < 0.1
    assert collar_share(image(turned(20) | shadows), ALL) == pytest.approx(
        turned(20).mean(), abs=0.005
    )


@pytest.mark.parametrize(
    ("black", "share"),
    [(ALL & False, 0), (ALL, 1), (np.hypot(ROWS - 100, COLS - 100) < 60, 0)],
    ids=["none", "all", "inside"],
)
def test_black_that_is_not_around_an_image_is_no_wedge_unless_all_is(black, share):
    assert collar_share(image(black), ALL) == share


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9, 0.99])
def test_a_dark_image_has_no_wedges(share):
    dark = np.random.default_rng(2).random((SIDE, SIDE)) < share
    assert collar_share(image(dark, low=1, high=6), ALL) == 0


def test_dark_water_in_a_corner_is_no_wedge():
    """Its shore is darker than the rest of the image."""
    to_shore = np.hypot(ROWS, COLS) - 80
    bands = image(to_shore < 0) * np.clip(to_shore / 40, 0, 1)
    assert collar_share(bands.astype(np.uint8), ALL) == 0


def test_pixels_of_0_in_one_band_alone_are_no_wedge():
    bands = image(ROWS < 0)
    bands[0, :40] = 0
    assert collar_share(bands, ALL) == 0


def test_what_is_known_to_hold_no_data_is_no_wedge():
    assert collar_share(image(turned(20)), ~turned(20)) == 0


@pytest.mark.parametrize(
    ("bands", "valid", "share"),
    [(image(ALL), COLS < 100, 1), (image(COLS < 30), abs(COLS - 40) > 10, 0)],
    ids=["all that has data is black", "nothing beside the black has data"],
)
def test_an_image_of_which_some_has_no_data_is_measured_without_warnings(bands, valid, share):
    assert collar_share(bands, valid) == share
