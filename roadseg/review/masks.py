"""Masks from edits: what people decided about roads, as labels; the rest is ignored."""

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
from roadseg.roads.masks.burning import BACKGROUND, IGNORE, RoadAreas, burn_roads
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins

_SIDE_M = 8.0  # Metres beside a road that was confirmed in which there is no other one.
_EDGE_M = 1.0  # Metres beyond the edge of a road that may still belong to it.
_BLOCK_PX = 2048


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

    def areas(self, grid: Grid, state: int, *, wider_m: float, bins: SpeedBins) -> RoadAreas:
        """Return the ground of the roads of a state, ready to be burnt on a grid."""
        rows = np.flatnonzero(self.state == state)
        rows = rows[np.argsort(self.speed_mph[rows], kind="stable")]
        shapes = shapely.buffer(self.lines[rows], self.width_m[rows] / 2 + wider_m)
        return RoadAreas(reproject(shapes, self.crs, grid.crs), bins.bin_of(self.speed_mph[rows]))


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

    Roads that were confirmed are burnt with their width and speed, those that were rejected are
    background. So are both sides of a confirmed road, unless an undecided one lies there. Anything
    else is as in the mask of the labels, or ignored where there is none.

    Args:
        labels: mask of the labels on the same grid, if it exists.
    """
    for window in cut_blocks(grid.height, grid.width, block_px=_BLOCK_PX):
        part = grid.crop(*window)
        mask = np.full((window.height, window.width), IGNORE, dtype=np.uint8)
        if labels.exists():
            mask = read_mask(labels, window)
        is_free = mask == IGNORE
        for each in roads:
            beside, undecided, gone, road = (
                burn_roads(each.areas(part, state, wider_m=wider_m, bins=bins), part)
                for state, wider_m in ((1, _SIDE_M), (-1, _EDGE_M), (0, _EDGE_M), (1, 0.0))
            )
            mask[is_free & (beside > 0) & (undecided == 0)] = BACKGROUND
            mask[gone > 0] = BACKGROUND
            mask[road > 0] = road[road > 0]
        yield window, mask


def _state(road: Road) -> int:
    if road.is_rejected:
        return 0
    return -1 if road.is_open else 1
