"""Overviews: a raster of bytes again, in half the rows and columns."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roadseg.core.windows import Known

LARGEST_FACTOR = 2**9
_SMALL_PX = 512  # rasters of this side need no overview

Pixels = NDArray[np.uint8]


def overview_factors(height: int, width: int) -> list[int]:
    """Return how many times smaller each overview of a raster is: 2, 4, 8, until it is small."""
    factors, factor = [], 1
    while max(height, width) > _SMALL_PX * factor and factor < LARGEST_FACTOR:
        factor *= 2
        factors.append(factor)
    return factors


def halved(pixels: Pixels, known: Known | None) -> tuple[Pixels, Known | None]:
    """Average two by two pixels, and what is left of them at the lower and right edge.

    Args:
        pixels: shape (row, col, band), 0 where they hold no data.
        known: which hold data, shape (row, col); None if all do.

    Returns:
        The same in half as many rows and columns, rounded up: the means of those that hold data,
        halves rounded up.
    """
    if known is None:
        sums = _pairs_added(_even(pixels, "edge"))
        sums += 2
        sums >>= 2
        return sums.astype(np.uint8), None
    counts = _pairs_added(_even(known[..., None], "constant"))
    sums = _pairs_added(_even(pixels, "constant"))
    means = (sums + counts // 2) // np.maximum(counts, 1)
    return means.astype(np.uint8), counts[..., 0] > 0


def _pairs_added(values: NDArray[np.uint8 | np.bool_]) -> NDArray[np.uint16]:
    rows = np.add(values[::2], values[1::2], dtype=np.uint16)
    return rows[:, ::2] + rows[:, 1::2]


def _even(values: NDArray[Any], side: Literal["edge", "constant"]) -> NDArray[Any]:
    """Give an array with odd sides one more row or column."""
    height, width = values.shape[:2]
    if height % 2 == width % 2 == 0:
        return values
    return np.pad(values, ((0, height % 2), (0, width % 2), (0, 0)), mode=side)
