"""TiledProbability: probability rasters on common pixels, read as one."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import rasterio
import shapely

from roadseg.arrays import Bytes, Ints, Shapes
from roadseg.raster.extents import Extent, joined_extent
from roadseg.raster.grid import Grid
from roadseg.raster.images import open_raster, reading
from roadseg.raster.pixels import CACHE_BYTES
from roadseg.raster.windows import Window, shared_window, window_corners
from roadseg.roads.logistic import EdgeModel, mean_model
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.speeds import SpeedBins

_MOST_OPEN = 64  # Tiles that are open at once, at most.
_OFF_PX = 0.1  # Pixels; corners of a tile may lie this far off those of the first.

_Read = Callable[[ProbabilityFile, Window], Bytes]


@dataclass(frozen=True)
class TiledProbability:
    """Probability rasters, or masks, on common pixels, read by window as if they were one.

    On ground that several of them show the first that holds data there is seen; where none lies
    there is no road.

    Attributes:
        grid: the smallest that holds all tiles.
        speed_bins: which speeds the bins of all tiles stand for; None if not known.
        has_overlaps: whether any two of them show the same pixel.
        threshold: probability from which on there is road, 0 to 1: that of the tiles, or the mean
            of those that they name; None if none names any.
        edge_model: how probable it is that edges are roads, alike.
        sources: tiles that stay open; None opens each for every window, also where it is
            unpickled.
    """

    grid: Grid
    speed_bins: SpeedBins | None
    tiles: tuple[ProbabilityFile, ...]
    places: tuple[Window, ...]
    has_overlaps: bool
    threshold: float | None = None
    edge_model: EdgeModel | None = None
    sources: "_OpenTiles | None" = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes can use: all but what is open."""
        return {**vars(self), "sources": None}

    @property
    def is_mask(self) -> bool:
        """Whether all tiles are masks."""
        return all(tile.is_mask for tile in self.tiles)

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window may be road."""
        rows = self._rows_in(window)
        return any(self.tiles[row].touches(window.within(self.places[row])) for row in rows)

    @cached_property
    def extent(self) -> Extent | None:
        """The pixels in the area to work in, of all tiles; None if no tile has any outside."""
        if all(tile.extent is None for tile in self.tiles):
            return None
        shapes = [
            (tile.extent or Extent.whole(Window(0, 0, *place[2:]))).counted_from(
                -place.row, -place.col
            )
            for tile, place in zip(self.tiles, self.places, strict=True)
        ]
        return joined_extent(shapes)

    @contextmanager
    def opened(self) -> Iterator["TiledProbability"]:
        """Yield the same for many windows: tiles stay open, and some of what is decoded."""
        with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES), closing(_OpenTiles()) as sources:
            yield replace(self, sources=sources)

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

    def tile_at(self, points_m: Shapes) -> Ints:
        """Return the row of the tile at each place, shape (n,): the first of the nearest.

        Args:
            points_m: shape (n,), shapely points in the metric CRS of the grid.
        """
        outlines = [shapely.Polygon(self.grid.to_metric(at)) for at in window_corners(self.places)]
        # Where there is no outline, or a point is empty, the row is the number of outlines.
        point, outline = shapely.STRtree(outlines).query_nearest(points_m)
        first = np.full(len(points_m), len(outlines))
        np.minimum.at(first, point, outline)
        return first

    def _rows_in(self, window: Window) -> list[int]:
        """Return the rows of the tiles that have pixels in a window."""
        first, end = self._bounds
        start, stop = window[:2], np.add(window[:2], window[2:])
        return np.flatnonzero(((first < stop) & (end > start)).all(axis=1)).tolist()

    @cached_property
    def _bounds(self) -> tuple[Ints, Ints]:
        """The first row and column of each tile, and those behind its last, shape (tile, 2)."""
        places = np.array(self.places, dtype=np.int64)
        return places[:, :2], places[:, :2] + places[:, 2:]

    def _painted(self, window: Window, bands: tuple[int, ...], read: _Read) -> Bytes:
        """Read a window; the first tile is painted last."""
        pixels = np.zeros((*bands, window.height, window.width), dtype=np.uint8)
        for row in self._rows_in(window)[::-1]:
            tile, place = self.tiles[row], self.places[row]
            common = shared_window(window, place)
            part = common.within(place)
            rows, cols = common.within(window).slices
            with reading(tile.path):
                opened = tile if self.sources is None else self.sources.opened(tile)
                is_valid = opened.read_valid(part) if self.has_overlaps else np.True_
                np.copyto(pixels[..., rows, cols], read(opened, part), where=is_valid)
        return pixels


class _OpenTiles:
    """Tiles that stay open for many windows; when they are too many, all are closed at once."""

    def __init__(self) -> None:
        """Open none yet."""
        self._stack = ExitStack()
        self._open: dict[str, ProbabilityFile] = {}

    def opened(self, tile: ProbabilityFile) -> ProbabilityFile:
        """Return a tile that is open."""
        name = str(tile.path)
        if name not in self._open:
            if len(self._open) == _MOST_OPEN:
                self.close()
            source = self._stack.enter_context(open_raster(tile.path))
            self._open[name] = replace(tile, source=source)
        return self._open[name]

    def close(self) -> None:
        """Close all."""
        self._open.clear()
        self._stack.close()


def as_one(tiles: Sequence[ProbabilityFile]) -> TiledProbability:
    """Return rasters on common pixels (`group_tiles`), with the same speed bins, as one."""
    first = tiles[0].grid
    placed = [place_tile(tile.grid, first) for tile in tiles]
    on_first = [place for place in placed if place is not None]
    row, col = (min(place[axis] for place in on_first) for axis in (0, 1))
    last_row, last_col = (
        max(place[axis] + place[axis + 2] for place in on_first) for axis in (0, 1)
    )
    whole = Window(row, col, last_row - row, last_col - col)
    places = [place.within(whole) for place in on_first]
    boxes = [shapely.box(p.col, p.row, p.col + p.width, p.row + p.height) for p in places]
    shared = sum(box.area for box in boxes) > shapely.union_all(boxes).area
    named = [tile.threshold for tile in tiles if tile.threshold is not None]
    return TiledProbability(
        grid=first.crop(*whole),
        speed_bins=tiles[0].speed_bins,
        tiles=tuple(tiles),
        places=tuple(places),
        has_overlaps=shared,
        threshold=round(statistics.fmean(named), 4) if named else None,
        edge_model=mean_model([tile.edge_model for tile in tiles if tile.edge_model is not None]),
    )


def _all_bands(tile: ProbabilityFile, window: Window) -> Bytes:
    road, bins = tile.read_all(window)
    return np.concatenate([road[:0] if bins is None else bins, road[np.newaxis]])


def place_tile(tile: Grid, grid: Grid) -> Window | None:
    """Return the position of a tile on the pixels of a grid, possibly outside of the grid.

    Args:
        tile: raster with the CRS of the grid.
        grid: grid from whose first pixel rows and columns are counted; they may be negative.

    Returns:
        The window; None if a corner is more than 0.1 pixels off, so that size, direction or
        position of the pixels differ.
    """
    corners_px = grid.to_pixel(tile.to_map(tile.corners))
    start = corners_px[0].round()
    apart_px = np.abs(corners_px - (start + tile.corners)).max()
    if not apart_px <= _OFF_PX:  # Neither is it where that is NaN.
        return None
    return Window(int(start[0]), int(start[1]), tile.height, tile.width)


def group_tiles(grids: Sequence[Grid], pairs: Ints) -> list[list[int]]:
    """Group rasters that touch each other and are on the pixels of the first one of their group.

    Args:
        pairs: shape (k, 2), indices of rasters that touch each other.

    Returns:
        Indices of the rasters of each group, ascending, in the order of the first one. A raster
        that fits no other is a group of its own.
    """
    beside: dict[int, set[int]] = {row: set() for row in range(len(grids))}
    for here, there in pairs.tolist():
        beside[here].add(there)
        beside[there].add(here)
    left, groups = set(beside), []
    for first in beside:
        group, ahead = [], [first] if first in left else []
        while ahead:
            group.append(ahead.pop())
            left.discard(group[-1])
            fitting = {
                row
                for row in beside[group[-1]] & left
                if grids[row].crs == grids[first].crs and place_tile(grids[row], grids[first])
            }
            left -= fitting
            ahead += fitting
        if group:
            groups.append(sorted(group))
    return groups
