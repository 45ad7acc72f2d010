"""PixelCrop: a window of the probabilities of a scene, read as if it were a scene."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Bytes
from roadseg.raster.grid import Grid, reproject
from roadseg.raster.windows import Window
from roadseg.roads.logistic import LogisticModel
from roadseg.roads.speeds import SpeedBins
from roadseg.roads.tracing.trace import PixelSource

_STEPS = 32  # Parts of each side of an outline that bends in the CRS of a raster.


@dataclass(frozen=True)
class PixelCrop:
    """A window of the probabilities of a scene.

    Attributes:
        pixels: the scene.
        window: part of it.
    """

    pixels: PixelSource
    window: Window

    @cached_property
    def grid(self) -> Grid:
        """Grid of the window."""
        return self.pixels.grid.crop(*self.window)

    @property
    def border_m(self) -> shapely.Geometry:
        """Where roads may be cut: at the edge of the window, and where the scene cuts them."""
        of_scene = np.array([self.pixels.border_m], dtype=object)
        moved = reproject(of_scene, self.pixels.grid.metric_crs, self.grid.metric_crs)[0]
        border: shapely.Geometry = shapely.union(self.grid.footprint_m.exterior, moved)
        return border

    @property
    def speed_bins(self) -> SpeedBins | None:
        """Speeds that the bins stand for; None if there are no bins."""
        return self.pixels.speed_bins

    @property
    def threshold(self) -> float | None:
        """Threshold of the network, 0 to 1; None if not known."""
        return self.pixels.threshold

    @property
    def edge_model(self) -> LogisticModel | None:
        """How probable it is that edges of the network are roads; None if not known."""
        return self.pixels.edge_model

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window may be road."""
        return self.pixels.touches(self._moved(window))

    @contextmanager
    def opened(self) -> Iterator["PixelCrop"]:
        """Yield the same, open for many reads."""
        with self.pixels.opened() as source:
            yield replace(self, pixels=source)

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road, shape (row, col), 255 for certain."""
        return self.pixels.read_road(self._moved(window))

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return that, and the probability of each speed bin, shape (bin, row, col), if known."""
        return self.pixels.read_all(self._moved(window))

    def _moved(self, window: Window) -> Window:
        row, col = window.row + self.window.row, window.col + self.window.col
        return Window(row, col, window.height, window.width)


def window_on(grid: Grid, ground: shapely.Polygon, crs: CRS) -> Window | None:
    """Return the smallest window of a raster that holds a part of the ground, None without any.

    Args:
        grid: of the raster, with a place on earth.
        ground: a polygon.
        crs: of the polygon.
    """
    dense = shapely.segmentize(ground, ground.length / 4 / _STEPS)
    outline = reproject(np.array([dense], dtype=object), crs, grid.crs)[0]
    places = grid.to_pixel(shapely.get_coordinates(outline))
    if not np.isfinite(places).all():
        return None
    low = np.maximum(np.floor(places.min(axis=0)), 0).astype(np.int64)
    high = np.minimum(np.ceil(places.max(axis=0)), (grid.height, grid.width)).astype(np.int64)
    if (low >= high).any():
        return None
    height, width = (high - low).tolist()
    return Window(int(low[0]), int(low[1]), height, width)
