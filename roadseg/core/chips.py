"""Cut scenes into chips."""

import itertools
import math

PixelWindow = tuple[int, int, int, int]  # row, col, height, width


def cut_chips(height: int, width: int, *, chip_px: int) -> list[PixelWindow]:
    """Cut a scene into chips of nearly equal size, none larger than `chip_px`, without overlap.

    Returns:
        Windows as (row, col, height, width), row by row; together they are the whole scene.
    """
    return [
        (row, col, rows, cols)
        for row, rows in _cut(height, chip_px)
        for col, cols in _cut(width, chip_px)
    ]


def _cut(length: int, chip_px: int) -> list[tuple[int, int]]:
    pieces = math.ceil(length / chip_px)
    edges = [round(i * length / pieces) for i in range(pieces + 1)]
    return [(start, stop - start) for start, stop in itertools.pairwise(edges)]
