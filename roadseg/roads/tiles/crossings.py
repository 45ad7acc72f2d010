"""Crossings: where roads cross the borders of a tile, found from the pixels on the border alone.

Two tiles that are traced apart see the same pixels on their common border, but not the same roads
around it, so that their lines may differ a little there. Each therefore moves its lines to places
that both find in the same way:

1. The pixels are sampled along the border, every 0.25 m of its own coordinate.
2. Samples that are road make runs; gaps of up to 3 m in them are filled.
3. A line that crosses within a run, or up to 2 m beside it, crosses in the middle of the run.
4. Where a run is longer than 30 m, the road follows the border; there, and where there is no run
   (a link across a gap), a line crosses at the nearest whole metre.
"""

from collections.abc import Callable

import numpy as np
from pyproj import CRS
from scipy import ndimage

from roadseg.arrays import Bools, Floats, Ints
from roadseg.raster.grid import DEGREES, Grid, transformer
from roadseg.raster.windows import Window
from roadseg.roads.graph.road_graph import RoadGraph, take_edges
from roadseg.roads.tiles.borders import ON_BORDER_M, border_ids, move_ends, place_on_meridian
from roadseg.roads.tiles.tiling import ZONE_DEG, Tile
from roadseg.roads.tracing.trace import PixelSource

REACH_M = 50.0  # Metres to either side of a crossing in which pixels are sampled.
STEP_M = 0.25  # Metres between samples.
GAP_M = 3.0  # Metres of no road that do not end a run.
BESIDE_M = 2.0  # Metres from a run that a line may cross beside it.
LONGEST_M = 30.0  # Metres of the longest run that has one crossing.

_DEG_M = 111_319.49  # Metres of a degree; it only has to be the same on both sides.

IsRoad = Callable[[Floats], Bools]  # Places in degrees or metres, shape (n, 2), to shape (n,).


def settle_crossings(
    graph: RoadGraph, tile: Tile, pixels: list[tuple[PixelSource, int]]
) -> RoadGraph:
    """Move the ends of roads at the borders of a tile to the crossings that its neighbours find.

    Pieces of up to 30 m that begin and end at one crossing are dropped.

    Args:
        graph: of the tile, cut at its borders, in the CRS of its zone.
        tile: the tile.
        pixels: rasters around the tile, open, with the lowest byte that is road in each.
    """
    ids = border_ids(graph.nodes, graph.crs, km=tile.km)
    rows = np.flatnonzero(ids != "")
    if len(rows) == 0:
        return graph
    places = graph.nodes.copy()
    west = ZONE_DEG * (tile.zone - 1) - 180.0
    on_side = np.abs(places - np.round(places / tile.side_m) * tile.side_m) <= ON_BORDER_M
    for axis in (0, 1):
        # Nodes at corners stay there.
        of_axis = rows[on_side[rows, axis] & ~on_side[rows, 1 - axis]]
        places[of_axis] = _along_side(places[of_axis], axis, tile, pixels)
    between = rows[~on_side[rows].any(axis=1)]
    lon, lat = transformer(graph.crs, DEGREES).transform(*places[between].T)
    for meridian in (west, west + ZONE_DEG):
        here = np.abs(lon - meridian) < ZONE_DEG / 2
        places[between[here]] = _along_meridian(lat[here], meridian, tile, pixels)
    moved = move_ends(graph, places)
    is_loop = moved.ends[:, 0] == moved.ends[:, 1]
    at_border = border_ids(moved.nodes, moved.crs, km=tile.km)[moved.ends[:, 0]] != ""
    return take_edges(moved, ~(is_loop & at_border & (moved.length_m <= LONGEST_M)))


def _along_side(
    places: Floats, axis: int, tile: Tile, pixels: list[tuple[PixelSource, int]]
) -> Floats:
    """Return the crossings nearest to places on sides of the square along which `axis` is fixed."""
    steps = _steps_around(places[:, 1 - axis])

    def is_road(row: int) -> Bools:
        xy = np.empty((len(steps[row]), 2))
        xy[:, axis], xy[:, 1 - axis] = places[row, axis], steps[row] * STEP_M
        return _is_road(xy, tile.crs, pixels)

    settled = places.copy()
    low = np.floor(places[:, 1 - axis] / tile.side_m) * tile.side_m
    for row in range(len(places)):
        along = _settle(places[row, 1 - axis], steps[row], is_road(row))
        settled[row, 1 - axis] = min(max(along, low[row]), low[row] + tile.side_m)
    return settled


def _along_meridian(
    lat: Floats, meridian: float, tile: Tile, pixels: list[tuple[PixelSource, int]]
) -> Floats:
    """Return the crossings nearest to latitudes on a meridian, in the CRS of the tile."""
    metres = lat * _DEG_M
    steps = _steps_around(metres)
    settled = np.empty((len(lat), 2))
    for row in range(len(lat)):
        north = steps[row] * STEP_M / _DEG_M
        xy = np.column_stack([np.full(len(north), meridian), north])
        along = _settle(metres[row], steps[row], _is_road(xy, DEGREES, pixels))
        settled[row] = place_on_meridian(meridian, along / _DEG_M, tile.crs)
    return settled


def _steps_around(along: Floats) -> Ints:
    """Return the numbers of the samples around each place on a border, shape (n, samples)."""
    reach = round(REACH_M / STEP_M)
    middle = np.round(along / STEP_M).astype(np.int64)
    return middle[:, None] + np.arange(-reach, reach + 1)


def _settle(along: float, steps: Ints, is_road: Bools) -> float:
    """Return where on a border a line crosses that comes to it at a place, in metres."""
    gap = round(GAP_M / STEP_M)
    padded = np.pad(is_road, gap)
    filled = ndimage.binary_closing(padded, np.ones(gap + 1, dtype=bool))[gap:-gap]
    run, _ = ndimage.label(filled)
    near = np.flatnonzero(filled & (np.abs(steps * STEP_M - along) <= BESIDE_M))
    if len(near) == 0:
        return float(round(along))
    nearest = near[np.abs(steps[near] * STEP_M - along).argmin()]
    samples = np.flatnonzero(run == run[nearest])
    first, last = int(samples[0]), int(samples[-1])
    is_whole = first > 0 and last < len(steps) - 1
    if not is_whole or (last - first) * STEP_M > LONGEST_M:
        return float(round(along))
    return float(steps[first] + steps[last]) / 2 * STEP_M


def _is_road(xy: Floats, crs: CRS, pixels: list[tuple[PixelSource, int]]) -> Bools:
    """Return which places are road in any raster, shape (n,)."""
    is_road = np.zeros(len(xy), dtype=bool)
    for source, level in pixels:
        grid: Grid = source.grid
        cells = np.floor(
            grid.to_pixel(np.column_stack(transformer(crs, grid.crs).transform(*xy.T)))
        ).astype(np.int64)
        inside = ((cells >= 0) & (cells < (grid.height, grid.width))).all(axis=1)
        if inside.any():
            low, high = cells[inside].min(axis=0), cells[inside].max(axis=0)
            window = Window(*low.tolist(), *(high - low + 1).tolist())
            road = source.read_road(window)
            row, col = (cells[inside] - low).T
            is_road[inside] |= road[row, col] >= level
    return is_road
