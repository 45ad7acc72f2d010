"""CoarseMask: the roads of a scene in few pixels of one bit, for looks around the ends of roads."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from affine import Affine

from roadseg.arrays import Bools, Bytes, Ints
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window

_PIXEL_M = 0.6  # Metres; the greatest side of a pixel where the scene has smaller ones.
_FIRST_BIT = np.uint8(128)


@dataclass(frozen=True)
class CoarseMask:
    """Every n-th pixel of a mask of roads, kept as a bit.

    Attributes:
        grid: where these pixels lie.
        bits: shape (row, an eighth of the columns).
    """

    grid: Grid
    bits: Bytes

    def is_road(self, rows: Ints, cols: Ints, *, outside: bool) -> Bools:
        """Return which pixels are road.

        Args:
            rows: of the pixels.
            cols: likewise, of a shape that is broadcast against that of the rows.
            outside: the answer for pixels outside of the scene.
        """
        row, col = np.clip(rows, 0, self.grid.height - 1), np.clip(cols, 0, self.grid.width - 1)
        is_road = self.bits[row, col >> 3] << (col & 7).astype(np.uint8) & _FIRST_BIT != 0
        return np.where((rows == row) & (cols == col), is_road, outside)


def pack_block(is_road: Bools, block: Window, grid: Grid) -> Bytes:
    """Return the pixels of a block that the coarse mask of its scene holds, packed as there."""
    step = _step(grid)
    row, col = (_first(start, step) for start in block[:2])
    pixels = is_road[row - block.row :: step, col - block.col :: step]
    return np.packbits(np.pad(pixels, ((0, 0), (col // step % 8, 0))), axis=1)


def join_coarse_blocks(parts: Iterable[tuple[Window, Bytes]], grid: Grid) -> CoarseMask:
    """Join the packed pixels of all blocks of a scene to its coarse mask."""
    step = _step(grid)
    height, width = (len(range(step // 2, side, step)) for side in (grid.height, grid.width))
    bits = np.zeros((height, -(-width // 8)), dtype=np.uint8)
    for block, packed in parts:
        row, col = (_first(start, step) // step for start in block[:2])
        bits[row : row + packed.shape[0], col // 8 : col // 8 + packed.shape[1]] |= packed
    transform = grid.transform @ Affine.scale(step)
    return CoarseMask(Grid(grid.crs, transform, height, width), bits)


def _step(grid: Grid) -> int:
    return max(1, int(_PIXEL_M / max(grid.pixel_size_m)))


def _first(start: int, step: int) -> int:
    """Return the first row or column from `start` on that the coarse mask holds."""
    return start + (step // 2 - start) % step
