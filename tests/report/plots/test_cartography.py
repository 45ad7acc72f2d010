import numpy as np
import pytest
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.report.plots.map_marks import bar_text, north_of, scale_bar_m

MERIDIAN = (500000.0, 4000000.0)  # where grid north of a UTM zone is true north


def grid(transform, crs="EPSG:32611"):
    return Grid(CRS(crs), transform, 100, 100)


def placed(*, degrees=0.0, x=1.0, y=-1.0):
    """Return a grid on the central meridian, turned to the left by so much."""
    sine, cosine = np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))
    return grid(Affine(cosine * x, -sine * y, MERIDIAN[0], sine * x, cosine * y, MERIDIAN[1]))


@pytest.mark.parametrize(
    ("room", "bar"), [(100, 100), (99.9, 50), (50, 50), (49.9, 20), (1.5, 1), (0.3, 0.2)]
)
def test_a_scale_bar_is_the_longest_round_one_that_fits(room, bar):
    assert scale_bar_m(room) == pytest.approx(bar)


@pytest.mark.parametrize(("length", "text"), [(500, "500 m"), (1000, "1 km"), (20000, "20 km")])
def test_long_bars_are_told_in_kilometres(length, text):
    assert bar_text(length) == text


@pytest.mark.parametrize(
    ("degrees", "direction"), [(0, (0, -1)), (90, (1, 0)), (180, (0, 1)), (-90, (-1, 0))]
)
def test_the_arrow_points_north_however_the_raster_is_turned(degrees, direction):
    assert north_of(placed(degrees=degrees)) == pytest.approx(direction, abs=1e-4)


def test_a_raster_that_runs_from_south_to_north_has_north_below():
    assert north_of(placed(y=1.0)) == pytest.approx((0, 1), abs=1e-4)


def test_pixels_that_are_longer_than_wide_do_not_bend_the_arrow():
    right, down = north_of(placed(degrees=45, x=2.0))
    assert (right, down) == pytest.approx((np.sqrt(0.5), -np.sqrt(0.5)), abs=1e-4)


def test_away_from_the_meridian_true_north_is_not_grid_north():
    right, down = north_of(grid(Affine(1, 0, 800000, 0, -1, 6000000)))
    assert -0.08 < right < -0.04  # the meridians lean to the west of the zone
    assert down == pytest.approx(-1, abs=0.01)


def test_north_is_known_at_the_poles():
    assert np.hypot(*north_of(grid(Affine(1, 0, 1999950, 0, -1, 2000050), "EPSG:32661"))) == 1.0


def test_a_raster_without_a_place_has_no_north():
    with pytest.raises(ValueError, match="no georeference"):
        north_of(Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 0), 10, 10))
