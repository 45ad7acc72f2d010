"""Figures: their size and colours, and how they are written."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps

from roadseg.arrays import Bytes
from roadseg.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TALLEST = 1.25  # Largest height of a figure, in widths of the paper.
TEXT_PT, SMALL_PT = 8, 7
INK, PAPER = "#1A1A1A", "white"

_SCREEN_DPI = 100
_SETTINGS: Any = {"pdf.fonttype": 42}  # Text stays text.
_UNDATED: dict[str, dict[str, None]] = {".png": {}, ".pdf": {"CreationDate": None}}
PNG_LEVEL = 3  # Of compression: twice as fast as Pillow's 6, and photos are 3 % larger at most.


def new_figure(width_in: float, height_in: float, *, dpi: int) -> "Figure":
    """Return an empty figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_in, height_in), dpi=dpi)
    FigureCanvasAgg(figure)
    return figure


def screen_figure(width_px: float, height_px: float) -> "Figure":
    """Return an empty figure of a number of pixels."""
    return new_figure(width_px / _SCREEN_DPI, height_px / _SCREEN_DPI, dpi=_SCREEN_DPI)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format of the suffix, with text as text and without a date.

    Args:
        path: ends in .png or .pdf.

    Raises:
        OutputError: if the file cannot be written.
    """
    suffix = path.suffix.lower()
    how: dict[str, Any] = {"pil_kwargs": {"compress_level": PNG_LEVEL}} if suffix == ".png" else {}
    with atomic_write(path) as partial, mpl.rc_context(_SETTINGS):
        figure.savefig(partial, metadata=_UNDATED[suffix], **how)


# Source: Okabe and Ito (2008), colours that are distinct to colour-blind people too.
BLUE, GREEN = "#0072B2", "#009E73"
AMBER, ORANGE, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
GREY = "#8C8C8C"

_RGB = 3


def probability_colours(count: int) -> Bytes:
    """Return a number of colours of rising probability; shape (colour, 3), bytes."""
    ramp = colormaps["cividis"](np.linspace(0.1, 1, count))[:, :3]
    return np.asarray(np.rint(ramp * 255), dtype=np.uint8)


def rgb(bands: Bytes) -> Bytes:
    """Return the first three bands of an image, or its first one in grey, shape (3, row, col)."""
    return bands[:_RGB] if len(bands) >= _RGB else bands[[0, 0, 0]]
