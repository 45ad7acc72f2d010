"""Map marks: the scale bar and the north arrow of a map."""

import math

from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar
from pyproj import CRS, Proj

from roadseg.raster.grid import DEGREES, transformer
from roadseg.report.plots.figures import INK, PAPER, SMALL_PT
from roadseg.system.units import map_unit

_BAR = 0.25  # Longest scale bar, relative to the width of the map.
_ROUND = (1, 2, 5)
_DIGITS = 6  # Decimals to which the length of a bar is rounded in its unit.
_RIM = withStroke(linewidth=2.4, foreground=PAPER)


def add_scale_bar(panel: Axes, width_m: float) -> None:
    """Draw a scale bar at the lower left of a panel of this width on the ground."""
    length_m = scale_bar_m(width_m * _BAR)
    left, right = panel.get_xlim()
    bar = AnchoredSizeBar(
        panel.transData,
        length_m / width_m * (right - left),
        bar_text(length_m),
        "lower left",
        color=INK,
        frameon=False,
        label_top=True,
        borderpad=0.8,
        sep=3,
        fontproperties=FontProperties(size=SMALL_PT),
    )
    for text in bar.findobj(Text):
        text.set_path_effects([_RIM])
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
