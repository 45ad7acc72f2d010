"""Colours of charts that colour-blind people tell apart, of probabilities, and of images."""

import numpy as np
from matplotlib import colormaps

from roadseg.arrays import Bytes

# Source: Okabe and Ito (2008), colours that all colour-blind people tell apart.
BLUE, GREEN = "#0072B2", "#009E73"
AMBER, ORANGE, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
GREY = "#8C8C8C"

_RGB = 3


def probability_colours(count: int) -> Bytes:
    """Return a number of colours of rising probability; shape (colour, 3), bytes."""
    ramp = colormaps["cividis"](np.linspace(0.1, 1, count))[:, :3]
    return np.asarray(np.rint(ramp * 255), dtype=np.uint8)


def rgb(bands: Bytes) -> Bytes:
    """Return the first three bands of an image, or its first one in grey, shape (3, row, col)."""
    return bands[:_RGB] if len(bands) >= _RGB else bands[[0, 0, 0]]
