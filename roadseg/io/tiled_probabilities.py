"""TiledProbability: probability rasters on common pixels, read as one."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.core.graphs import Ints
from roadseg.core.grid import Grid
from roadseg.core.speeds import SpeedBins
from roadseg.core.tiling import cover_tiles, place_tile
from roadseg.core.windows import Window
from roadseg.io.probabilities import ProbabilityFile

OFF_PX = 0.1  # that the corners of a tile may lie off the pixels of the first

Bytes = NDArray[np.uint8]
_Read = Callable[[ProbabilityFile, Window], Bytes]


@dataclass(frozen=True)
class TiledProbability:
    """Probability rasters, or masks, on common pixels, read by window as if they were one.

    On ground that several of them show the first that holds data there is seen; where none lies
    there is no road.

    Attributes:
        grid: the smallest that holds all tiles.
        speed_bins: which speeds the bins of all tiles stand for; None if not known.
        tiles: the rasters.
        places: where they lie on the grid.
        has_overlaps: whether any two of them show the same pixel.
    """

    grid: Grid
    speed_bins: SpeedBins | None
    tiles: tuple[ProbabilityFile, ...]
    places: tuple[Window, ...]
    has_overlaps: bool

    def opened(self) -> AbstractContextManager["TiledProbability"]:
        """Give the same: each tile is opened for every window that it lies in."""
        return nullcontext(self)

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road in a window, shape (row, col), 255 for certain.

        Raises:
            DataError: if a tile cannot be read.
        """
        return self._painted(window, (), lambda tile, part: tile.read_road(part))

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return that, and the probability of each speed bin, shape (bin, row, col), if known.

        Raises:
            DataError: if a tile cannot be read.
        """
        if self.speed_bins is None:
            return self.read_road(window), None
        bands = self._painted(window, (self.speed_bins.count + 1,), _all_bands)
        return bands[-1], bands[:-1]

    def tile_at(self, points_m: NDArray[np.object_]) -> Ints:
        """Return the row of the tile at each place, shape (n,): the first of the nearest.

        Args:
            points_m: shape (n,), shapely points in the metric CRS of the grid.
        """
        outlines = [shapely.Polygon(self.grid.to_metric(at)) for at in self._corners()]
        point, tile = shapely.STRtree(outlines).query_nearest(points_m)
        first = np.full(len(points_m), len(self.tiles))
        np.minimum.at(first, point, tile)
        return first

    def _corners(self) -> NDArray[np.float64]:
        """Return the corners of all tiles as row, col, shape (tile, 4, 2)."""
        row, col, height, width = np.array(self.places, dtype=np.float64).T
        rows = np.stack([row, row, row + height, row + height], axis=1)
        cols = np.stack([col, col + width, col + width, col], axis=1)
        return np.stack([rows, cols], axis=2)

    def _painted(self, window: Window, bands: tuple[int, ...], read: _Read) -> Bytes:
        """Read a window; the first tile is painted last."""
        shown = np.zeros((*bands, window.height, window.width), dtype=np.uint8)
        for tile, place in zip(self.tiles[::-1], self.places[::-1], strict=True):
            if (common := _overlap(window, place)) is None:
                continue
            part = _moved(common, place)
            is_valid = tile.read_valid(part) if self.has_overlaps else np.True_
            rows, cols = _slices(_moved(common, window))
            np.copyto(shown[..., rows, cols], read(tile, part), where=is_valid)
        return shown


def as_one(tiles: Sequence[ProbabilityFile]) -> TiledProbability:
    """Return rasters on common pixels (`tiling.group_tiles`), with the same speed bins, as one."""
    first = tiles[0].grid
    placed = [place_tile(tile.grid, first, off_px=OFF_PX) for tile in tiles]
    grid, places = cover_tiles(first, [place for place in placed if place is not None])
    boxes = [shapely.box(p.col, p.row, p.col + p.width, p.row + p.height) for p in places]
    shared = sum(box.area for box in boxes) > shapely.union_all(boxes).area
    return TiledProbability(grid, tiles[0].speed_bins, tuple(tiles), tuple(places), shared)


def _all_bands(tile: ProbabilityFile, window: Window) -> Bytes:
    road, bins = tile.read_all(window)
    return np.concatenate([road[:0] if bins is None else bins, road[np.newaxis]])


def _overlap(window: Window, other: Window) -> Window | None:
    """Return the pixels that two windows have in common; None if there are none."""
    row, col = max(window.row, other.row), max(window.col, other.col)
    height = min(window.row + window.height, other.row + other.height) - row
    width = min(window.col + window.width, other.col + other.width) - col
    return Window(row, col, height, width) if height > 0 and width > 0 else None


def _moved(window: Window, origin: Window) -> Window:
    """Return a window as counted from the first pixel of another."""
    return window._replace(row=window.row - origin.row, col=window.col - origin.col)


def _slices(window: Window) -> tuple[slice, slice]:
    row, col, height, width = window
    return slice(row, row + height), slice(col, col + width)
