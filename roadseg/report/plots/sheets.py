"""Quality sheets: examples of labels over their images, six to a picture."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from PIL import Image

from roadseg.arrays import Bytes
from roadseg.dataset.quality import Example
from roadseg.dataset.registration import densest_window
from roadseg.dataset.shifts import WORTH_M, Shift
from roadseg.errors import OutputError
from roadseg.raster.windows import Window
from roadseg.report.plots.figures import INK, PAPER, add_scale_bar, rgb, save_figure, screen_figure
from roadseg.roads.colours import bin_colours
from roadseg.roads.masks.burning import IGNORE, road_pixels
from roadseg.roads.speeds import SpeedBins
from roadseg.system.units import speed_unit

_COLUMNS, _ROWS = 3, 2
_SCENE_PX, _CLOSE_PX, _GAP_PX = 420, 206, 8  # Pixels; sides of both pictures, and between them.
_EDGE_PX, _KEY_PX, _CAPTION_PX = 24, 58, 108
_CELL_PX = (_SCENE_PX + _GAP_PX + _CLOSE_PX + _EDGE_PX, _SCENE_PX + _CAPTION_PX)
_LEAST_PX = 960  # Pixels; the key needs this width of a sheet.
_NAME_PT, _TEXT_PT, _LINE_PX = 13, 11, 21
_LETTERS = 700  # Of a line, times points.
_CLOSE_M = 80.0  # Metres; side of the ground that is shown enlarged.
_STRIPE_PX = 8
_PALE, _DARK = (150, 150, 150), (70, 70, 70)
_ALARM, _LABELS, _MOVED = "#BE2800", "#FFE100", "#00E6FF"


def write_sheets(folder: Path, examples: Sequence[Example], *, bins: SpeedBins) -> list[Path]:
    """Write `sheet_01.png` and so on: each example, and its part with most road enlarged.

    The example has labels in colours of speed, and striped unknown pixels. The enlarged part is
    shown plain, and with the outlines of the labels; if these are significantly off by more than
    2 m, also with outlines moved by the estimated shift. Obsolete sheets are removed.

    Args:
        folder: folder of the sheets; made if it does not exist.

    Returns:
        The files written; none if there are no examples.

    Raises:
        OutputError: if a file cannot be written or removed.
    """
    on_sheet = _COLUMNS * _ROWS
    paths = []
    for number, start in enumerate(range(0, len(examples), on_sheet), start=1):
        paths.append(folder / f"sheet_{number:02d}.png")
        _draw_sheet(paths[-1], examples[start : start + on_sheet], bins)
    for stale in sorted(set(folder.glob("sheet_*.png")) - set(paths)):
        try:
            stale.unlink()
        except OSError as error:
            raise OutputError(f"{stale}: cannot be removed: {error.strerror}") from error
    return paths


def _draw_sheet(path: Path, examples: Sequence[Example], bins: SpeedBins) -> None:
    columns, rows = min(len(examples), _COLUMNS), -(-len(examples) // _COLUMNS)
    width = max(columns * _CELL_PX[0] + _EDGE_PX, _LEAST_PX)
    figure = screen_figure(width, rows * _CELL_PX[1] + _KEY_PX)
    _draw_key(figure, bins)
    for number, example in enumerate(examples):
        row, column = divmod(number, _COLUMNS)
        left, top = _EDGE_PX + column * _CELL_PX[0], _KEY_PX + row * _CELL_PX[1]
        _draw_example(figure, example, bins, (left, top))
    save_figure(figure, path)


def _draw_example(
    figure: Figure, example: Example, bins: SpeedBins, place: tuple[int, int]
) -> None:
    left, top = place
    window, whole = _busiest(example), Window(0, 0, *example.mask.shape)
    image = np.moveaxis(rgb(example.image), 0, -1)
    labelled = _labelled(image, example.mask, bins)
    add = partial(_add_picture, figure, pixel_m=example.grid.pixel_size_m)
    scene = add(labelled, whole, (left, top), side_px=_SCENE_PX)
    row, col, height, width = window
    scene.add_patch(Rectangle((col, row), width, height, fill=False, edgecolor=PAPER))
    left_px, low_px = left + _SCENE_PX + _GAP_PX, top + _SCENE_PX - _CLOSE_PX
    add(image, window, (left_px, top), side_px=_CLOSE_PX)
    close = add(image, window, (left_px, low_px), side_px=_CLOSE_PX)
    _add_outline(close, example, window, (0.0, 0.0), _LABELS)
    if example.shift is not None and _is_off(example.shift):
        _add_outline(close, example, window, (example.shift.x_m, example.shift.y_m), _MOVED)
    _write_caption(figure, example, (left, top + _SCENE_PX + 4))


def _add_picture(
    figure: Figure,
    image: Bytes,
    window: Window,
    place: tuple[int, int],
    *,
    side_px: int,
    pixel_m: tuple[float, float],
) -> Axes:
    """Add a part of an image in the middle of a square, with a scale bar; a pixel is a unit."""
    row, col, height, width = window
    ground_m = np.array([width * pixel_m[0], height * pixel_m[1]])
    wide, high = np.maximum(ground_m / ground_m.max() * side_px, 1)
    left, top = place[0] + (side_px - wide) / 2, place[1] + (side_px - high) / 2
    all_wide, all_high = figure.bbox.size
    panel = figure.add_axes(
        (left / all_wide, 1 - (top + high) / all_high, wide / all_wide, high / all_high)
    )
    part = np.ascontiguousarray(image[row : row + height, col : col + width])
    shown = Image.fromarray(part).resize((round(wide), round(high)))
    panel.imshow(shown, extent=(col, col + width, row + height, row), aspect="auto")
    panel.set_axis_off()
    add_scale_bar(panel, float(ground_m[0]))
    return panel


def _labelled(image: Bytes, mask: Bytes, bins: SpeedBins) -> Bytes:
    """Return an image, shape (row, col, 3), with roads coloured by speed, and unknown striped."""
    colours = np.zeros((IGNORE + 1, 3), dtype=np.uint16)
    colours[1 : bins.count + 1] = bin_colours(bins)
    road, shown = road_pixels(mask), image.copy()
    shown[road] = (image[road] + colours[mask[road]]) // 2
    row, col = np.nonzero(mask == IGNORE)
    stripe = (row + col) // max(1, round(_STRIPE_PX / 4 * max(mask.shape) / _SCENE_PX)) % 4
    shown[row, col] = np.where(stripe[:, np.newaxis] == 0, _PALE, _DARK)
    return shown


def _add_outline(
    panel: Axes, example: Example, window: Window, moved_m: tuple[float, float], colour: str
) -> None:
    """Draw the outlines of roads in a window, moved to the right and down."""
    right, down = (
        metres / size for metres, size in zip(moved_m, example.grid.pixel_size_m, strict=True)
    )
    # Roads from outside of the window come in when they are moved.
    away = math.ceil(max(abs(right), abs(down))) + 1
    row, col = max(window.row - away, 0), max(window.col - away, 0)
    part = example.mask[
        row : window.row + window.height + away, col : window.col + window.width + away
    ]
    road = road_pixels(part)
    if min(road.shape) > 1 and road.any() and not road.all():
        x, y = np.arange(road.shape[1]) + col + 0.5, np.arange(road.shape[0]) + row + 0.5
        for width, ink in ((3.0, INK), (1.6, colour)):
            panel.contour(x + right, y + down, road, [0.5], colors=[ink], linewidths=width)
        row, col, height, width_px = window
        panel.set(xlim=(col, col + width_px), ylim=(row + height, row))


def _busiest(example: Example) -> Window:
    """Return the part around the most road, which is often a junction."""
    side_px = [_CLOSE_M / size_m for size_m in reversed(example.grid.pixel_size_m)]
    core = densest_window(example.mask, (round(side_px[0] / 2) or 1, round(side_px[1] / 2) or 1))
    return core.around(round(side_px[0]) or 1, round(side_px[1]) or 1, example.mask.shape)


def _is_off(shift: Shift) -> bool:
    return shift.is_sure and shift.length_m > WORTH_M


def _write_caption(figure: Figure, example: Example, place: tuple[int, int]) -> None:
    lines = [(f"{example.road_share:.1%} road", INK)]
    if example.shift is not None:
        colour = _ALARM if _is_off(example.shift) else INK
        lines.append((_shift_text(example.shift), colour))
    _write(figure, place, example.name, size=_NAME_PT)
    for number, (line, colour) in enumerate(lines, 1):
        _write(figure, (place[0], place[1] + number * _LINE_PX + 4), line, color=colour)


def _write(
    figure: Figure, place: tuple[int, int], text: str, *, size: float = _TEXT_PT, color: str = INK
) -> None:
    """Write a line at a place in pixels, without its middle if it is too long."""
    half = round(_LETTERS / size) // 2
    if len(text) > 2 * half:
        text = f"{text[:half]}…{text[-half:]}"
    width, height = figure.bbox.size
    x, y = place[0] / width, 1 - place[1] / height
    figure.text(x, y, text, fontsize=size, color=color, va="top", parse_math=False)


def _shift_text(shift: Shift) -> str:
    if not shift.is_sure:
        return "shift of the labels: cannot be measured here"
    across = "" if shift.along_deg is None else " across the roads"
    across_m = f"{abs(shift.x_m):.1f} m {'right' if shift.x_m > 0 else 'left'}"
    down_m = f"{abs(shift.y_m):.1f} m {'down' if shift.y_m > 0 else 'up'}"
    moved = f"; to align: {across_m} and {down_m}" if _is_off(shift) else ""
    return f"labels {shift.length_m:.1f} m off{across}{moved}"


def _draw_key(figure: Figure, bins: SpeedBins) -> None:
    """Draw the speed bins as a bar with their limits, and the other items of the key."""
    _write(figure, (_EDGE_PX, 14), f"speed, {speed_unit()}")
    width, height = figure.bbox.size
    bar = figure.add_axes((125 / width, 1 - 30 / height, 320 / width, 16 / height))
    bar.imshow([bin_colours(bins)], extent=(0, bins.count, 0, 1), aspect="auto")
    step = math.ceil(bins.count / 10)
    limits = range(step, bins.count, step)
    bar.set_xticks(limits, [bins.shown_edges[limit - 1] for limit in limits], fontsize=9)
    bar.set_yticks([])
    bar.spines[:].set_visible(False)
    items = {"labels": _LABELS, "labels after this shift": _MOVED, "no data": "#464646"}
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in items.items()],
        ncols=len(items),
        loc="upper left",
        bbox_to_anchor=(465 / width, 1 - 4 / height),
        fontsize=_TEXT_PT,
        frameon=False,
    )
