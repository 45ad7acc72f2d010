"""Drawing: the least-cost path through the probabilities, between two places that a person chose.

It is found and simplified as `tracing` does it for links across gaps.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import shapely

from roadseg.arrays import Bytes, Floats
from roadseg.raster.windows import Window
from roadseg.roads.tracing.link_paths import trace_links

if TYPE_CHECKING:
    from roadseg.roads.tracing.trace import PixelSource

_MARGIN_M, _MARGIN_SHARE = 20.0, 0.3  # By how much a path may leave the box around its ends.
_MOST_PX = 60_000  # Pixels of the box; a larger one is searched in coarser pixels.


def draw_path(start: Floats, goal: Floats, pixels: "PixelSource") -> shapely.LineString:
    """Return the least-cost path from one place to another, straight where that is about as good.

    Args:
        start: shape (2,), x and y in the metric CRS of the pixels.
        goal: the same.
        pixels: probabilities; paths outside of them are not looked for.

    Raises:
        DataError: if they cannot be read.
    """
    grid, away = pixels.grid, np.abs(goal - start)
    margin_m = max(_MARGIN_M, _MARGIN_SHARE * float(np.hypot(*away)))
    box_px = np.prod((away + 2 * margin_m) / grid.pixel_size_m)
    by = min(max(math.ceil(math.sqrt(box_px / _MOST_PX)), 1), grid.height, grid.width)
    height, width = grid.height // by, grid.width // by

    def read_means(window: Window) -> Bytes:
        """Return the mean of `by` times `by` pixels each."""
        fine = pixels.read_road(Window(*(side * by for side in window)))
        blocks = fine.reshape(window.height, by, window.width, by)
        return np.asarray(np.rint(blocks.mean(axis=(1, 3))), dtype=np.uint8)

    paths = trace_links(
        *(start[np.newaxis], goal[np.newaxis]),
        grid=grid.crop(0, 0, height * by, width * by).with_shape(height, width),
        read_road=read_means,
        margin_m=margin_m,
    )
    line: shapely.LineString = paths.lines[0]
    return line
