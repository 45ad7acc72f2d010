"""Figures: their size and colours, how they are written, and the marks of maps in them."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar
from pyproj import CRS, Proj

from roadseg.arrays import Bytes
from roadseg.raster.grid import DEGREES, transformer
from roadseg.system.files import atomic_write
from roadseg.system.units import map_unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TALLEST = 1.25  # Largest height of a figure, in widths of the paper.
TEXT_PT, SMALL_PT = 8, 7
INK, PAPER = "#1A1A1A", "white"
# Source: Okabe and Ito (2008), colours that are distinct to colour-blind people too.
BLUE, GREEN = "#0072B2", "#009E73"
AMBER, ORANGE, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
GREY = "#8C8C8C"
_PNG_LEVEL = 3  # Of compression: twice as fast as Pillow's 6, and photos are 3 % larger at most.

_RGB = 3
_SCREEN_DPI = 100
_SETTINGS: Any = {"pdf.fonttype": 42}  # Text stays text.
_UNDATED: dict[str, dict[str, None]] = {".png": {}, ".pdf": {"CreationDate": None}}
_BAR = 0.25  # Longest scale bar, relative to the width of the map.
_ROUND = (1, 2, 5)
_DIGITS = 6  # Decimals to which the length of a bar is rounded in its unit.
_RIM = withStroke(linewidth=2.4, foreground=PAPER)


def new_figure(width_in: float, height_in: float, *, dpi: int) -> "Figure":
    """Return an empty figure, on which texts can be measured."""
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
    how: dict[str, Any] = {"pil_kwargs": {"compress_level": _PNG_LEVEL}} if suffix == ".png" else {}
    with atomic_write(path) as partial, mpl.rc_context(_SETTINGS):
        figure.savefig(partial, metadata=_UNDATED[suffix], **how)


def probability_colours(count: int) -> Bytes:
    """Return a number of colours of rising probability; shape (colour, 3), bytes."""
    ramp = colormaps["cividis"](np.linspace(0.1, 1, count))[:, :3]
    return np.asarray(np.rint(ramp * 255), dtype=np.uint8)


def rgb(bands: Bytes) -> Bytes:
    """Return the first three bands of an image, or its first one in grey, shape (3, row, col)."""
    return bands[:_RGB] if len(bands) >= _RGB else bands[[0, 0, 0]]


def add_scale_bar(panel: Axes, width_m: float) -> None:
    """Draw a scale bar at the lower left of a panel of this width on the ground."""
    length_m, text = scale_bar(width_m * _BAR)
    left, right = panel.get_xlim()
    bar = AnchoredSizeBar(
        panel.transData,
        length_m / width_m * (right - left),
        text,
        "lower left",
        color=INK,
        frameon=False,
        label_top=True,
        borderpad=0.8,
        sep=3,
        fontproperties=FontProperties(size=SMALL_PT),
    )
    for label in bar.findobj(Text):
        label.set_path_effects([_RIM])
    for line in bar.findobj(Rectangle):
        line.set(linewidth=2.0, path_effects=[withStroke(linewidth=4.0, foreground=PAPER)])
    panel.add_artist(bar)


def add_north(panel: Axes, crs: CRS, place: tuple[float, float]) -> None:
    """Draw an arrow to true north at the upper right of a map with grid north above.

    Args:
        crs: of the map, projected.
        place: x and y of its middle.
    """
    place_deg = transformer(crs, DEGREES).transform(*place)
    # The convergence is how far true north lies to the left of grid north, degrees.
    turned = Proj(crs).get_factors(*place_deg).meridian_convergence
    mark = panel.text(0.965, 0.97, "\u25b2\nN", transform=panel.transAxes, rotation=turned)
    mark.set(ha="center", va="top", fontsize=SMALL_PT + 1, color=INK, path_effects=[_RIM])


def scale_bar(most_m: float) -> tuple[float, str]:
    """Return the longest bar that fits, of 1, 2 or 5 times a power of ten metres, feet or miles.

    Args:
        most_m: room for it, above 0; a bar of just that length fits.

    Returns:
        Its length in metres and in words: `200 m`, from 1000 m on `2 km`; or `500 ft`, `2 mi`.
    """
    unit_m, unit = map_unit(most_m)
    power = 10.0 ** math.floor(math.log10(most_m / unit_m))
    length = max(power * digit for digit in _ROUND if power * digit * unit_m <= most_m)
    return unit_m * length, f"{round(length, _DIGITS):g} {unit}"
