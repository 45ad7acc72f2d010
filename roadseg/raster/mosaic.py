"""Mosaics of adjoining rasters on a common pixel grid: positions, extent and groups."""

from collections.abc import Sequence

import numpy as np

from roadseg.arrays import Ints
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window


def place_tile(tile: Grid, grid: Grid, *, off_px: float) -> Window | None:
    """Return the position of a tile on the pixels of a grid, possibly outside of the grid.

    Args:
        tile: raster with the CRS of the grid.
        grid: grid from whose first pixel rows and columns are counted; they may be negative.
        off_px: largest distance of the corners of the tile from corners of pixels of the grid.

    Returns:
        The window; None if a corner is further off, so that size, direction or position of the
        pixels differ.
    """
    corners_px = grid.to_pixel(tile.to_map(tile.corners))
    start = corners_px[0].round()
    apart_px = np.abs(corners_px - (start + tile.corners)).max()
    if not apart_px <= off_px:  # Neither is it where that is NaN.
        return None
    return Window(int(start[0]), int(start[1]), tile.height, tile.width)


def cover_tiles(grid: Grid, places: Sequence[Window]) -> tuple[Grid, list[Window]]:
    """Return the smallest grid that contains all windows on a grid, and their positions in it.

    Args:
        grid: grid from whose first pixel the windows are counted.
        places: windows, at least one.
    """
    row, col = min(place.row for place in places), min(place.col for place in places)
    height = max(place.row + place.height for place in places) - row
    width = max(place.col + place.width for place in places) - col
    whole = Window(row, col, height, width)
    return grid.crop(*whole), [place.within(whole) for place in places]


def group_tiles(grids: Sequence[Grid], pairs: Ints, *, off_px: float) -> list[list[int]]:
    """Group rasters that touch each other and can be tiles of one raster.

    Args:
        pairs: shape (k, 2), indices of rasters that touch each other.
        off_px: largest distance of corners from the pixel grid of the first raster of the group.

    Returns:
        Indices of the rasters of each group, ascending, in the order of the first one. A raster
        that fits no other is a group of its own.
    """
    beside: dict[int, set[int]] = {row: set() for row in range(len(grids))}
    for here, there in pairs.tolist():
        beside[here].add(there)
        beside[there].add(here)
    left = set(beside)
    return [_group(row, grids, beside, left, off_px) for row in beside if row in left]


def _group(
    first: int, grids: Sequence[Grid], beside: dict[int, set[int]], left: set[int], off_px: float
) -> list[int]:
    """Take a raster out of those that are left, and all that fit it and touch it or each other."""
    left.discard(first)
    group, ahead = [first], [first]
    while ahead:
        for row in sorted(beside[ahead.pop()] & left):
            is_alike = grids[row].crs == grids[first].crs
            if is_alike and place_tile(grids[row], grids[first], off_px=off_px) is not None:
                left.discard(row)
                group.append(row)
                ahead.append(row)
    return sorted(group)
