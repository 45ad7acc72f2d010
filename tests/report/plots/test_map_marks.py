import pytest
from matplotlib.figure import Figure
from pyproj import CRS

from roadseg.report.plots.figures import add_north, add_scale_bar, scale_bar


@pytest.mark.parametrize(
    ("room_m", "bar_m", "text"),
    [
        *((100, 100, "100 m"), (99.9, 50, "50 m"), (50, 50, "50 m"), (49.9, 20, "20 m")),
        *((0.3, 0.2, "0.2 m"), (999, 500, "500 m"), (1000, 1000, "1 km"), (49e3, 2e4, "20 km")),
    ],
)
def test_a_scale_bar_is_the_longest_round_one_that_fits(room_m, bar_m, text):
    assert scale_bar(room_m) == (pytest.approx(bar_m), text)


@pytest.mark.parametrize(("unit_m", "limits"), [(1.0, (0, 2000)), (0.5, (100, 4100))])
def test_a_scale_bar_is_as_long_as_it_says(unit_m, limits):
    panel = Figure().add_axes((0, 0, 1, 1), xlim=limits)
    add_scale_bar(panel, (limits[1] - limits[0]) * unit_m)
    (bar,) = panel.artists
    (line,) = bar.size_bar.get_children()
    assert line.get_width() * unit_m == 500
    assert bar.txt_label.get_text() == "500 m"


@pytest.mark.parametrize(
    ("epsg", "place", "left_deg"),
    [
        (32611, (500_000, 4_000_000), 0.0),  # On the central meridian.
        (32611, (800_000, 6_000_000), 3.7),  # The meridians lean to the middle of the zone.
        (32711, (800_000, 4_000_000), -3.7),
        (32661, (2_000_000, 1_000_000), 0.0),
        (32661, (2_000_000, 3_000_000), 180.0),  # Beyond the pole.
    ],
)
def test_the_arrow_points_to_true_north(epsg, place, left_deg):
    panel = Figure().add_axes((0, 0, 1, 1))
    add_north(panel, CRS.from_epsg(epsg), place)
    (mark,) = panel.texts
    assert mark.get_rotation() % 360 == pytest.approx(left_deg % 360, abs=0.1)
