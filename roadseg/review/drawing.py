"""Drawing: the least-cost path through the probabilities, between two places that a person chose.

It is found and simplified as `tracing` does it for links across gaps.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import shapely

from roadseg.arrays import Bytes, Floats
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.tracing.link_paths import trace_links

_MARGIN_M, _MARGIN_SHARE = 20.0, 0.3  # By how much a path may leave the box around its ends.
_MOST_PX = 60_000  # Pixels of the box; a larger one is searched in coarser pixels.


class RoadPixels(Protocol):
    """Probabilities of road that are read by window, of one file or of several as one."""

    @property
    def grid(self) -> Grid:
        """Grid of the pixels."""

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road, shape (row, col), 255 for certain."""


@dataclass(frozen=True)
class _Coarser:
    """Probabilities in the mean of `by` times `by` pixels."""

    pixels: RoadPixels
    by: int

    @property
    def grid(self) -> Grid:
        grid, by = self.pixels.grid, self.by
        height, width = max(grid.height // by, 1), max(grid.width // by, 1)
        return grid.crop(0, 0, height * by, width * by).with_shape(height, width)

    def read_road(self, window: Window) -> Bytes:
        row, col, height, width = (side * self.by for side in window)
        fine = self.pixels.read_road(Window(row, col, height, width))
        blocks = fine.reshape(window.height, self.by, window.width, self.by)
        return np.asarray(np.rint(blocks.mean(axis=(1, 3))), dtype=np.uint8)


def draw_path(start: Floats, goal: Floats, pixels: RoadPixels) -> shapely.LineString:
    """Return the least-cost path from one place to another, straight where that is about as good.

    Args:
        start: shape (2,), x and y in the metric CRS of the pixels.
        goal: the same.
        pixels: probabilities; paths outside of them are not looked for.

    Raises:
        DataError: if they cannot be read.
    """
    away = np.abs(goal - start)
    margin_m = max(_MARGIN_M, _MARGIN_SHARE * float(np.hypot(*away)))
    box_px = np.prod((away + 2 * margin_m) / pixels.grid.pixel_size_m)
    by = max(math.ceil(math.sqrt(box_px / _MOST_PX)), 1)
    by = min(by, pixels.grid.height, pixels.grid.width)
    coarse = _Coarser(pixels, by)
    paths = trace_links(
        *(start[np.newaxis], goal[np.newaxis]),
        grid=coarse.grid,
        read_road=coarse.read_road,
        margin_m=margin_m,
    )
    line: shapely.LineString = paths.lines[0]
    return line
