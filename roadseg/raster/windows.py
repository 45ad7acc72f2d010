"""Windows: cut a scene into chips, cover it with overlapping windows, and weigh these to blend."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from roadseg.arrays import Array, Bools, Bytes, Floats, Floats32

if TYPE_CHECKING:
    import rasterio.windows

Item = TypeVar("Item")

CERTAIN = 255  # The byte of a probability of 1.
PLACES = 5  # Windows of a sample at least; fewer miss how a scene varies, and each costs time.

# If a block is more than this many times larger than its share, only some rows are read.
_LARGER = 4
_GOLDEN = (math.sqrt(5) - 1) / 2  # Its multiples spread most evenly over columns of blocks.


class Window(NamedTuple):
    """Pixel rectangle of a scene."""

    row: int
    col: int
    height: int
    width: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Slices of rows and columns, to cut the window out of an array of the scene."""
        return slice(self.row, self.row + self.height), slice(self.col, self.col + self.width)

    def to_rasterio(self) -> "rasterio.windows.Window":
        """Return it as a window of rasterio."""
        import rasterio.windows

        return rasterio.windows.Window(self.col, self.row, self.width, self.height)

    def within(self, other: "Window") -> "Window":
        """Return the window with its rows and columns counted from those of another window."""
        return self._replace(row=self.row - other.row, col=self.col - other.col)

    def around(self, rows: int, cols: int, shape: tuple[int, int]) -> "Window":
        """Return a window of another size in the middle of this one, in a scene of some shape.

        At the edges of the scene it lies beside the middle; it is smaller than asked for only if
        the scene is.
        """
        sizes = min(rows, shape[0]), min(cols, shape[1])
        row, col = (
            min(max(start + (own - size) // 2, 0), length - size)
            for start, own, size, length in zip(self[:2], self[2:], sizes, shape, strict=True)
        )
        return Window(row, col, *sizes)


class Rows(NamedTuple):
    """Finished rows of a scene, or the part of them that is finished.

    Attributes:
        values: probabilities of the pixels, shape (class, rows, cols): float32 0..1, or uint8
            with 255 for certain; 0 where nothing is known.
        known: shape (rows, cols), whether the scene has data.
    """

    start: int
    values: Array
    known: Bools
    col: int = 0


def cover(height: int, width: int, *, window_px: int) -> list[Window]:
    """Cover a scene with square windows, row by row; the last ones end at the scene's edge.

    Only they overlap others. A scene smaller than the window still gets a whole window, which then
    reaches beyond the edge.
    """
    lasts = (max(length - window_px, 0) for length in (height, width))
    rows, cols = ([*range(0, last, window_px), last] for last in lasts)
    return [Window(r, c, window_px, window_px) for r, c in itertools.product(rows, cols)]


def cut_chips(height: int, width: int, *, chip_px: int) -> list[Window]:
    """Cut a scene into chips of nearly equal size, none larger than `chip_px`, without overlap.

    Returns:
        The chips row by row; together they are the whole scene.
    """
    return [
        Window(row, col, rows, cols)
        for row, rows in _cut(height, chip_px)
        for col, cols in _cut(width, chip_px)
    ]


def cut_blocks(height: int, width: int, *, block_px: int) -> list[Window]:
    """Cut a scene into squares of `block_px`, row by row; the last ones are what is left."""
    return [
        Window(row, col, min(block_px, height - row), min(block_px, width - col))
        for row in range(0, height, block_px)
        for col in range(0, width, block_px)
    ]


def mirrored(bands: Bytes, valid: Bools, *, height: int, width: int) -> tuple[Bytes, Bools]:
    """Fill up a window that reaches beyond its scene with a mirror image, which has no data.

    Args:
        bands: shape (band, row, col), the part of the window inside the scene, at its upper left.
        valid: shape (row, col), whether each of these pixels has data.
    """
    rows, cols = valid.shape
    if (rows, cols) == (height, width):
        return bands, valid
    beyond = ((0, height - rows), (0, width - cols))
    return np.pad(bands, ((0, 0), *beyond), mode="symmetric"), np.pad(valid, beyond)


def window_corners(windows: Sequence[Window]) -> Floats:
    """Return the four corners of windows as row, col, in order around each, shape (n, 4, 2)."""
    row, col, height, width = np.array(windows, dtype=np.float64).reshape(-1, 4).T
    rows = np.stack([row, row, row + height, row + height], axis=1)
    cols = np.stack([col, col + width, col + width, col], axis=1)
    return np.stack([rows, cols], axis=-1)


def shared_window(first: Window, second: Window) -> Window:
    """Return the pixels that two windows share; height or width is below 1 if there are none."""
    row, col = max(first.row, second.row), max(first.col, second.col)
    height = min(first.row + first.height, second.row + second.height) - row
    width = min(first.col + first.width, second.col + second.width) - col
    return Window(row, col, height, width)


def spread_starts(length: int, *, window_px: int, overlap_px: int, multiple: int = 1) -> list[int]:
    """Return the first pixels of windows along one side of a scene, evenly spread over the side.

    All windows overlap about equally, by `overlap_px` or a little more. So pixels are predicted
    about equally often, and no two windows show nearly the same.

    Args:
        multiple: all starts are multiples of this number, so that the last window may reach beyond
            the scene; at most `window_px - overlap_px`.
    """
    last = math.ceil(max(length - window_px, 0) / multiple)
    gaps = math.ceil(last / ((window_px - overlap_px) // multiple))
    return [0, *(number * last // gaps * multiple for number in range(1, gaps + 1))]


@functools.cache  # Scenes and chips have few sizes, and each is asked for several times.
def fitting_window(height: int, width: int, *, overlap_px: int, multiple: int, most: int) -> int:
    """Return the side of the windows that cover a scene with the fewest pixels in total.

    A scene that is smaller than the largest window is covered by a single, slightly larger window.

    Args:
        overlap_px: smallest overlap of neighbouring windows. The side is at least twice as long,
            plus `multiple`.
        multiple: the side, and all starts of windows, are multiples of this number.
        most: largest side. It is preferred if others are not better, and ignored if it is smaller
            than the smallest possible side.
    """

    def pixels(side: int) -> int:
        down, across = (
            spread_starts(length, window_px=side, overlap_px=overlap_px, multiple=multiple)
            for length in (height, width)
        )
        return len(down) * len(across) * side**2

    least = math.ceil(max(2 * overlap_px, overlap_px + multiple) / multiple) * multiple
    return min(range(max(most, least), least - 1, -multiple), key=pixels)


def fitting_batch(windows: Iterable[int], *, most: int) -> int:
    """Return the number of windows per batch that leaves few places in the batches empty.

    A batch is assumed to cost as much as its windows and one more, on any hardware.

    Args:
        windows: number of windows of each scene; a batch holds windows of one scene only.
        most: largest batch. It is preferred unless others are clearly better.
    """
    counts = Counter(windows)

    def cost(size: int) -> int:
        batches = sum(scenes * math.ceil(each / size) for each, scenes in counts.items())
        return batches * (size + 1)

    return min(range(most, 0, -1), key=cost)


def blend_weights(starts: Sequence[int], *, window_px: int) -> Floats32:
    """Return the weights with which windows along one side of a scene are blended.

    Hann windows sampled at pixel centres, divided by their sum at every pixel: a window counts
    most in its middle and little at its edge, where a network sees half of its surroundings. Of
    two sides, the weight of a pixel is the product.

    Args:
        starts: first pixel of each window, rising; together they cover the side.

    Returns:
        Shape (window, pixel of the window); the weights of each pixel of the scene add up to 1.
    """
    places = np.asarray(starts)[:, np.newaxis] + np.arange(window_px)
    hann = np.sin(np.pi * (np.arange(window_px) + 0.5) / window_px) ** 2
    sums = np.zeros(starts[-1] + window_px)
    for start in starts:
        sums[start : start + window_px] += hann
    return (hann / sums[places]).astype(np.float32)


def _cut(length: int, chip_px: int) -> list[tuple[int, int]]:
    pieces = math.ceil(length / chip_px)
    edges = [round(i * length / pieces) for i in range(pieces + 1)]
    return [(start, stop - start) for start, stop in itertools.pairwise(edges)]


def spread(items: Sequence[Item], number: int) -> list[Item]:
    """Return a number of evenly spread items; all of them if there are fewer."""
    chosen = np.linspace(0, len(items) - 1, min(number, len(items))).round().astype(int)
    return [items[index] for index in chosen.tolist()]


def spread_windows(
    height: int, width: int, *, block: tuple[int, int], pixels: int, places: int = PLACES
) -> Iterator[Window]:
    """Spread windows over a scene in a fixed pattern, to sample about a number of pixels.

    Each window is a block of the file. If a block is much larger or smaller than the share of a
    window, it is some rows of a block, or several blocks one below the other. The last block of the
    scene is always included, because it is missing in a file that was cut short.

    Args:
        block: rows and columns of the blocks of the file.
        pixels: number of pixels to sample.
        places: smallest number of windows, if the scene has as many blocks; all have equal shares
            of the pixels.

    Returns:
        Different windows, from top to bottom, the last block last.
    """
    rows, cols = _unit(height, width, block, share=max(1, pixels // places))
    down, across = math.ceil(height / rows), math.ceil(width / cols)
    count = min(max(places, math.ceil(pixels / (rows * cols))), down * across)
    numbers = np.arange(count - 1)
    chosen_rows = ((numbers + 0.5) * down / count).astype(int).tolist()
    chosen_cols = ((numbers * _GOLDEN + 0.5) % 1 * across).astype(int).tolist()
    chosen = dict.fromkeys(zip(chosen_rows, chosen_cols, strict=True))
    chosen.pop((down - 1, across - 1), None)
    for row, col in (*chosen, (down - 1, across - 1)):
        top, left = row * rows, col * cols
        yield Window(top, left, min(rows, height - top), min(cols, width - left))


def _unit(height: int, width: int, block: tuple[int, int], *, share: int) -> tuple[int, int]:
    """Return rows and columns of the windows, of about `share` pixels each."""
    rows, cols = min(block[0], height), min(block[1], width)
    if rows * cols > _LARGER * share:
        return max(1, share // cols), cols
    return min(height, rows * max(1, share // (rows * cols))), cols
