"""Views for notebooks: small maps of graphs, and progress on one line."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import shapely

from roadseg.arrays import Floats
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.system import progress

_MAP_PX = 320  # Larger side of the map of a graph.
_MOST_DRAWN = 20_000  # Edges of such a map; a browser takes seconds for more.
_MARGIN_PX = 4
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # Colour-blind people tell these two apart.


@contextmanager
def progress_in_notebook() -> Iterator[None]:
    """Show how far work inside the block has come, where the caller is a cell of a notebook."""
    display = _display()
    if display is None:
        yield
        return
    handle = display({"text/plain": ""}, raw=True, display_id=True)
    with progress.shown_by(lambda text: handle.update({"text/plain": text}, raw=True)):
        yield
    handle.update({"text/plain": ""}, raw=True)


def _display() -> Callable[..., Any] | None:
    """Return IPython's function that shows something below a cell; None outside of notebooks."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    display: Callable[..., Any] = ipython.display.display
    return display


def map_svg(graph: RoadGraph) -> str:
    """Return a small map as SVG, on white; links across gaps have another colour."""
    lines = graph.lines[:_MOST_DRAWN]
    if not len(lines):
        return ""
    west, south, east, north = shapely.total_bounds(lines)
    scale = _MAP_PX / max(east - west, north - south, 1e-9)
    width, height = (east - west) * scale + 2 * _MARGIN_PX, (north - south) * scale + 2 * _MARGIN_PX
    inferred = graph.column("inferred", 0.0)[:_MOST_DRAWN] == 1
    drawn = shapely.simplify(lines, 0.3 / scale)
    corner = np.array([west - _MARGIN_PX / scale, north + _MARGIN_PX / scale])
    strokes = (
        f'<path d="{_path(drawn[chosen], corner, scale)}" fill="none" stroke="{colour}" '
        'stroke-width="1.5"/>'
        for chosen, colour in ((~inferred, _BLUE), (inferred, _ORANGE))
        if chosen.any()
    )
    size = f'width="{width:.0f}" height="{height:.0f}" style="background: white"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(strokes)}</svg>'


def _path(lines: Iterable[shapely.LineString], corner: Floats, scale: float) -> str:
    """Return lines as the path of a drawing, with a decimal of a pixel.

    Args:
        corner: x and y of the upper left corner, in the units of the lines.
        scale: pixels of such a unit.
    """
    parts = []
    for line in lines:
        xy = np.abs((shapely.get_coordinates(line) - corner) * scale)
        parts.append("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in xy.tolist()))
    return "".join(parts)
