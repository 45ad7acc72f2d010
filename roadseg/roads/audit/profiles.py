"""Profiles: the probability of road across the ways of a map, from any number of rasters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Bytes, Floats, Ints, Shapes
from roadseg.raster.grid import Grid, reproject_points
from roadseg.raster.windows import Window
from roadseg.roads.audit.stations import Stations
from roadseg.roads.masks.probabilities import Probability, ProbabilityFile

REACH_M = 40  # Metres to both sides of a way that a profile shows: 10 m of offset, 60 m of road.
NO_DATA = 255  # In a profile; probabilities are 0 to 254.

_BLOCK_PX = 1024  # Side of the blocks of a raster that are read at once.
_PHASES = 4  # Stations that follow each other look at places a part of a metre apart.
_ROWS_AT_ONCE = 4096  # Stations whose profiles are looked up together.

Raster = Probability | ProbabilityFile


@dataclass(frozen=True)
class Cover:
    """The rasters against which a map is held, and the ground that they show.

    Attributes:
        rasters: in the order in which they count where they overlap.
        crs: metric CRS in which everything is measured: that of the first raster.
        outlines: shape (n,), their footprints in that CRS.
    """

    rasters: Sequence[Raster]
    crs: CRS
    outlines: Shapes

    @classmethod
    def from_rasters(cls, rasters: Sequence[Raster]) -> "Cover":
        """Lay out rasters that all have a georeference.

        Raises:
            DataError: if one has none.
        """
        crs = rasters[0].grid.metric_crs
        outlines = [raster.grid.footprint_in(crs) for raster in rasters]
        return cls(rasters, crs, np.array(outlines, dtype=object))

    def near(self, points: Floats) -> Iterator[tuple[Raster, Ints]]:
        """Give each raster with the rows of the points on it or within a profile of it."""
        for raster, outline in zip(self.rasters, self.outlines, strict=True):
            low_x, low_y, high_x, high_y = shapely.bounds(outline)
            x, y = points.T
            inside = (x > low_x - REACH_M) & (x < high_x + REACH_M)
            inside &= (y > low_y - REACH_M) & (y < high_y + REACH_M)
            if inside.any():
                yield raster, np.flatnonzero(inside)


def probability_profiles(cover: Cover, stations: Stations) -> Bytes:
    """Return the probability of any road across the way at each station.

    Of rasters that overlap the first that holds data at a place is seen.

    Returns:
        Shape (k, 2 * REACH_M + 1), from REACH_M to the right of the way to REACH_M to its left, a
        metre apart: 254 for certain, `NO_DATA` where no raster holds data. Stations that follow
        each other look at places a quarter of a metre apart, so that their mean shows where a road
        ends more exactly than to a metre.

    Raises:
        DataError: if a raster cannot be read.
    """
    phase_m = (np.arange(len(stations.xy)) % _PHASES + 0.5) / _PHASES - 0.5
    profiles = np.full((len(stations.xy), 2 * REACH_M + 1), NO_DATA, dtype=np.uint8)
    for raster, near in cover.near(stations.xy):
        xy = stations.xy[near] + stations.left[near] * phase_m[near, np.newaxis]
        places, left = _in_pixels(raster.grid, cover.crs, xy, stations.left[near])
        _fill(profiles, near, raster, places=places, left=left)
    return profiles


def _in_pixels(grid: Grid, crs: CRS, xy: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Return row and col of stations, and the step in rows and cols to a metre left of them."""
    places = grid.to_pixel(reproject_points(xy, crs, grid.crs))
    return places, grid.to_pixel(reproject_points(xy + left, crs, grid.crs)) - places


def _blocks(places: Floats) -> Iterator[Ints]:
    """Give the rows of the places in each block of a raster."""
    row, col = np.floor(places / _BLOCK_PX).astype(np.int64).T
    number = (row << 32) + col
    order = np.argsort(number, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


def _window(grid: Grid, places: Floats, reach: Floats) -> Window | None:
    """Return the pixels within a reach of places; None if none of them are on the grid."""
    size = np.array([grid.height, grid.width])
    low = np.clip(np.floor((places - reach).min(axis=0)), 0, size).astype(np.int64)
    high = np.clip(np.floor((places + reach).max(axis=0)) + 1, 0, size).astype(np.int64)
    if (high <= low).any():
        return None
    return Window(*low.tolist(), *(high - low).tolist())


def _fill(profiles: Bytes, near: Ints, raster: Raster, *, places: Floats, left: Floats) -> None:
    """Fill in what some rows of the profiles lack and a raster shows, block by block."""
    with raster.opened() as source:
        for rows in _blocks(places):
            window = _window(raster.grid, places[rows], REACH_M * np.abs(left[rows]))
            if window is None:
                continue
            road = np.minimum(source.read_road(window), NO_DATA - 1)
            road[~source.read_valid(window)] = NO_DATA
            start = places[rows] - window[:2]
            _look_up(profiles, near[rows], road, places=start, left=left[rows])


def _look_up(profiles: Bytes, rows: Ints, road: Bytes, *, places: Floats, left: Floats) -> None:
    """Fill in what some rows of the profiles lack and a window shows.

    Args:
        profiles: shape (k, 2 * REACH_M + 1), changed in place.
        rows: shape (n,), those of stations in the window.
        road: the window, shape (row, col).
        places: shape (n, 2), row and col of the stations in the window.
        left: shape (n, 2), rows and cols that lead a metre to the left.
    """
    across = np.arange(-REACH_M, REACH_M + 1, dtype=np.float32)
    framed = np.pad(road, 1, constant_values=NO_DATA)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        start, step = places[part].astype(np.float32), left[part].astype(np.float32)
        row, col = (
            np.clip(np.floor(start[:, axis, None] + step[:, axis, None] * across), -1, size).astype(
                np.int32
            )
            for axis, size in enumerate(road.shape)
        )
        values = framed.ravel()[(row + 1) * framed.shape[1] + col + 1]
        old = profiles[rows[part]]
        profiles[rows[part]] = np.where(old == NO_DATA, values, old)
