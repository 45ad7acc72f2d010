"""Quality sheets: examples of labels over their images, six to a picture."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from roadseg.dataset.quality import Example
from roadseg.dataset.registration import densest_window
from roadseg.dataset.shifts import WORTH_M, Shift, directions
from roadseg.errors import OutputError
from roadseg.raster.windows import Window
from roadseg.report.plots.figures import PNG_LEVEL, font
from roadseg.report.plots.overlays import draw_labels, draw_outlines, hatch
from roadseg.roads.colours import Rgb, bin_colours
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import atomic_write
from roadseg.system.units import speed_unit

_COLUMNS, _ROWS = 3, 2
_SCENE_PX, _CLOSE_PX, _GAP_PX = 420, 206, 8  # Pixels; sides of both pictures, and between them.
_WIDE_PX = _SCENE_PX + _GAP_PX + _CLOSE_PX
_NAME_PX, _TEXT_PX, _LINE_PX = 19, 16, 21
_LINES = 4  # Lines of a caption.
_LEGEND_PX, _EDGE_PX = 58, 24
_LEAST_PX = 880  # Pixels; the legend needs this width of a sheet.
_CLOSE_M = 80.0  # Metres; side of the ground that is shown enlarged.
_INK, _WHITE, _GREY, _ALARM = (40, 40, 40), (255, 255, 255), (215, 215, 215), (190, 40, 0)
_LABELS, _MOVED = (255, 225, 0), (0, 230, 255)


def write_sheets(folder: Path, examples: Sequence[Example], *, bins: SpeedBins) -> list[Path]:
    """Write `sheet_01.png` and so on: each example, and its part with most road enlarged.

    The example has labels in colours of speed, and hatched unknown pixels. The enlarged part is
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
        sheet = _draw_sheet(examples[start : start + on_sheet], bins)
        with atomic_write(paths[-1]) as partial:
            sheet.save(partial, format="PNG", compress_level=PNG_LEVEL)
    for stale in sorted(set(folder.glob("sheet_*.png")) - set(paths)):
        try:
            stale.unlink()
        except OSError as error:
            raise OutputError(f"{stale}: cannot be removed: {error.strerror}") from error
    return paths


def _draw_sheet(examples: Sequence[Example], bins: SpeedBins) -> Image.Image:
    columns, rows = min(len(examples), _COLUMNS), -(-len(examples) // _COLUMNS)
    wide, high = _WIDE_PX + _EDGE_PX, _SCENE_PX + _LINES * _LINE_PX + _EDGE_PX
    colours = bin_colours(bins)
    size = max(columns * wide + _EDGE_PX, _LEAST_PX), rows * high + _LEGEND_PX
    sheet = Image.new("RGB", size, _WHITE)
    _draw_legend(sheet, bins, colours)
    for number, example in enumerate(examples):
        row, column = divmod(number, _COLUMNS)
        left, top = _EDGE_PX + column * wide, _LEGEND_PX + row * high
        _draw_example(sheet, example, colours, (left, top))
    return sheet


def _draw_example(
    sheet: Image.Image, example: Example, colours: Sequence[Rgb], place: tuple[int, int]
) -> None:
    (left, top), pixel_m = place, example.pixel_m
    window = _busiest(example)
    scene = draw_labels(
        example.image,
        example.mask,
        pixel_m=pixel_m,
        side_px=_SCENE_PX,
        colours=colours,
        frame=window,
    )
    _paste(sheet, scene, (left, top), _SCENE_PX)
    for moves, down in (((), 0), (_moves(example.shift), _SCENE_PX - _CLOSE_PX)):
        close = draw_outlines(
            example.image,
            example.mask,
            pixel_m=pixel_m,
            side_px=_CLOSE_PX,
            window=window,
            moves_m=moves,
        )
        _paste(sheet, close, (left + _SCENE_PX + _GAP_PX, top + down), _CLOSE_PX)
    _write_caption(ImageDraw.Draw(sheet), example, (left, top + _SCENE_PX + 4))


def _busiest(example: Example) -> Window:
    """Return the part around the most road, which is often a junction."""
    shape = example.mask.shape
    side_px = [_CLOSE_M / size_m for size_m in reversed(example.pixel_m)]
    core = densest_window(example.mask, (round(side_px[0] / 2) or 1, round(side_px[1] / 2) or 1))
    height, width = (
        min(round(side) or 1, length) for side, length in zip(side_px, shape, strict=True)
    )
    row, col = (
        min(max(start + (inner - outer) // 2, 0), length - outer)
        for start, inner, outer, length in (
            (core.row, core.height, height, shape[0]),
            (core.col, core.width, width, shape[1]),
        )
    )
    return Window(row, col, height, width)


def _paste(sheet: Image.Image, picture: Image.Image, place: tuple[int, int], side: int) -> None:
    """Paste an image into the middle of a grey square."""
    left, top = place
    sheet.paste(_GREY, (left, top, left + side, top + side))
    sheet.paste(picture, (left + (side - picture.width) // 2, top + (side - picture.height) // 2))


def _moves(shift: Shift | None) -> tuple[tuple[Rgb, tuple[float, float]], ...]:
    if shift is None or not _is_off(shift):
        return ((_LABELS, (0.0, 0.0)),)
    return (_LABELS, (0.0, 0.0)), (_MOVED, (shift.x_m, shift.y_m))


def _is_off(shift: Shift) -> bool:
    return shift.is_sure and shift.length_m > WORTH_M


def _write_caption(pen: ImageDraw.ImageDraw, example: Example, place: tuple[int, int]) -> None:
    left, top = place
    pen.text((left, top), _fitted(example.name, _NAME_PX), _INK, font(_NAME_PX))
    lines = [(line, _INK) for line in example.caption]
    if example.shift is not None:
        colour = _ALARM if _is_off(example.shift) else _INK
        lines = [*lines[: _LINES - 2], (_shift_text(example.shift), colour)]
    for number, (line, colour) in enumerate(lines[: _LINES - 1]):
        y = top + _NAME_PX + 6 + number * _LINE_PX
        pen.text((left, y), _fitted(line, _TEXT_PX), colour, font(_TEXT_PX))


def _shift_text(shift: Shift) -> str:
    if not shift.is_sure:
        return "shift of the labels: cannot be measured here"
    across = "" if shift.along_deg is None else " across the roads"
    moved = f"; to align: {directions(shift.x_m, shift.y_m)}" if _is_off(shift) else ""
    return f"labels {shift.length_m:.1f} m off{across}{moved}"


def _fitted(text: str, size_px: int) -> str:
    """Leave out the middle of a text that is too long for its line."""
    if font(size_px).getlength(text) <= _WIDE_PX:
        return text
    letters = next(
        n
        for n in range(len(text) // 2, -1, -1)
        if font(size_px).getlength(text[:n] + "…" + text[len(text) - n :]) <= _WIDE_PX
    )
    return text[:letters] + "…" + text[len(text) - letters :]


def _draw_legend(sheet: Image.Image, bins: SpeedBins, colours: Sequence[Rgb]) -> None:
    """Draw the speed bins as a bar with their limits, and the other items of the legend."""
    pen, x, y = ImageDraw.Draw(sheet), _EDGE_PX, 14
    pen.text((x, y), f"speed, {speed_unit()}", _INK, font(_TEXT_PX))
    x += 100
    cell = max(6, min(46, (sheet.width - 620) // bins.count))
    free, limits = x, bins.shown_edges
    for number, colour in enumerate(colours):
        pen.rectangle((x, y, x + cell - 1, y + 15), colour)
        x += cell
        limit = limits[number] if number < len(limits) else ""
        half = font(13).getlength(limit) / 2
        if limit and x - half >= free:
            pen.text((x, y + 18), limit, _INK, font(13), "mt")
            free = x + int(half) + 5
    for filling, text in (
        (Image.new("RGB", (26, 6), _LABELS), "labels"),
        (Image.new("RGB", (26, 6), _MOVED), "labels after this shift"),
        (hatch((26, 14)), "no data"),
    ):
        x += 28
        pen.rectangle((x, y + 7 - filling.height // 2, x + 27, y + 8 + filling.height // 2), _INK)
        sheet.paste(filling, (x + 1, y + 8 - filling.height // 2))
        pen.text((x + 34, y), text, _INK, font(_TEXT_PX))
        x += 34 + int(font(_TEXT_PX).getlength(text))
