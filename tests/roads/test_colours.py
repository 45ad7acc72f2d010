"""One speed has one colour everywhere, and colour-blind people can tell speeds and errors apart."""

import itertools

import numpy as np
import pytest

from roadseg.roads.colours import (
    CONFIDENCE,
    FALSE,
    FOUND,
    MISSED,
    as_hex,
    bin_colours,
    speed_colours,
)
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins

# What people see of linear red, green and blue. Source: Machado, Oliveira and Fernandes (2009), A
# Physiologically-based Model for Simulation of Color Vision Deficiency, table 1, severity 1.
SEEN = {
    "all": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colours, seen):
    """Return colours in CIE L*a*b* as somebody sees them, shape (colour, 3)."""
    levels = np.array(colours) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.transpose(SEEN[seen]), 0, 1)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = linear @ np.transpose(to_xyz) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    x, y, z = f.T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_difference(colours, seen):
    """Return the least difference of any two colours, CIE 1976."""
    pairs = itertools.combinations(lab(colours, seen), 2)
    return min(np.linalg.norm(one - other) for one, other in pairs)


@pytest.mark.parametrize("seen", SEEN)
def test_everybody_tells_the_default_bins_apart_and_faster_ones_are_lighter(seen):
    colours = bin_colours(DEFAULT_BINS)
    assert least_difference(colours, seen) > 12
    assert (np.diff(lab(colours, seen)[:, 0]) > 0).all()


@pytest.mark.parametrize("seen", SEEN)
def test_everybody_tells_confidences_apart_and_higher_ones_are_lighter(seen):
    assert least_difference(CONFIDENCE, seen) > 15
    assert (np.diff(lab(CONFIDENCE, seen)[:, 0]) > 0).all()


def test_no_confidence_has_the_colour_of_asphalt_or_roofs():
    ground = [(level, level, level) for level in range(60, 200, 10)]
    for colour in CONFIDENCE:
        assert min(least_difference([colour, grey], "all") for grey in ground) > 40


@pytest.mark.parametrize("seen", SEEN)
def test_everybody_tells_found_missed_and_false_roads_apart(seen):
    assert least_difference([FOUND, MISSED, FALSE], seen) > 30


def test_a_speed_has_one_colour_whatever_the_bins():
    few = SpeedBins((20.0, 40.0))  # 10, 30 and 50 mph stand for them
    assert bin_colours(few) == speed_colours([10, 30, 50])
    in_kph = SpeedBins((32.18688, 64.37376), "km/h")
    assert bin_colours(in_kph) == bin_colours(few)


def test_bins_above_all_others_still_differ():
    assert len(set(speed_colours([65, 75, 85, 100]))) == 4
    assert speed_colours([100]) == speed_colours([400])
    assert speed_colours([1]) == speed_colours([5])


def test_pages_take_colours_as_hexadecimal_numbers():
    assert as_hex((75, 42, 158)) == "#4b2a9e"
    assert as_hex((0, 5, 255)) == "#0005ff"
