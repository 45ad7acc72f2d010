"""Colours of pictures: those that colour-blind people tell apart, and a ramp for speeds."""

import numpy as np
from matplotlib import colormaps

from roadseg.arrays import Bytes

Rgb = tuple[int, int, int]

# Source: Okabe and Ito (2008), colours that all colour-blind people tell apart.
BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
YELLOW, AMBER, ORANGE, PURPLE = "#F0E442", "#E69F00", "#D55E00", "#CC79A7"
GREY = "#8C8C8C"

# From slow to fast ever darker, so that the order is seen even where hues cannot be told apart.
_RAMP = np.array(
    [
        (255, 247, 150),
        (255, 200, 60),
        (252, 140, 50),
        (230, 70, 90),
        (180, 45, 160),
        (105, 40, 190),
    ],
    dtype=np.float32,
)


def speed_colours(count: int) -> list[Rgb]:
    """Return colours of speed bins, from slow to fast: a ramp that ever darkens."""
    places = np.linspace(0, len(_RAMP) - 1, max(count, 2))[:count]
    bands = [np.interp(places, np.arange(len(_RAMP)), band).round() for band in _RAMP.T]
    return [(int(red), int(green), int(blue)) for red, green, blue in zip(*bands, strict=True)]


def probability_colours(count: int) -> Bytes:
    """Return so many colours of rising probability; shape (colour, 3), bytes."""
    ramp = colormaps["cividis"](np.linspace(0.1, 1, count))[:, :3]
    return np.asarray(np.rint(ramp * 255), dtype=np.uint8)
