"""Registration: score every small displacement of a road mask against the image."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from scipy import ndimage

from roadseg.arrays import Bools, Bytes, Floats32
from roadseg.raster.windows import Window
from roadseg.roads.masks.burning import IGNORE, road_pixels

Lags = NDArray[np.floating]  # The last two axes are displacements by rows and by columns.

_WORK_M = 1.1  # Metres; approximate size of the pixels that are compared.
_WORK_PX = 512  # Side of the part of a scene that is compared, in such pixels.
_CELLS = 16  # Cells per side of this part in the search for the part with most road.
_BANDS = 3
_WIDER_M = (0.0, 1.5, 3.0, 5.0, 8.0, 12.0)  # Metres on each side by which roads are widened.
_RING_M = 5.0  # Metres; width of the roadside.
_TEXTURE_M = (3.0, 7.0)  # Metres; sides of the squares whose variance is a feature.
_NOISE = 10.0  # Variance of bytes that is noise, not texture.
_EPSILON = 0.01  # Added to standard deviations, so that flat images cause no division by zero.
_EDGE_M = 0.8  # Metres; standard deviation of the blur of image edges and road outlines.
_NORMAL_M = 1.5  # Metres; that of the distance to the mask, whose gradient points across the road.
_CALM_M = 8.0  # Metres; side of the squares in which the strength of edges is normalised.
_EDGE_POWER = 0.5  # Exponent of the strength of edges: a roof counts little more than a kerb.
# Subtracted from the score at the largest displacement, less with its square nearer by.
_PULL = 0.5


@dataclass(frozen=True)
class View:
    """A scene and its mask at the pixel size at which they are compared.

    Attributes:
        bands: shape (band, row, col); unknown pixels have the mean of the band.
        away_m: shape (row, col), distance from the outline of the mask, negative inside.
        known: shape (row, col), whether the pixel has data and a label.
        stays_inside: shape (row, col), known pixels that every displacement keeps in the image.
        pixel_m: ground size of a pixel as (along a row, along a column).
    """

    bands: Floats32
    away_m: Floats32
    known: Bools
    stays_inside: Bools
    pixel_m: tuple[float, float]
    reach_m: float

    @property
    def reach_px(self) -> tuple[int, int]:
        """Largest displacement as (rows, columns)."""
        along_row, along_col = self.pixel_m
        return math.ceil(self.reach_m / along_col), math.ceil(self.reach_m / along_row)

    @property
    def normal(self) -> tuple[Floats32, Floats32]:
        """Direction across the roads, x and y, each of shape (row, col), of length 1 near them."""
        away = _blur(self.away_m, self.pixel_m, _NORMAL_M)
        x, y = (np.gradient(away, self.pixel_m[axis], axis=1 - axis) for axis in (0, 1))
        return x, y


def make_view(image: Bytes, mask: Bytes, *, pixel_m: tuple[float, float], reach_m: float) -> View:
    """Average an image and its mask to coarser pixels; of a large scene, the part with most road.

    Args:
        image: shape (band, row, col).
        mask: shape (row, col).
        pixel_m: ground size of a pixel as (along a row, along a column).
    """
    step = max(1, round(_WORK_M / pixel_m[1])), max(1, round(_WORK_M / pixel_m[0]))
    row, col, rows, cols = densest_window(mask, (_WORK_PX * step[0], _WORK_PX * step[1]))
    mask = mask[row : row + rows, col : col + cols]
    bands = _block_means(image[:_BANDS, row : row + rows, col : col + cols], step)
    known = _block_means(mask == IGNORE, step) == 0
    for band in bands:
        band[~known] = band[known].mean() if known.any() else 0
    size_m = pixel_m[0] * step[1], pixel_m[1] * step[0]
    road = _block_means(road_pixels(mask), step) > 0.5  # noqa: PLR2004 - half
    view = View(bands, _signed_distance(road, size_m), known, known.copy(), size_m, reach_m)
    margin_row, margin_col = view.reach_px
    # Pixels that a displacement could move out of the image do not count.
    view.stays_inside[:margin_row] = view.stays_inside[-margin_row:] = False
    view.stays_inside[:, :margin_col] = view.stays_inside[:, -margin_col:] = False
    return view


def densest_window(mask: Bytes, side_px: tuple[int, int]) -> Window:
    """Return the window of a mask with the most road, located to about 1/16 of its side.

    Args:
        mask: shape (row, col), 0 background, 255 not known, road otherwise.
        side_px: rows and columns of the window; it is smaller where the mask is.
    """
    height, width = (min(pair) for pair in zip(mask.shape, side_px, strict=True))
    if (height, width) == mask.shape:
        return Window(0, 0, height, width)
    step = max(1, height // _CELLS), max(1, width // _CELLS)
    cells = _block_means(road_pixels(mask), step)
    size = height // step[0], width // step[1]
    road_share = ndimage.uniform_filter(
        cells, size, mode="constant", origin=[-(n // 2) for n in size]
    )
    row, col = np.unravel_index(np.argmax(road_share), road_share.shape)
    top = min(int(row) * step[0], mask.shape[0] - height)
    return Window(top, min(int(col) * step[1], mask.shape[1] - width), height, width)


def correlate(view: View, *, blocks: int) -> Iterator[tuple[Lags, Lags]]:
    """Compare image and displaced mask in each of blocks x blocks parts with road.

    Yields:
        For each width of the roads and each displacement, the difference of the features between
        road and roadside, shape (width, feature, rows, cols), and the agreement of image edges with
        the outlines, shape (width, rows, cols). The sums over all blocks are those of the scene.
    """
    shown, templates = _image_evidence(view), _templates(view)
    height, width = view.stays_inside.shape
    rows, cols = view.reach_px
    padded = np.pad(shown, ((0, 0), (rows, rows), (cols, cols)))
    high, wide = -(-height // blocks), -(-width // blocks)
    shape = (scipy.fft.next_fast_len(high + 2 * rows), scipy.fft.next_fast_len(wide + 2 * cols))
    for top in range(0, height, high):
        for left in range(0, width, wide):
            part = templates[:, top : top + high, left : left + wide]
            if part.any():
                there = padded[:, top : top + high + 2 * rows, left : left + wide + 2 * cols]
                yield _lags(there, part, shape, view.reach_px)


def score(features: Lags, edges: Lags) -> Lags:
    """Turn sums of what `correlate` yields into scores, shape (..., width, rows, cols).

    Both kinds of evidence have mean 0 and deviation 1 over all widths and displacements.

    Args:
        features: shape (..., width, feature, rows, cols).
        edges: shape (..., width, rows, cols).
    """
    return _standard(np.einsum("...krc,...krc->...rc", features, features)) + _standard(edges)


def best_displacement(
    scores: Lags, view: View, across: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the displacement of the highest score, x right and y down, metres.

    Args:
        scores: shape (width, rows, cols).
        across: a unit vector to which displacements are limited; None for all displacements.
    """
    rows, cols = view.reach_px
    x = np.arange(-cols, cols + 1) * view.pixel_m[0]
    y = np.arange(-rows, rows + 1)[:, np.newaxis] * view.pixel_m[1]
    # A slight pull towards no displacement decides between near equals.
    far = (x**2 + y**2) / view.reach_m**2
    pulled = scores - _PULL * far
    if across is not None:
        pulled = pulled - ((across[0] * y - across[1] * x) / max(view.pixel_m)) ** 2
    _, row, col = np.unravel_index(np.argmax(np.where(far <= 1, pulled, -np.inf)), pulled.shape)
    width = int(np.argmax(pulled[:, row, col]))
    # The maximum of a parabola through the neighbours is more exact than the pixel.
    step_x, step_y = _summit(pulled[width, row - 1 : row + 2, col - 1 : col + 2])
    right = float(x[col]) + step_x * view.pixel_m[0]
    down = float(y[row, 0]) + step_y * view.pixel_m[1]
    if across is None:
        return right, down
    length = right * across[0] + down * across[1]
    return length * across[0], length * across[1]


def _block_means(pixels: NDArray[np.uint8 | np.bool_], step: tuple[int, int]) -> Floats32:
    """Return the means of blocks of pixels; incomplete blocks at the ends are dropped."""
    rows, cols = (length // size for length, size in zip(pixels.shape[-2:], step, strict=True))
    narrow = np.zeros((*pixels.shape[:-1], cols), dtype=np.float32)
    for col in range(step[1]):
        narrow += pixels[..., col : cols * step[1] : step[1]]
    total = np.zeros((*pixels.shape[:-2], rows, cols), dtype=np.float32)
    for row in range(step[0]):
        total += narrow[..., row : rows * step[0] : step[0], :]
    total /= step[0] * step[1]
    return total


def _signed_distance(road: Bools, pixel_m: tuple[float, float]) -> Floats32:
    spacing = pixel_m[::-1]
    outside = ndimage.distance_transform_edt(~road, sampling=spacing)
    inside = ndimage.distance_transform_edt(road, sampling=spacing)
    half = max(pixel_m) / 2  # The transform measures to the middle of the next pixel.
    return np.where(road, half - inside, outside - half).astype(np.float32)


def _image_evidence(view: View) -> Floats32:
    """Return uncorrelated features, then edges as vectors of twice their angle (`_edges`)."""
    squares = view.bands**2
    texture = [
        (_box(squares, view.pixel_m, side) - _box(view.bands, view.pixel_m, side) ** 2)
        .clip(0)
        .mean(axis=0)
        for side in _TEXTURE_M
    ]
    features = np.stack([*view.bands, *np.log(np.stack(texture) + _NOISE)])
    features -= features[:, view.known].mean(axis=1)[:, np.newaxis, np.newaxis]
    features *= view.known
    features /= features.std(axis=(1, 2), keepdims=True) + _EPSILON
    # Whitening: correlated features would count several times.
    covariance = np.einsum("krc,lrc->kl", features, features) / features[0].size
    apart = np.linalg.inv(np.linalg.cholesky(covariance + 1e-3 * np.eye(len(features))))
    features = np.einsum("kl,lrc->krc", apart.astype(np.float32), features)
    edges = _edges(view)
    return np.concatenate([features, [edges.real, edges.imag]]).astype(np.float32)


def _edges(view: View) -> NDArray[np.complex64]:
    """Return edges as complex numbers of twice their angle, so that both sides of a road agree."""
    smooth = _blur(view.bands, view.pixel_m, _EDGE_M)
    x, y = (np.gradient(smooth, view.pixel_m[i], axis=2 - i) for i in (0, 1))
    doubled = ((x + 1j * y) ** 2).sum(axis=0)
    # Strong edges count little more than weak ones, and all parts of the image equally.
    strength = np.abs(doubled)
    doubled *= np.where(strength > 0, strength, 1) ** (_EDGE_POWER / 2 - 1)
    around = np.sqrt(_box(np.abs(doubled) ** 2, view.pixel_m, _CALM_M).clip(0))
    settled = ndimage.binary_erosion(view.known, iterations=2, border_value=1)
    edges: NDArray[np.complex64] = doubled / (around + 0.1 * around.mean() + _EPSILON) * settled
    return edges


def _templates(view: View) -> Floats32:
    """Return templates for `_image_evidence`: road less roadside for each width, then outlines."""
    pixel = max(view.pixel_m)
    x, y = view.normal
    doubled = (x + 1j * y) ** 2
    sides, outlines = [], []
    for wider in _WIDER_M:
        road = ((wider - view.away_m) / pixel + 0.5).clip(0, 1)
        both = ((wider + _RING_M - view.away_m) / pixel + 0.5).clip(0, 1)
        inside, beside = road * view.stays_inside, (both - road) * view.stays_inside
        sides.append(_unit(inside / max(inside.sum(), 1) - beside / max(beside.sum(), 1)))
        near = np.exp(-0.5 * ((view.away_m - wider) / _EDGE_M) ** 2)
        outlines.append(_unit(near * view.stays_inside * doubled))
    edges = np.stack(outlines)
    return np.concatenate([np.stack(sides), edges.real, edges.imag]).astype(np.float32)


def _lags(
    shown: Floats32, templates: Floats32, shape: tuple[int, int], reach_px: tuple[int, int]
) -> tuple[Lags, Lags]:
    there, here = scipy.fft.rfft2(shown, shape), np.conj(scipy.fft.rfft2(templates, shape))
    sides, x, y = np.split(here, 3)
    features = sides[:, np.newaxis] * there[:-2]
    edges = x * there[-2] + y * there[-1]
    return _inverse(features, shape, reach_px), _inverse(edges, shape, reach_px)


def _inverse(
    spectrum: NDArray[np.complex64], shape: tuple[int, int], reach_px: tuple[int, int]
) -> Lags:
    """Return the first 2 reach + 1 rows and columns of the inverse of `rfft2`."""
    rows, cols = (2 * reach + 1 for reach in reach_px)
    down = scipy.fft.ifft(spectrum, axis=-2)[..., :rows, :]
    return np.asarray(scipy.fft.irfft(down, shape[1], axis=-1)[..., :cols])


def _summit(square: Lags) -> tuple[float, float]:
    """Return the maximum of the parabola through 3 x 3 values, x and y from the middle."""
    if square.shape != (3, 3):
        return 0.0, 0.0
    slope = np.array([square[1, 2] - square[1, 0], square[2, 1] - square[0, 1]]) / 2
    twist = (square[2, 2] - square[2, 0] - square[0, 2] + square[0, 0]) / 4
    bend_x = square[1, 2] - 2 * square[1, 1] + square[1, 0]
    bend_y = square[2, 1] - 2 * square[1, 1] + square[0, 1]
    bend = np.array([[bend_x, twist], [twist, bend_y]])
    if bend_x >= 0 or np.linalg.det(bend) <= 0:
        return 0.0, 0.0
    x, y = np.clip(-np.linalg.solve(bend, slope), -1, 1)
    return float(x), float(y)


def _standard(values: Lags) -> Lags:
    centred = values - values.mean(axis=(-3, -2, -1), keepdims=True)
    return np.asarray(centred / (centred.std(axis=(-3, -2, -1), keepdims=True) + _EPSILON))


def _unit(values: NDArray[np.inexact]) -> NDArray[np.inexact]:
    length = np.linalg.norm(values)
    return values / length if length > 0 else values


def _blur(pixels: Floats32, pixel_m: tuple[float, float], sigma_m: float) -> Floats32:
    sigma = [0.0] * (pixels.ndim - 2) + [sigma_m / pixel_m[1], sigma_m / pixel_m[0]]
    return ndimage.gaussian_filter(pixels, sigma, mode="nearest", truncate=3)


def _box(pixels: Floats32, pixel_m: tuple[float, float], side_m: float) -> Floats32:
    sides = [max(1, round(side_m / pixel_m[1])), max(1, round(side_m / pixel_m[0]))]
    return ndimage.uniform_filter(pixels, [1] * (pixels.ndim - 2) + sides, mode="nearest")
