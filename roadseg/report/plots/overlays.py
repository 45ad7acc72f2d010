"""Overlays: small images of a scene with its labels."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

from roadseg.arrays import Bytes
from roadseg.raster.windows import Window
from roadseg.report.plots.figures import font, rgb
from roadseg.report.plots.map_marks import bar_text, scale_bar_m
from roadseg.roads.colours import Rgb
from roadseg.roads.masks.burning import IGNORE, road_pixels

_SOFT = 2  # Outlines are drawn this many times larger, then reduced, for smooth lines.
_STRENGTH = 0.5  # Opacity of the colour of a road over the image.
_HATCH_PX = 8
_BAR = 0.3  # Longest scale bar, relative to the width of the picture.
_WHITE, _BLACK, _DARK, _PALE = (255, 255, 255), (0, 0, 0), (70, 70, 70), (150, 150, 150)


def draw_labels(
    image: Bytes,
    mask: Bytes,
    *,
    pixel_m: tuple[float, float],
    side_px: int,
    colours: Sequence[Rgb],
    frame: Window,
) -> Image.Image:
    """Draw a scene with coloured roads, hatched unknown ground and a scale bar.

    Args:
        image: shape (band, row, col); the first three bands are shown, or the first alone.
        mask: shape (row, col), 0 background, else a speed bin, 255 not known.
        pixel_m: ground size of a pixel as (along a row, along a column).
    """
    shown = _pixels(image)
    palette = np.zeros((IGNORE + 1, 3), dtype=np.float32)
    palette[1 : len(colours) + 1] = colours
    road = road_pixels(mask)
    shown[road] = shown[road] * (1 - _STRENGTH) + palette[mask[road]] * _STRENGTH
    size = _size(mask.shape, pixel_m, side_px)
    picture = Image.fromarray(shown).resize(size, Image.Resampling.BOX)
    unknown = Image.fromarray(mask == IGNORE).convert("L").resize(size, Image.Resampling.BOX)
    picture.paste(hatch(size), mask=unknown)
    rows, cols = size[1] / mask.shape[0], size[0] / mask.shape[1]
    top, left = frame.row * rows, frame.col * cols
    box = (left, top, left + frame.width * cols - 1, top + frame.height * rows - 1)
    ImageDraw.Draw(picture).rectangle(box, outline=_WHITE)
    _draw_scale_bar(picture, mask.shape[1] * pixel_m[0])
    return picture


def draw_outlines(
    image: Bytes,
    mask: Bytes,
    *,
    pixel_m: tuple[float, float],
    side_px: int,
    window: Window,
    moves_m: Sequence[tuple[Rgb, tuple[float, float]]],
) -> Image.Image:
    """Draw a part of a scene enlarged, with the outlines of its roads and a scale bar.

    Args:
        image: shape (band, row, col); the first three bands are shown, or the first alone.
        mask: shape (row, col), 0 background, 255 not known, road otherwise.
        pixel_m: ground size of a pixel as (along a row, along a column).
        moves_m: colours of outlines, and how far right and down their roads are moved.
    """
    row, col, height, width = window
    part = _pixels(image[:, row : row + height, col : col + width])
    size = _size((height, width), pixel_m, side_px * _SOFT)
    picture = Image.fromarray(part).resize(size, Image.Resampling.BICUBIC)
    road = road_pixels(mask).astype(np.uint8) * np.uint8(255)
    for colour, (right_m, down_m) in moves_m:
        # The whole mask is moved, so that roads from outside the window come in.
        by = (down_m / pixel_m[1], right_m / pixel_m[0])
        moved = ndimage.shift(road, by, order=1) if any(by) else road
        there = Image.fromarray(moved[row : row + height, col : col + width])
        smooth = there.resize(size, Image.Resampling.BICUBIC)
        picture.paste(_BLACK, mask=_line(smooth, 7).point(lambda value: value // 2))
        picture.paste(colour, mask=_line(smooth, 5))
    small = picture.resize(_size((height, width), pixel_m, side_px), Image.Resampling.BOX)
    _draw_scale_bar(small, width * pixel_m[0])
    return small


def hatch(size: tuple[int, int]) -> Image.Image:
    """Return pale diagonal lines on dark ground, the pattern of unknown ground."""
    rows, cols = np.mgrid[: size[1], : size[0]]
    lines = (rows + cols) % _HATCH_PX < _HATCH_PX // 4
    return Image.fromarray(np.where(lines[..., np.newaxis], _PALE, _DARK).astype(np.uint8))


def _pixels(image: Bytes) -> Bytes:
    return np.moveaxis(rgb(image), 0, -1).copy(order="C")


def _size(shape: tuple[int, ...], pixel_m: tuple[float, float], side_px: int) -> tuple[int, int]:
    """Return width and height that keep the proportions of the ground."""
    width_m, height_m = shape[1] * pixel_m[0], shape[0] * pixel_m[1]
    scale = side_px / max(width_m, height_m)
    return max(1, round(width_m * scale)), max(1, round(height_m * scale))


def _line(area: Image.Image, width: int) -> Image.Image:
    """Return the outline of the bright part of a picture, white on black."""
    inside = area.point(lambda value: 255 * (value > 127))  # noqa: PLR2004 - half
    pixels = np.asarray(inside)
    both = ndimage.maximum_filter(pixels, width) != ndimage.minimum_filter(pixels, width)
    return Image.fromarray(both).convert("L")


def _draw_scale_bar(picture: Image.Image, width_m: float) -> None:
    """Draw a bar of 1, 2 or 5 times a power of ten metres into the lower left corner."""
    length_m = scale_bar_m(width_m * _BAR)
    right = 7 + round(length_m / width_m * picture.width)
    pen = ImageDraw.Draw(picture)
    bottom = picture.height - 8
    pen.rectangle((7, bottom - 4, right + 1, bottom + 1), _BLACK)
    pen.rectangle((8, bottom - 3, right, bottom), _WHITE)
    pen.text(
        (8, bottom - 7),
        bar_text(length_m),
        _WHITE,
        font(14),
        "ls",
        stroke_width=2,
        stroke_fill=_BLACK,
    )
