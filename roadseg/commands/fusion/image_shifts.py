"""Image shifts: by how much the roads of one image lie beside those of another."""

from collections.abc import Sequence

import numpy as np
import scipy.fft
from scipy import ndimage

from roadseg.arrays import Bools, Bytes, Floats, Floats32
from roadseg.dataset.registration import summit
from roadseg.raster.grid import Grid
from roadseg.raster.windows import cut_blocks, spread
from roadseg.roads.masks.fusion import OpenImage

REACH_M = 10.0  # Metres; the longest shift that is looked for.

_WINDOW_PX = 1024  # Side of the windows that are compared.
_DRAWN = 16  # Windows that are looked at.
_COMPARED = 3  # Those of them with the most road in both images, which are compared.
_BLUR_PX = 1.0
_STEP_PX = 0.25
# The correlation that a shift at the limit of the reach has to gain over no shift. A straight road
# fits along itself however far it is moved; this decides for the shortest way.
_PULL = 0.4

Pair = tuple[tuple[Bytes, Bools], tuple[Bytes, Bools]]


def find_shift(image: OpenImage, other: OpenImage, grid: Grid) -> tuple[float, float]:
    """Return how far the roads of another image lie beside those of an image.

    They are compared in the three of up to 16 windows with the most road in both; the shift is one
    for the whole image.

    Args:
        image: probabilities on the pixels of the grid.
        other: those of the other image on the same pixels.

    Returns:
        Rows down and columns right.
    """
    blocks = cut_blocks(grid.height, grid.width, block_px=_WINDOW_PX)
    pairs = [
        (image.read_road(window), other.read_road(window)) for window in spread(blocks, _DRAWN)
    ]
    pairs.sort(key=_road_in_both, reverse=True)
    along_row, along_col = grid.pixel_size_m
    reach = round(REACH_M / along_col), round(REACH_M / along_row)
    return displacement(pairs[:_COMPARED], reach_px=reach)


def displacement(pairs: Sequence[Pair], *, reach_px: tuple[int, int]) -> tuple[float, float]:
    """Return the displacement at which the probabilities of two images agree best.

    It is that of the highest correlation, less a penalty that grows with the square of the length,
    to a fraction of a pixel by a parabola; so it is short by some 5 %. No displacement is found
    where either shows no road.

    Args:
        pairs: windows of both: probability of any road, shape (row, col), and which pixels have
            data.
        reach_px: largest displacement as (rows, columns).
    """
    rows, cols = (max(1, reach) for reach in reach_px)
    total = np.zeros((2 * rows + 1, 2 * cols + 1))
    strength = np.zeros(2)
    for (here, is_here), (there, is_there) in pairs:
        if min(here.shape[0] - 2 * rows, here.shape[1] - 2 * cols) > 0:
            lags, squares = _correlate(
                _centred(here, is_here), _centred(there, is_there), (rows, cols)
            )
            total += lags
            strength += squares
    down = np.arange(-rows, rows + 1)[:, np.newaxis]
    right = np.arange(-cols, cols + 1)
    far = (down / rows) ** 2 + (right / cols) ** 2
    scores = total / max(float(np.sqrt(strength.prod())), 1.0) - _PULL * far
    row, col = np.unravel_index(np.argmax(np.where(far <= 1, scores, -np.inf)), scores.shape)
    step_right, step_down = summit(scores[row - 1 : row + 2, col - 1 : col + 2])
    return float(row - rows + step_down), float(col - cols + step_right)


def about_the_middle(shifts: Floats) -> Floats:
    """Return shifts from the median of all images, where the ground most likely is.

    They are rounded to quarters of a pixel, as they are no more exact than that; so images that
    agree are not resampled.

    Args:
        shifts: shape (image, 2), counted from any of them.
    """
    return np.asarray(np.round((shifts - np.median(shifts, axis=0)) / _STEP_PX) * _STEP_PX)


def _centred(road: Bytes, known: Bools) -> Floats32:
    """Return blurred probabilities less their mean, 0 where there is no data."""
    values = road.astype(np.float32)
    values = np.where(known, values - (values[known].mean() if known.any() else 0), 0)
    return np.asarray(ndimage.gaussian_filter(values, _BLUR_PX), dtype=np.float32)


def _correlate(here: Floats32, there: Floats32, reach_px: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return the products of two windows for each displacement, and the squares of both."""
    rows, cols = reach_px
    # What could leave the window when it is displaced is not compared.
    inner = np.zeros_like(here)
    inside = (slice(rows, -rows), slice(cols, -cols))
    inner[inside] = here[inside]
    size = [scipy.fft.next_fast_len(side, real=True) for side in here.shape]
    spectrum = np.conj(scipy.fft.rfft2(inner, size)) * scipy.fft.rfft2(there, size)
    products = np.roll(scipy.fft.irfft2(spectrum, size), (rows, cols), axis=(0, 1))
    lags = np.asarray(products[: 2 * rows + 1, : 2 * cols + 1], dtype=np.float64)
    return lags, np.array([(inner**2).sum(), (there**2).sum()], dtype=np.float64)


def _road_in_both(pair: Pair) -> float:
    (here, is_here), (there, is_there) = pair
    known = is_here & is_there
    return float(min(here[known].sum(dtype=np.int64), there[known].sum(dtype=np.int64)))
