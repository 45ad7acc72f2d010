"""Masks from edits: what people decided about roads, as labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Array, Bytes, Floats, Lines
from roadseg.raster.grid import Grid, reproject
from roadseg.raster.windows import Window, cut_blocks
from roadseg.review.apply import Revision, Road
from roadseg.roads.masks.burning import BACKGROUND, RoadAreas, burn_roads
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins

_SIDE_M = 8.0  # Metres beside a road that was confirmed in which there is no other one.
_EDGE_M = 1.0  # Metres beyond the edge of a road that may still belong to it.
_BLOCK_PX = 2048
_CONFIRMED, _REJECTED, _UNDECIDED = 1, 0, -1  # Values of `Decided.state`.


@dataclass(frozen=True)
class Decided:
    """Roads by what people decided about them, in one metric CRS.

    Attributes:
        lines: shape (n,).
        state: shape (n,): 1 for a road that was accepted, drawn or changed, 0 for one that was
            rejected, -1 for one about which nothing was decided.
        is_drawn: shape (n,), whether a person drew it.
        width_m: shape (n,).
        speed_mph: shape (n,).
    """

    crs: CRS
    lines: Lines
    state: Array
    is_drawn: Array
    width_m: Floats
    speed_mph: Floats

    def burnt(self, grid: Grid, state: int, *, wider_m: float, bins: SpeedBins) -> Bytes:
        """Return the mask of the roads of a state on a grid."""
        rows = np.flatnonzero(self.state == state)
        rows = rows[np.argsort(self.speed_mph[rows], kind="stable")]
        shapes = shapely.buffer(self.lines[rows], self.width_m[rows] / 2 + wider_m)
        numbers = bins.bin_of(self.speed_mph[rows])
        return burn_roads(RoadAreas(reproject(shapes, self.crs, grid.crs), numbers), grid)

    def ground(self, crs: CRS) -> shapely.Geometry:
        """Return where it is known what is a road: roads that were decided about, and their sides.

        Roads about which nothing was decided are no part of it.
        """
        is_open = self.state == _UNDECIDED
        wider_m = np.where(is_open, _EDGE_M, _SIDE_M)
        shapes = shapely.buffer(reproject(self.lines, self.crs, crs), self.width_m / 2 + wider_m)
        return shapely.union_all(shapes[~is_open]) - shapely.union_all(shapes[is_open])


def decided_roads(revision: Revision, *, width_m: float) -> Decided:
    """Return the roads of a revision with what was decided about them.

    Args:
        width_m: of roads whose width is not known.
    """
    roads = list(revision.roads.values())
    lines = np.empty(len(roads), dtype=object)
    lines[:] = [road.line for road in roads]
    return Decided(
        crs=revision.base.crs,
        lines=lines,
        state=np.array([_state(road) for road in roads], dtype=np.int64),
        is_drawn=np.array([road.edited == "drawn" for road in roads], dtype=bool),
        width_m=np.array([revision.attribute(road, "width_m") or width_m for road in roads]),
        speed_mph=np.array([(revision.speed_of(road) or 0.0) / KPH_PER_MPH for road in roads]),
    )


def edited_blocks(
    grid: Grid, roads: Sequence[Decided], *, bins: SpeedBins, labels: Path
) -> Iterator[tuple[Window, Bytes]]:
    """Yield the mask of a scene block by block, for `write_mask`.

    Roads that were confirmed are burnt with their width and speed, and those that were rejected
    are background. Anything else is as in the mask of the labels, or background.

    Args:
        labels: mask of the labels on the same grid, if it exists.
    """
    for window in cut_blocks(grid.height, grid.width, block_px=_BLOCK_PX):
        part = grid.crop(*window)
        mask = np.full((window.height, window.width), BACKGROUND, dtype=np.uint8)
        if labels.exists():
            mask = read_mask(labels, window)
        for each in roads:
            mask[each.burnt(part, _REJECTED, wider_m=_EDGE_M, bins=bins) > 0] = BACKGROUND
            road = each.burnt(part, _CONFIRMED, wider_m=0.0, bins=bins)
            mask[road > 0] = road[road > 0]
        yield window, mask


def _state(road: Road) -> int:
    if road.is_rejected:
        return _REJECTED
    return _UNDECIDED if road.is_open else _CONFIRMED
