"""Masks from edits: what people decided about roads, as labels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Array, Bytes, Columns, Floats, Lines
from roadseg.raster.grid import Grid, reproject
from roadseg.raster.windows import Window, cut_blocks
from roadseg.review.apply import BESIDE_M, Revision, Road
from roadseg.roads.masks.burning import BACKGROUND, RoadAreas, areas_of_lines, burn_roads
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import ProbabilityFile, pseudo_labels
from roadseg.roads.options import ThresholdOptions
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins

AROUND_M = 500.0  # Metres around decided roads; farther ground of their images is ignored.
SURE = 0.6  # Confidence from which on a road is a label if nobody decided about it.
SURE_WIDTHS_M = (5.0, 20.0)  # Narrowest and widest of these labels.
# What model cards say about them.
PSEUDO_LABELS = (
    "pseudo-labels, which are roads that a network found in these images; metrics on them do not "
    "measure accuracy"
)
_EDGE_M = 1.0  # Metres beyond the edge of a road that may still belong to it.
_BLOCK_PX = 2048
State = Literal["drawn", "accepted", "rejected", "sure", "doubtful"]
_CONFIRMED: tuple[State, ...] = ("drawn", "accepted")
_DECIDED: tuple[State, ...] = (*_CONFIRMED, "rejected")


@dataclass(frozen=True)
class Decided(Columns):
    """Roads by what people decided about them, in one metric CRS.

    Attributes:
        lines: shape (n,).
        state: shape (n,): "drawn", "accepted" (or changed), "rejected", or, if nobody decided about
            it, "sure" or "doubtful" by its confidence.
        width_m: shape (n,).
        speed_mph: shape (n,).
    """

    crs: CRS
    lines: Lines
    state: Array
    width_m: Floats
    speed_mph: Floats

    @property
    def decided_lines(self) -> Lines:
        """The lines of the roads that people decided about."""
        return self.lines[np.isin(self.state, _DECIDED)]

    def near(self, grid: Grid) -> Self:
        """Return the roads up to 500 m from the ground of a grid, in its metres."""
        lines = reproject(self.lines, self.crs, grid.metric_crs)
        reach_m = self.width_m.max(initial=0.0) / 2 + AROUND_M
        rows = np.flatnonzero(shapely.dwithin(lines, grid.footprint_m, reach_m))
        return replace(self.take(rows), crs=grid.metric_crs, lines=lines[rows])

    def ground(self, around_m: float) -> shapely.Geometry:
        """Return the ground around roads that were decided about."""
        rows = np.isin(self.state, _DECIDED)
        shapes = shapely.buffer(self.lines[rows], self.width_m[rows] / 2 + around_m)
        return shapely.union_all(shapes)

    @property
    def unknown_ground(self) -> shapely.Geometry:
        """The ground of doubtful roads, but for that of other roads that cross or touch them."""
        is_doubtful = self.state == "doubtful"
        half_m = self.width_m / 2 + np.where(is_doubtful, _EDGE_M, 0.0)
        shapes = shapely.buffer(self.lines, half_m)
        return shapely.union_all(shapes[is_doubtful]) - shapely.union_all(shapes[~is_doubtful])

    def areas(self, grid: Grid, *states: State, wider_m: float, bins: SpeedBins) -> RoadAreas:
        """Return the areas of the roads of some states, ready to be burnt.

        Args:
            grid: in whose metres the roads are.
        """
        rows = np.isin(self.state, states)
        half_m = self.width_m[rows] / 2 + wider_m
        return areas_of_lines(self.lines[rows], half_m, self.speed_mph[rows], grid, bins=bins)


def decided_roads(revision: Revision, *, width_m: float) -> Decided:
    """Return the roads of a revision with what was decided about them.

    If the graph knows no speeds, they all have the same: a network that learned the few that people
    set would take those that were assumed for the others for known ones.

    Args:
        width_m: of roads whose width is not known.
    """
    roads = list(revision.roads.values())
    state = np.array([_state(road, revision) for road in roads], dtype=object)
    widths_m = np.array([revision.width_of(road) or width_m for road in roads])
    speeds_kph = np.array([revision.speed_of(road) or 0.0 for road in roads])
    known = revision.base.column("speed_known", 1)
    if known.size and not known.any():
        speeds_kph[:] = np.median(revision.base.column("speed_kph", 0.0))
    return Decided(
        crs=revision.base.crs,
        lines=np.array([road.line for road in roads], dtype=object),
        state=state,
        width_m=np.where(state == "sure", widths_m.clip(*SURE_WIDTHS_M), widths_m),
        speed_mph=speeds_kph / KPH_PER_MPH,
    )


def corrected_labels(
    labels: Path, roads: Decided, grid: Grid, *, bins: SpeedBins
) -> Iterator[tuple[Window, Bytes]]:
    """Yield the mask of a scene with labels block by block, for `write_mask`.

    Roads that were confirmed are burnt with their width and speed, and those that were rejected
    are background. Anything else is as in the mask of the labels.

    Args:
        roads: in the metres of the grid.
    """
    rejected = roads.areas(grid, "rejected", wider_m=_EDGE_M, bins=bins)
    confirmed = roads.areas(grid, *_CONFIRMED, wider_m=0.0, bins=bins)
    for window in cut_blocks(grid.height, grid.width, block_px=_BLOCK_PX):
        part = grid.crop(*window)
        mask = read_mask(labels, window)
        mask[burn_roads(rejected, part) > 0] = BACKGROUND
        burnt = burn_roads(confirmed, part)
        yield window, np.where(burnt > 0, burnt, mask)


def decided_labels(
    found: ProbabilityFile, roads: Decided, *, bins: SpeedBins, options: ThresholdOptions
) -> Iterator[tuple[Window, Bytes]]:
    """Yield the mask of a scene without labels block by block, for `write_mask`.

    Roads that were confirmed, and others that are sure, are burnt with their width and speed. What
    else lies within 8 m of roads that were decided about is background. The rest is as the first
    network sees it; see `pseudo_labels`.

    Args:
        found: probabilities of the first network, on whose grid the mask lies.
        roads: in the metres of that grid.
    """
    return pseudo_labels(
        found,
        options.level_for(found.threshold),
        road=roads.areas(found.grid, *_CONFIRMED, "sure", wider_m=0.0, bins=bins),
        ignored=roads.areas(found.grid, "doubtful", wider_m=_EDGE_M, bins=bins),
        background=roads.areas(found.grid, *_DECIDED, wider_m=BESIDE_M, bins=bins),
    )


def _state(road: Road, revision: Revision) -> State:
    if road.is_rejected:
        return "rejected"
    if road.is_open:
        confidence = revision.attribute(road, "confidence")
        return "sure" if confidence is not None and confidence >= SURE else "doubtful"
    return "drawn" if road.edited == "drawn" else "accepted"
