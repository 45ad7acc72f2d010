"""CoarseMask: a scene's road mask in pixels of up to 0.6 m, or its own, one bit each."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from affine import Affine

from roadseg.arrays import Bools, Bytes, Floats, Ints
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.graph.road_graph import in_parts

_PIXEL_M = 0.6  # Metres; of finer scenes every n-th pixel is kept, at most this far apart.
_FIRST_BIT = np.uint8(128)
# Eight points just inside the rim of a disc of radius 1, which are tried before the whole disc.
_RIM = 0.9 * np.array([(np.sin(a), np.cos(a)) for a in np.arange(8) * np.pi / 4])
_AT_ONCE = 2**18  # Pixels that are looked up together, which limits memory.


@dataclass(frozen=True)
class CoarseMask:
    """Every n-th pixel of a road mask, packed eight to a byte.

    Attributes:
        grid: grid of the pixels that are kept.
        bits: shape (row, ceil(columns / 8)).
    """

    grid: Grid
    bits: Bytes

    def is_road(self, rows: Ints, cols: Ints, *, outside: bool) -> Bools:
        """Return which pixels are road.

        Args:
            cols: column numbers, broadcast against `rows`.
            outside: the answer for pixels outside the scene.
        """
        row, col = np.clip(rows, 0, self.grid.height - 1), np.clip(cols, 0, self.grid.width - 1)
        is_road = self.bits[row, col >> 3] << (col & 7).astype(np.uint8) & _FIRST_BIT != 0
        return np.where((rows == row) & (cols == col), is_road, outside)

    def contains_discs(self, places: Floats, radius_m: Floats) -> Bools:
        """Return which discs consist of road only, as far as they lie in the scene."""
        centres = self.grid.from_metric(places)
        reach = radius_m[:, None] / self._pixel_m
        rims = np.floor(centres[:, None] + _RIM * reach[:, None]).astype(np.int64)
        is_road = self.is_road(rims[..., 0], rims[..., 1], outside=True)
        is_full: Bools = np.asarray(is_road.all(axis=1))
        rows = np.flatnonzero(is_full)
        size = np.ceil(reach[rows].max(axis=1)).astype(np.int64)
        # Discs of similar size share one square of pixels, which is little larger than each.
        exponent = np.frexp(size)[1]
        for similar in (rows[exponent == each] for each in np.unique(exponent)):
            reach_px = int(np.ceil(reach[similar].max()))
            for some in in_parts(similar, max(_AT_ONCE // (2 * reach_px + 1) ** 2, 1)):
                is_full[some] = self._are_full(centres[some], radius_m[some], reach_px)
        return is_full

    def _are_full(self, centres: Floats, radius_m: Floats, reach_px: int) -> Bools:
        """Check every pixel of discs that reach at most `reach_px` from their centres."""
        row, col = np.floor(centres).T[..., None] + np.arange(-reach_px, reach_px + 1)
        offsets = np.stack([row, col]) + 0.5 - centres.T[..., None]
        up, across = (offsets * self._pixel_m[:, None, None]) ** 2
        is_far = up[:, :, None] + across[:, None] > radius_m[:, None, None] ** 2
        rows, cols = row.astype(np.int64)[:, :, None], col.astype(np.int64)[:, None]
        is_road = self.is_road(rows, cols, outside=True)
        return np.asarray((is_road | is_far).all(axis=(1, 2)))

    def road_ahead_m(self, places: Floats, headings: Floats, most_m: Floats) -> Floats:
        """Return how many metres of road lie ahead of each place, up to its limit `most_m`."""
        step_m = min(self._pixel_m) / 2
        metres = np.arange(0, most_m.max(initial=0) + step_m, step_m)
        start, ahead = (self.grid.from_metric(at) for at in (places, places + headings))
        steps = np.zeros(len(places), dtype=np.int64)
        at_once = max(_AT_ONCE // len(metres), 1)
        for some in in_parts(np.arange(len(places)), at_once):
            at = start[some, None] + metres[:, None] * (ahead - start)[some, None]
            row, col = np.floor(at).astype(np.int64).transpose(2, 0, 1)
            goes_on = self.is_road(row, col, outside=False)
            steps[some] = (goes_on & (metres < most_m[some, None])).argmin(axis=1)
        return np.asarray(steps * step_m)

    @property
    def _pixel_m(self) -> Floats:
        return np.array(self.grid.pixel_size_m[::-1])


def pack_block(is_road: Bools, block: Window, grid: Grid) -> Bytes:
    """Take every n-th pixel of the mask of a block, and pack them into bytes."""
    step = _step(grid)
    row, col = (_first(start, step) for start in block[:2])
    pixels = is_road[row - block.row :: step, col - block.col :: step]
    return np.packbits(np.pad(pixels, ((0, 0), (col // step % 8, 0))), axis=1)


def join_coarse_blocks(parts: Iterable[tuple[Window, Bytes]], grid: Grid) -> CoarseMask:
    """Join the packed blocks of a scene into its coarse mask."""
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
    """Return the first row or column from `start` on that the coarse mask keeps."""
    return start + (step // 2 - start) % step
