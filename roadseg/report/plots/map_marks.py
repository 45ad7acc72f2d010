"""Map marks: the scale bar and the north arrow of a map."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon, Rectangle
from matplotlib.patheffects import withStroke

from roadseg.arrays import Floats
from roadseg.raster.grid import DEGREES, Grid, transformer
from roadseg.report.plots.figures import INK, PAPER, SMALL_PT
from roadseg.system.units import map_unit

_BAR = 0.25  # Longest scale bar, relative to the width of the map.
_BAR_IN, _MARGIN_IN, _ARROW_IN = 0.045, 0.1, 0.26
# Corners of an arrow that points up; its length is 1.
_ARROW = np.array([(0, 0.5), (-0.3, -0.5), (0, -0.26), (0.3, -0.5)])
_LETTER = 0.78  # Distance of the N from the middle of the arrow, in lengths of the arrow.


def add_marks(panel: Axes, grid: Grid) -> None:
    """Draw a scale bar at the lower left, and an arrow to true north at the upper right.

    Args:
        panel: a map whose place in its figure is set, with rows of the grid from left to right.
        grid: of the scene, not local.
    """
    _, _, right, top = extent_in(panel)
    add_scale_bar(panel, grid.width * grid.pixel_size_m[0])
    away = _MARGIN_IN + _ARROW_IN * (0.5 + _LETTER) / 1.5
    _add_arrow(panel, np.array([right - away, top - away]), north_of(grid))


def add_scale_bar(panel: Axes, width_m: float) -> None:
    """Draw a scale bar at the lower left of a panel of this width on the ground."""
    left, bottom, right, _ = extent_in(panel)
    length_m = scale_bar_m(width_m * _BAR)
    length_in = length_m / width_m * (right - left)
    _add_bar(panel, (left + _MARGIN_IN, bottom + _MARGIN_IN), length_in, bar_text(length_m))


def extent_in(panel: Axes) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of a panel in its figure, in inches."""
    place, (width, height) = panel.get_position(), np.asarray(panel.figure.bbox.size)
    width_in, height_in = float(width / panel.figure.dpi), float(height / panel.figure.dpi)
    return place.x0 * width_in, place.y0 * height_in, place.x1 * width_in, place.y1 * height_in


def _add_bar(panel: Axes, corner_in: tuple[float, float], length_in: float, text: str) -> None:
    """Draw a bar, its first half dark, with its length above."""
    x, y = corner_in
    inches = panel.figure.dpi_scale_trans
    for start, width, colour in ((x, length_in, PAPER), (x, length_in / 2, INK)):
        part = Rectangle((start, y), width, _BAR_IN, facecolor=colour, edgecolor=INK)
        part.set(transform=inches, linewidth=0.6, zorder=10)
        if colour == PAPER:
            part.set_path_effects([withStroke(linewidth=2.4, foreground=PAPER)])
        panel.add_patch(part)
    _write(panel, (x + length_in / 2, y + _BAR_IN + 0.075), text)


def _add_arrow(panel: Axes, middle_in: Floats, north: tuple[float, float]) -> None:
    """Draw an arrow of which one side is dark, with an N before its tip."""
    ahead = np.array([north[0], -north[1]])
    aside = np.array([ahead[1], -ahead[0]])
    corners = middle_in + _ARROW_IN * (_ARROW[:, :1] * aside + _ARROW[:, 1:] * ahead)
    inches = panel.figure.dpi_scale_trans
    for part, colour in ((corners, PAPER), (corners[[0, 1, 2]], INK)):
        shape = Polygon(part, closed=True, facecolor=colour, edgecolor=INK, transform=inches)
        shape.set(linewidth=0.6, zorder=10, joinstyle="miter")
        if colour == PAPER:
            shape.set_path_effects([withStroke(linewidth=2.4, foreground=PAPER)])
        panel.add_patch(shape)
    _write(panel, middle_in + _ARROW_IN * _LETTER * ahead, "N")


def _write(panel: Axes, place_in: tuple[float, float] | Floats, text: str) -> None:
    panel.text(
        place_in[0],
        place_in[1],
        text,
        transform=panel.figure.dpi_scale_trans,
        fontsize=SMALL_PT,
        color=INK,
        ha="center",
        va="center",
        zorder=11,
        path_effects=[withStroke(linewidth=2, foreground=PAPER)],
    )


_STEP_DEG = 1e-4  # Degrees of latitude, about 11 m; the step that gives the direction of north.
_ROUND = (1, 2, 5)
_DIGITS = 6  # Decimals to which the length of a bar is rounded in its unit.


def scale_bar_m(most_m: float) -> float:
    """Return the longest bar that fits, of 1, 2 or 5 times a power of ten metres, feet or miles.

    Args:
        most_m: room for it, above 0; a bar of just that length fits.

    Returns:
        Its length in metres.
    """
    unit_m, _ = map_unit(most_m)
    power = 10.0 ** math.floor(math.log10(most_m / unit_m))
    return unit_m * max(power * digit for digit in _ROUND if power * digit * unit_m <= most_m)


def bar_text(length_m: float) -> str:
    """Return the length of a bar in words: `200 m`, from 1000 m on `2 km`; or `500 ft`, `2 mi`."""
    unit_m, unit = map_unit(length_m)
    return f"{round(length_m / unit_m, _DIGITS):g} {unit}"


def north_of(grid: Grid) -> tuple[float, float]:
    """Return the direction of true north in the middle of a raster, on its ground.

    Returns:
        A vector of length 1: to the right along its rows, and down along its columns; (0, -1)
        where north is up.

    Raises:
        ValueError: if the raster has no georeference.
    """
    lon, lat = grid.centre_degrees
    # Near the pole the step goes south, and its direction is reversed below.
    step = -_STEP_DEG if lat + _STEP_DEG > 90 else _STEP_DEG  # noqa: PLR2004 - the pole
    x, y = transformer(DEGREES, grid.crs).transform([lon, lon], [lat, lat + step])
    rows, cols = grid.to_pixel(np.column_stack([x, y])).T
    right_m, down_m = grid.pixel_size_m
    right = (cols[1] - cols[0]) * right_m * np.sign(step)
    down = (rows[1] - rows[0]) * down_m * np.sign(step)
    length = math.hypot(right, down)
    return float(right / length), float(down / length)
