"""Colours of speeds, errors and folds, the same in every mask, picture, style and page."""

from collections.abc import Iterable

import numpy as np

from roadseg.roads.speeds import SpeedBins

Rgb = tuple[int, int, int]

# Colours by miles an hour. They rise in lightness, so that the order is seen where hues are not;
# those of the default bins differ by 12 or more (CIE 1976 dE) for each common colour blindness.
_RAMP: dict[float, Rgb] = {
    5.0: (75, 42, 158),
    15.0: (79, 95, 208),
    25.0: (47, 147, 208),
    35.0: (34, 181, 154),
    45.0: (116, 207, 82),
    55.0: (200, 223, 44),
    65.0: (255, 242, 122),
    100.0: (255, 252, 225),
}
# Probabilities from 0 to 1 in equal steps. Source: cividis, Nunez, Anderton and Renslow (2018).
PROBABILITIES: tuple[Rgb, ...] = (
    (0, 47, 111),
    (64, 77, 107),
    (124, 123, 120),
    (186, 171, 103),
    (253, 231, 55),
)
# Confidence of roads, from below the first limit to above the last; as on the report's map. No
# class is grey, as asphalt and roofs are.
CONFIDENCE_LIMITS = (0.5, 0.7, 0.8, 0.9)
CONFIDENCE: tuple[Rgb, ...] = (
    (143, 103, 242),
    (201, 108, 214),
    (240, 128, 150),
    (250, 175, 90),
    (253, 231, 69),
)
# Roads against known ones.
FOUND: Rgb = (63, 169, 245)
MISSED: Rgb = (229, 38, 47)
FALSE: Rgb = (255, 190, 11)

ROUTE: Rgb = (255, 63, 180)  # As on the report's map.

# What people did to roads in a review.
EDITS: dict[str, Rgb] = {
    "accept": (245, 245, 245),
    "reject": (209, 36, 47),
    "draw": ROUTE,
    "move": (0, 209, 224),
    "join": (0, 160, 120),
    "split": (255, 157, 46),
    "speed": (110, 110, 110),
}

# Folds. Source: Okabe and Ito (2008), colours that all colour-blind people tell apart.
_FOLDS: tuple[Rgb, ...] = (
    (0, 114, 178),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (213, 94, 0),
    (240, 228, 66),
    (80, 80, 80),
)


def speed_colours(mph: Iterable[float]) -> list[Rgb]:
    """Return the colour of each speed: one speed always has the same.

    Args:
        mph: speeds in miles an hour; those below 5 and above 100 have the colours of these.
    """
    speeds = list(mph)
    places, colours = list(_RAMP), np.array(list(_RAMP.values()), dtype=np.float64)
    bands = [np.rint(np.interp(speeds, places, band)).astype(int).tolist() for band in colours.T]
    return list(zip(*bands, strict=True))


def bin_colours(bins: SpeedBins) -> list[Rgb]:
    """Return the colour of each speed bin: that of the speed that stands for it."""
    return speed_colours(bins.speeds_mph)


def fold_colour(fold: int) -> Rgb:
    """Return the colour of a fold: the eight, then the same ones dark, pale, and so on."""
    turn, index = divmod(fold, len(_FOLDS))
    factor, added = ((1.0, 0), (0.5, 0), (0.5, 127))[turn % 3]
    red, green, blue = (int(value * factor) + added for value in _FOLDS[index])
    return red, green, blue


def as_hex(colour: Rgb) -> str:
    """Return a colour as pages and matplotlib write it: `#4b2a9e`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
