"""Map of the folds: a picture of the footprints of all chips, coloured by fold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from roadseg.arrays import Ints
from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.dataset.fold_files import road_by_fold
from roadseg.dataset.footprints import Corners, areas_apart, corners_degrees, local_km, unbroken
from roadseg.report.plots.figures import font
from roadseg.roads.colours import Rgb, fold_colour
from roadseg.system.files import atomic_write
from roadseg.system.units import road_unit, to_road_unit

_ROOM_PX = (1260, 1100)  # Pixels; width and height for all panels together.
_LEGEND_PX, _ROW_PX = 320, 36
_TITLE_PX = 330  # Pixels for the title of a narrower panel.
_TOP_PX, _LEFT_PX, _BOTTOM_PX, _EDGE_PX = 60, 85, 60, 25  # Pixels around the ground of a panel.
_FINER = 2  # Panels are drawn this many times larger, then reduced, for smooth edges.
_LEAST_PX = 8  # Pixels; smaller chips are drawn as squares of this side.
# Pixels; sides of a chip from which it has an outline, and the number of its fold.
_OUTLINED_PX, _NUMBERED_PX = 7, 26
_TICKS = 6
_GAP_KM = 50.0  # Kilometres; chips at least this far apart have separate panels.
_PANELS = 9  # More areas than this are drawn as one.
_INK, _GROUND, _WHITE = (40, 40, 40), (232, 232, 232), (255, 255, 255)


@dataclass(frozen=True)
class _Panel:
    """Chips in one panel: their indices, and their corners in km east and north."""

    title: str
    chips: Ints
    corners_km: Corners


@dataclass(frozen=True)
class _Frame:
    """Place of the ground of a panel in the picture, in pixels."""

    left: int
    top: int
    width: int
    height: int
    west_km: float
    south_km: float
    px_per_km: float

    def pixels(self, corners_km: Corners) -> Corners:
        """Convert km to pixels from the upper left corner of the frame."""
        x = (corners_km[..., 0] - self.west_km) * self.px_per_km
        y = self.height - (corners_km[..., 1] - self.south_km) * self.px_per_km
        return np.asarray(np.stack([x, y], axis=-1))


def draw_folds(path: Path, chips: Sequence[ChipRecord], folds: Ints) -> None:
    """Write a PNG: a map of all chips in the colours of their folds, and statistics of the folds.

    North is up. Areas far apart have separate panels. Scenes without georeference are side by side
    in a panel of their own. Very small chips are drawn larger.

    Raises:
        OutputError: if the file cannot be written.
    """
    panels = list(_panels(chips))
    frames = list(_frames(panels))
    right = max(frame.left + max(frame.width, _TITLE_PX) for frame in frames) + 2 * _EDGE_PX
    bottom = max(frame.top + frame.height for frame in frames) + _BOTTOM_PX
    legend = _legend(chips, folds)
    canvas = Image.new("RGB", (right + legend.width, max(bottom, legend.height)), _WHITE)
    canvas.paste(legend, (right, 0))
    for panel, frame in zip(panels, frames, strict=True):
        _draw_panel(canvas, panel, frame, folds[panel.chips])
    with atomic_write(path) as partial:
        canvas.save(partial, format="PNG")


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


def _frames(panels: Sequence[_Panel]) -> Iterator[_Frame]:
    """Yield the frames of panels in rows and columns, each as large as its cell allows."""
    columns = math.ceil(math.sqrt(len(panels)))
    width, height = _ROOM_PX[0] // columns, _ROOM_PX[1] // math.ceil(len(panels) / columns)
    room = np.array([width - _LEFT_PX - _EDGE_PX, height - _TOP_PX - _BOTTOM_PX])
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        low, high = panel.corners_km.min(axis=(0, 1)), panel.corners_km.max(axis=(0, 1))
        scale = float(((room - 2 * _LEAST_PX) / np.maximum(high - low, 1e-3)).min())
        size = np.ceil((high - low) * scale).astype(int) + 2 * _LEAST_PX
        yield _Frame(
            left=column * width + _LEFT_PX,
            top=row * height + _TOP_PX,
            width=int(size[0]),
            height=int(size[1]),
            west_km=float(low[0] - _LEAST_PX / scale),
            south_km=float(low[1] - _LEAST_PX / scale),
            px_per_km=scale,
        )


def _draw_panel(canvas: Image.Image, panel: _Panel, frame: _Frame, folds: Ints) -> None:
    ground = Image.new("RGB", (frame.width * _FINER, frame.height * _FINER), _GROUND)
    _draw_chips(ImageDraw.Draw(ground), frame.pixels(panel.corners_km) * _FINER, folds)
    canvas.paste(ground.reduce(_FINER), (frame.left, frame.top))
    pen = ImageDraw.Draw(canvas)
    title = f"{panel.title}: {len(folds)} chip{'s' * (len(folds) > 1)}"
    pen.text((frame.left, frame.top - 10), title, _INK, font(22), anchor="ls")
    _draw_axes(pen, frame)


def _draw_chips(pen: ImageDraw.ImageDraw, corners: Corners, folds: Ints) -> None:
    """Draw squares for very small chips, then all chips."""
    middles, sides = corners.mean(axis=1), np.ptp(corners, axis=1).max(axis=1)
    colours = [fold_colour(fold) for fold in folds.tolist()]
    reach = _LEAST_PX * _FINER / 2
    for chip in np.flatnonzero(sides < 2 * reach).tolist():
        x, y = middles[chip].tolist()
        pen.rectangle((x - reach, y - reach, x + reach, y + reach), colours[chip])
    outlined = np.where(sides < _OUTLINED_PX * _FINER, 0, _FINER / np.maximum(sides, 1))
    inner = corners + (middles[:, None] - corners) * outlined[:, None, None]
    for chip in range(len(corners)):
        if outlined[chip]:
            pen.polygon(corners[chip].ravel().tolist(), _WHITE)
        pen.polygon(inner[chip].ravel().tolist(), colours[chip])
    for chip in np.flatnonzero(sides >= _NUMBERED_PX * _FINER).tolist():
        x, y = middles[chip].tolist()
        size_px = min(40 * _FINER, int(sides[chip] * 0.5))
        ink = _ink_on(colours[chip])
        pen.text((x, y), str(folds[chip]), ink, font(size_px), anchor="mm")


def _draw_axes(pen: ImageDraw.ImageDraw, frame: _Frame) -> None:
    small = font(18)
    bottom, right = frame.top + frame.height, frame.left + frame.width
    pen.rectangle((frame.left, frame.top, right, bottom), outline=_INK)
    px_per_unit = frame.px_per_km / to_road_unit(1)
    step = _tick_step(max(frame.width, frame.height) / px_per_unit)
    for number in range(int(max(frame.width, frame.height) / px_per_unit / step) + 1):
        offset, name = number * step * px_per_unit, f"{number * step:g}"
        if offset <= frame.width:
            x = frame.left + offset
            pen.line((x, bottom, x, bottom + 6), _INK)
            pen.text((x, bottom + 10), name, _INK, small, anchor="mt")
        if offset <= frame.height:
            y = bottom - offset
            pen.line((frame.left - 6, y, frame.left, y), _INK)
            pen.text((frame.left - 10, y), name, _INK, small, anchor="rm")
    pen.text((right, bottom + 30), road_unit(), _INK, small, anchor="rt")


def _tick_step(length: float) -> float:
    """Return the smallest step of 1, 2 or 5 times a power of ten with at most `_TICKS` steps."""
    power = 10.0 ** math.floor(math.log10(length / _TICKS))
    return next(power * digit for digit in (1, 2, 5, 10) if length / (power * digit) <= _TICKS)


def _legend(chips: Sequence[ChipRecord], folds: Ints) -> Image.Image:
    sizes, shares = np.bincount(folds), road_by_fold(chips, folds)
    room = (_ROOM_PX[1] - _TOP_PX - _BOTTOM_PX) // _ROW_PX
    shown = len(sizes) if len(sizes) <= room else room - 1
    legend = Image.new("RGB", (_LEGEND_PX, _TOP_PX + (shown + 2) * _ROW_PX), _WHITE)
    pen = ImageDraw.Draw(legend)
    _draw_row(pen, _TOP_PX - 22, ("fold", "chips", "road"))
    for fold in range(shown):
        y = _TOP_PX + fold * _ROW_PX + _ROW_PX // 2
        pen.rectangle((0, y - 13, 26, y + 13), fold_colour(fold))
        _draw_row(pen, y, (str(fold), str(sizes[fold]), f"{shares[fold]:.1%}"))
    if shown < len(sizes):
        y = _TOP_PX + shown * _ROW_PX + _ROW_PX // 2
        pen.text((40, y), f"and {len(sizes) - shown} more", _INK, font(22), anchor="lm")
    _draw_north(pen, _LEGEND_PX - 25, 20)
    return legend


def _draw_row(pen: ImageDraw.ImageDraw, y: int, cells: tuple[str, str, str]) -> None:
    for text, x, anchor in zip(cells, (40, 160, 250), ("lm", "rm", "rm"), strict=True):
        pen.text((x, y), text, _INK, font(22), anchor=anchor)


def _draw_north(pen: ImageDraw.ImageDraw, x: int, y: int) -> None:
    pen.polygon([(x, y), (x - 9, y + 24), (x, y + 18), (x + 9, y + 24)], _INK)
    pen.text((x, y + 28), "N", _INK, font(18), anchor="mt")


def _ink_on(colour: Rgb) -> Rgb:
    red, green, blue = colour
    return _INK if 0.3 * red + 0.6 * green + 0.1 * blue > 128 else _WHITE  # noqa: PLR2004 - half
