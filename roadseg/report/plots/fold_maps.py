"""Map of the folds: a picture of the footprints of all chips, coloured by fold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from roadseg.arrays import Ints
from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.dataset.fold_files import road_by_fold
from roadseg.dataset.footprints import Corners, areas_apart, corners_degrees, local_km, unbroken
from roadseg.report.plots.figures import INK, PAPER, save_figure, screen_figure
from roadseg.roads.colours import as_hex, fold_colour
from roadseg.system.text import count
from roadseg.system.units import road_unit, to_road_unit

_ROOM_PX = (1260, 1100)  # Most pixels for all panels together: width and height.
_LEFT_PX, _KEY_PX, _TOP_PX, _BOTTOM_PX = 70, 270, 50, 60  # Around the panels, and for the key.
_GAP_PX = 90  # Between panels, for titles and numbers.
_LEAST_PX, _NUMBERED_PX = 8, 40  # Smallest side that is drawn; side with the number of the fold.
_PT_PER_PX = 0.72
_GAP_KM = 50.0  # Kilometres; chips at least this far apart have separate panels.
_PANELS = 9  # More areas than this are drawn as one.
_FOLDS = 26  # Most folds in the key.
_GROUND = "#E8E8E8"


@dataclass(frozen=True)
class _Panel:
    """Chips in one panel: their indices, and their corners in km east and north."""

    title: str
    chips: Ints
    corners_km: Corners

    @property
    def size_km(self) -> tuple[float, float]:
        """Width and height of its ground."""
        wide, high = np.ptp(self.corners_km, axis=(0, 1)).tolist()
        return max(wide, 1e-6), max(high, 1e-6)


def draw_folds(path: Path, chips: Sequence[ChipRecord], folds: Ints) -> None:
    """Write a PNG: a map of all chips in the colours of their folds, and statistics of the folds.

    North is up. Areas far apart have separate panels. Scenes without georeference are side by side
    in a panel of their own. Very small chips are drawn larger.

    Raises:
        OutputError: if the file cannot be written.
    """
    panels = list(_panels(chips))
    columns = math.ceil(math.sqrt(len(panels)))
    rows = math.ceil(len(panels) / columns)
    cell = [
        (room - _GAP_PX * (n - 1)) / n for room, n in zip(_ROOM_PX, (columns, rows), strict=True)
    ]
    tallest = max(high / wide for wide, high in (panel.size_km for panel in panels))
    width, height = cell[0], min(cell[1], max(cell[0] * tallest, _LEAST_PX * 10))
    width_px = _LEFT_PX + columns * (width + _GAP_PX) + _KEY_PX
    height_px = max(_TOP_PX + rows * (height + _GAP_PX) - _GAP_PX + _BOTTOM_PX, 2 * _KEY_PX)
    figure = screen_figure(width_px, height_px)
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        left, top = _LEFT_PX + column * (width + _GAP_PX), _TOP_PX + row * (height + _GAP_PX)
        place = (left / width_px, 1 - (top + height) / height_px)
        axis = figure.add_axes((*place, width / width_px, height / height_px))
        _draw_panel(axis, panel, folds[panel.chips], (width, height))
    key_at = (1 - _KEY_PX / width_px, 1 - _TOP_PX / height_px)
    figure.legend(
        handles=_key(chips, folds),
        title="fold: chips, road",
        loc="upper left",
        bbox_to_anchor=key_at,
        borderaxespad=0,
        frameon=False,
    )
    figure.text(1 - _GAP_PX / 4 / width_px, key_at[1], "\u25b2\nN", ha="right", va="top")
    save_figure(figure, path)


def _panels(chips: Sequence[ChipRecord]) -> Iterator[_Panel]:
    corners = np.array([chip.corners_m for chip in chips])
    zones = np.array([chip.zone for chip in chips])
    placed, loose = np.flatnonzero(zones != NO_ZONE), np.flatnonzero(zones == NO_ZONE)
    if len(placed):
        degrees = corners_degrees(corners[placed], zones[placed])
        areas = areas_apart(degrees, gap_km=_GAP_KM)
        # Many areas would have panels too small to be read.
        if areas.max() >= _PANELS:
            areas[:] = 0
        for area in range(areas.max() + 1):
            here = unbroken(degrees[areas == area])
            yield _Panel(_place(here), placed[areas == area], local_km(here))
    if len(loose):
        scenes = [chips[index].scene for index in loose.tolist()]
        yield _Panel("no georeference", loose, _in_rows(corners[loose], scenes))


def _place(degrees: Corners) -> str:
    """Return the coordinates of the middle as text: `36.12° N, 115.17° W`."""
    lon, lat = degrees.reshape(-1, 2).mean(axis=0)
    lon = (lon + 180) % 360 - 180
    return f"{abs(lat):.2f}° {'S' if lat < 0 else 'N'}, {abs(lon):.2f}° {'W' if lon < 0 else 'E'}"


def _in_rows(corners_m: Corners, scenes: list[str]) -> Corners:
    """Arrange scenes, each with its own coordinates, in about as many rows as columns."""
    names, of_chip = np.unique(scenes, return_inverse=True)
    low, high = np.full((len(names), 2), np.inf), np.full((len(names), 2), -np.inf)
    np.minimum.at(low, of_chip, corners_m.min(axis=1))
    np.maximum.at(high, of_chip, corners_m.max(axis=1))
    columns = math.ceil(math.sqrt(len(names)))
    row, column = np.divmod(np.arange(len(names)), columns)
    start = np.column_stack([column, -row]) * 1.1 * (high - low).max(axis=0)
    return np.asarray((corners_m + (start - low)[of_chip][:, None]) / 1000)


def _draw_panel(axis: Axes, panel: _Panel, folds: Ints, room_px: tuple[float, float]) -> None:
    per_km = to_road_unit(1)
    corners = (panel.corners_km - panel.corners_km.min(axis=(0, 1))) * per_km
    middles = corners.mean(axis=1)
    px_per_km = min(
        (room - 2 * _LEAST_PX) / side for room, side in zip(room_px, panel.size_km, strict=True)
    )
    sides_px = np.ptp(panel.corners_km, axis=1).max(axis=1) * px_per_km
    colours = np.array([as_hex(fold_colour(fold)) for fold in folds.tolist()])
    is_small = sides_px < _LEAST_PX
    outlines = np.where(is_small, 0.0, 1.0)
    axis.add_collection(
        PolyCollection(corners, facecolors=colours, edgecolors=PAPER, linewidths=outlines)
    )
    axis.scatter(
        middles[is_small, 0],
        middles[is_small, 1],
        s=(_LEAST_PX * _PT_PER_PX) ** 2,
        c=colours[is_small],
        marker="s",
        linewidths=0,
        antialiased=False,
    )
    for chip in np.flatnonzero(sides_px >= _NUMBERED_PX).tolist():
        size_pt = min(sides_px[chip] / 3, 24)
        x, y = middles[chip].tolist()
        text = axis.text(x, y, str(folds[chip]), fontsize=size_pt, color=PAPER, weight="bold")
        text.set(ha="center", va="center")
    edge = _LEAST_PX / px_per_km * per_km
    wide, high = np.array(room_px) / px_per_km * per_km - edge
    axis.set(xlim=(-edge, wide), ylim=(-edge, high))
    axis.set_facecolor(_GROUND)
    axis.set_xlabel(road_unit(), loc="right", color=INK)
    axis.set_title(f"{panel.title}: {count(len(folds), 'chip')}", loc="left", fontsize=11)


def _key(chips: Sequence[ChipRecord], folds: Ints) -> list[Patch]:
    """Return an entry of the key for each fold, if these are not too many."""
    sizes, shares = np.bincount(folds), road_by_fold(chips, folds)
    shown = len(sizes) if len(sizes) <= _FOLDS else _FOLDS - 1
    rows = [
        Patch(color=as_hex(fold_colour(fold)), label=f"{fold}: {sizes[fold]}, {shares[fold]:.1%}")
        for fold in range(shown)
    ]
    more = Patch(color="none", label=f"and {len(sizes) - shown} more")
    return rows if shown == len(sizes) else [*rows, more]
