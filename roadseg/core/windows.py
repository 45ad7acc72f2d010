"""Windows: cut a scene into chips, cover it with overlapping windows, blend windows together."""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Known = NDArray[np.bool_]


class Window(NamedTuple):
    """Pixel rectangle of a scene."""

    row: int
    col: int
    height: int
    width: int


class Piece(NamedTuple):
    """What is known of the pixels of one window.

    Attributes:
        window: where it lies.
        values: shape (class, row, col), of the window's size; None if nothing is known.
        known: shape (row, col), false where the values mean nothing.
    """

    window: Window
    values: Floats | None
    known: Known


class Rows(NamedTuple):
    """Finished rows of a scene.

    Attributes:
        start: first row.
        values: shape (class, rows, width); 0 where nothing is known.
        known: shape (rows, width), true where at least one window knew the pixel.
    """

    start: int
    values: Floats
    known: Known


def cover(height: int, width: int, *, window_px: int, overlap_px: int) -> list[Window]:
    """Cover a scene with square windows, row by row; the last ones end at the scene's edge.

    Neighbours overlap by `overlap_px`, the last two by more where the scene demands it. A scene
    smaller than the window still gets a whole window, which then reaches beyond the edge.

    Raises:
        ValueError: if the scene is empty or the overlap is not from 0 to window_px - 1.
    """
    if min(height, width) < 1:
        raise ValueError(f"a scene of {height} x {width} pixels has no window")
    if not 0 <= overlap_px < window_px:
        raise ValueError(f"overlap of {overlap_px} px does not fit windows of {window_px} px")
    rows, cols = (_starts(length, window_px, overlap_px) for length in (height, width))
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


def shared_window(first: Window, second: Window) -> Window:
    """Return the pixels that two windows share; height or width is below 1 if there are none."""
    row, col = max(first.row, second.row), max(first.col, second.col)
    height = min(first.row + first.height, second.row + second.height) - row
    width = min(first.col + first.width, second.col + second.width) - col
    return Window(row, col, height, width)


def taper(window_px: int) -> Floats:
    """Return the weights with which a window enters the blend, shape (window_px, window_px).

    A Hann window sampled at pixel centres: close to 1 in the middle, small at the edge where a
    network sees half of its surroundings, and above 0 everywhere.
    """
    hann = np.sin(np.pi * (np.arange(window_px) + 0.5) / window_px) ** 2
    return np.outer(hann, hann).astype(np.float32)


def blend(pieces: Iterable[Piece], *, classes: int, height: int, width: int) -> Iterator[Rows]:
    """Blend overlapping windows into a scene, and give out rows as soon as they are final.

    Only the rows that the open row of windows touches are held in memory.

    Args:
        pieces: the windows of `cover`, in its order.
        classes: length of the first axis of the values.
        height: rows of the scene; what a window knows beyond them is left out.
        width: columns of the scene.

    Raises:
        ValueError: if a window starts above the one before it.
    """
    open_rows: _OpenRows | None = None
    for piece in pieces:
        if open_rows is None:
            open_rows = _OpenRows(classes, piece.window.height, width)
        if piece.window.row < open_rows.start:
            raise ValueError(f"{piece.window} comes after row {open_rows.start} was reached")
        if piece.window.row > open_rows.start:
            yield open_rows.finish(piece.window.row - open_rows.start)
        open_rows.add(piece)
    if open_rows is not None:
        yield open_rows.finish(height - open_rows.start)


class _OpenRows:
    """Weighted sums of the rows that later windows may still touch."""

    def __init__(self, classes: int, height: int, width: int) -> None:
        self.start = 0
        self._sums = np.zeros((classes, height, width), dtype=np.float32)
        self._weights = np.zeros((height, width), dtype=np.float32)
        self._taper = taper(height)

    def add(self, piece: Piece) -> None:
        if piece.values is None:
            return
        col = piece.window.col
        cols = min(piece.window.width, self._weights.shape[1] - col)
        weights = self._taper * piece.known
        self._sums[:, :, col : col + cols] += (piece.values * weights)[:, :, :cols]
        self._weights[:, col : col + cols] += weights[:, :cols]

    def finish(self, rows: int) -> Rows:
        """Give out the upper rows and move down by as many."""
        weights = self._weights[:rows]
        known = weights > 0
        values = self._sums[:, :rows].copy()
        np.divide(values, weights, out=values, where=known)
        finished = Rows(self.start, values, known)
        self.start += rows
        for kept in (self._sums, self._weights[np.newaxis]):
            kept[:, :-rows] = kept[:, rows:].copy()
            kept[:, -rows:] = 0
        return finished


def _starts(length: int, window_px: int, overlap_px: int) -> list[int]:
    last = max(length - window_px, 0)
    return [*range(0, last, window_px - overlap_px), last]


def _cut(length: int, chip_px: int) -> list[tuple[int, int]]:
    pieces = math.ceil(length / chip_px)
    edges = [round(i * length / pieces) for i in range(pieces + 1)]
    return [(start, stop - start) for start, stop in itertools.pairwise(edges)]
