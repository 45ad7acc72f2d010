"""Cartography: which way a map's north is, and how long its scale bar is."""

import math

import numpy as np

from roadseg.core.grid import DEGREES, Grid, transformer

_STEP_DEG = 1e-4  # of latitude, to see where north is; about 11 m
_ROUND = (1, 2, 5)


def scale_bar_m(most_m: float) -> float:
    """Return the longest bar of 1, 2 or 5 times a power of ten metres that fits.

    Args:
        most_m: room for it, above 0; a bar of just that length fits.
    """
    power = 10.0 ** math.floor(math.log10(most_m))
    return max(power * digit for digit in _ROUND if power * digit <= most_m)


def bar_text(length_m: float) -> str:
    """Say how long a bar is: `200 m`, from 1000 m on `2 km`."""
    return f"{length_m:g} m" if length_m < 1000 else f"{length_m / 1000:g} km"  # noqa: PLR2004


def north_of(grid: Grid) -> tuple[float, float]:
    """Return the direction of true north in the middle of a raster, on its ground.

    Returns:
        A vector of length 1: to the right along its rows, and down along its columns; (0, -1)
        where north is up.

    Raises:
        ValueError: if the raster has no place on earth.
    """
    lon, lat = grid.centre_degrees
    step = -_STEP_DEG if lat + _STEP_DEG > 90 else _STEP_DEG  # noqa: PLR2004 - the pole
    x, y = transformer(DEGREES, grid.crs).transform([lon, lon], [lat, lat + step])
    rows, cols = grid.to_pixel(np.column_stack([x, y])).T
    right_m, down_m = grid.pixel_size_m
    right = (cols[1] - cols[0]) * right_m * np.sign(step)
    down = (rows[1] - rows[0]) * down_m * np.sign(step)
    length = math.hypot(right, down)
    return float(right / length), float(down / length)
