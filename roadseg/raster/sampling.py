"""Sampling: a few items or windows, so spread that they stand for all."""

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from roadseg.raster.windows import Window

Item = TypeVar("Item")

PLACES = 5  # Fewer do not show what differs over a scene, and each costs time.
_LARGER = (
    4  # If a block is more than this many times larger than its share, only some rows are read.
)
_GOLDEN = (math.sqrt(5) - 1) / 2  # Its multiples spread most evenly over columns of blocks.


def spread(items: Sequence[Item], number: int) -> list[Item]:
    """Return a number of items, evenly spread; all if there are no more."""
    chosen = np.linspace(0, len(items) - 1, min(number, len(items))).round().astype(int)
    return [items[index] for index in chosen.tolist()]


def spread_windows(
    height: int, width: int, *, block: tuple[int, int], pixels: int, places: int = PLACES
) -> Iterator[Window]:
    """Spread windows over a scene in a fixed pattern, for a sample of about a number of pixels.

    Each is a block of the file; or some rows of one, or several one below the other, where a
    block is much larger or smaller than its share. The last block of the scene is among them:
    that is the one which a file cut short lacks.

    Args:
        height: rows of the scene.
        width: columns of the scene.
        block: rows and columns of the blocks of its file.
        pixels: number of pixels wanted.
        places: number of windows at least, where the scene has as many; each has its share of
            the pixels.

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
