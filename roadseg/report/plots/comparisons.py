"""A scene in three panels: its labels, the probability of road, and the predicted roads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from roadseg.arrays import Bools, Bytes
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.report.plots.figures import (
    INK,
    PAPER,
    SMALL_PT,
    TALLEST,
    TEXT_PT,
    new_figure,
    save_figure,
)
from roadseg.roads.colours import as_hex, bin_colours
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins
from roadseg.roads.tracing.trace import PixelSource
from roadseg.system.units import road_text

_WIDTH_IN, _DPI, _PANELS, _PANEL_PX = 8.9, 360, 3, 1000
_STRIP_PX = 512  # Rows of a scene that are read together.
# Inches: beside and between panels, of a title above, and of a row of the key.
_EDGE_IN, _GAP_IN, _TITLE_IN, _ROW_IN = 0.04, 0.08, 0.22, 0.17
_KEY_COLUMNS = 6
# Width of a road: metres on the ground, and points on paper at least and at most.
_ROAD_M, _ROAD_PT = 6.0, (0.8, 2.2)
_PT_PER_IN = 72
_RIM = withStroke(linewidth=2.6, foreground=INK)


@dataclass(frozen=True)
class SceneImage:
    """A scene below its roads.

    Attributes:
        grid: grid of the scene, in full resolution.
        image: the scene, reduced or not, shape (row, col, 3).
    """

    name: str
    grid: Grid
    image: Bytes

    @property
    def size_m(self) -> tuple[float, float]:
        """Lengths of a row and of a column on the ground."""
        width_m, height_m = self.grid.pixel_size_m
        return self.grid.width * width_m, self.grid.height * height_m


def draw_comparison(
    path: Path, scene: SceneImage, pixels: PixelSource, labels: RoadGraph, predicted: RoadGraph
) -> None:
    """Draw labels, probability of road, and predicted roads side by side, for the screen.

    Roads have the colours of the speed bins of the probability, or of the default bins.

    Args:
        pixels: the probabilities of the scene, of which a strip is read at a time.
        labels: in the metric CRS of the scene, with `speed_kph`.
        predicted: the same.

    Raises:
        OutputError: if the file cannot be written.
    """
    bins = pixels.speed_bins or DEFAULT_BINS
    figure, (left, middle, right) = _new_sheet(scene, _speed_key(bins, labels, predicted))
    for panel, graph, name in ((left, labels, "labels"), (right, predicted, "found")):
        title = f"{name}: {road_text(graph.length_m.sum() / 1000)}"
        _show(panel, scene.grid, scene.image, title, interpolation="bilinear")
        _add_roads(panel, scene, graph, bins)
    title = f"{scene.name}: probability of road"
    _show(middle, scene.grid, _thinned(pixels), title, cmap="magma", vmin=0, vmax=CERTAIN)
    save_figure(figure, path)


def _thinned(pixels: PixelSource) -> Bytes:
    """Return as many of the probabilities of road as a panel shows, shape (row, col)."""
    height, width = pixels.grid.height, pixels.grid.width
    thin = max(1, max(height, width) // _PANEL_PX)
    strip = thin * max(1, _STRIP_PX // thin)
    rows = [(row, min(strip, height - row)) for row in range(0, height, strip)]
    read = [pixels.read_road(Window(row, 0, rest, width))[::thin, ::thin] for row, rest in rows]
    return np.concatenate(read)


def _new_sheet(scene: SceneImage, key: Sequence[Line2D]) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with three panels of the shape of a scene above a key."""
    key_in = math.ceil(len(key) / _KEY_COLUMNS) * _ROW_IN + 0.05
    aspect = scene.size_m[1] / scene.size_m[0]
    # Panels fill the width of the paper, unless they would then be taller than a page.
    gaps_in = (_PANELS - 1) * _GAP_IN
    room_in = (_WIDTH_IN - 2 * _EDGE_IN - gaps_in) / _PANELS
    width_in = min(room_in, _WIDTH_IN * TALLEST / aspect)
    height_in = key_in + width_in * aspect + _TITLE_IN
    figure = new_figure(_WIDTH_IN, height_in, dpi=_DPI)
    edge = (1 - (_PANELS * width_in + gaps_in) / _WIDTH_IN) / 2
    places = {"left": edge, "right": 1 - edge, "bottom": key_in / height_in}
    places |= {"top": 1 - _TITLE_IN / height_in, "wspace": _GAP_IN / width_in}
    figure.legend(
        handles=list(key),
        loc="lower center",
        ncols=min(_KEY_COLUMNS, max(len(key), 1)),
        fontsize=SMALL_PT,
        frameon=False,
        borderaxespad=0.1,
        borderpad=0.1,
        labelspacing=0.3,
    )
    return figure, figure.subplots(1, _PANELS, gridspec_kw=places)


def _show(panel: Axes, grid: Grid, pixels: Bytes, title: str, **how: Any) -> None:  # noqa: ANN401
    """Show pixels in a panel, in which a place is a column and a row of the grid."""
    panel.imshow(pixels, extent=(0, grid.width, grid.height, 0), aspect="auto", **how)
    panel.set(xticks=[], yticks=[])
    panel.set_title(title, fontsize=TEXT_PT, loc="left", pad=3)


def _add_roads(panel: Axes, scene: SceneImage, graph: RoadGraph, bins: SpeedBins) -> None:
    """Draw roads in the colours of their speeds, with a thin dark rim; inferred ones are dashed."""
    width_in = panel.get_position().width * _WIDTH_IN
    width_pt = float(np.clip(_ROAD_M * width_in * _PT_PER_IN / scene.size_m[0], *_ROAD_PT))
    on_grid = shapely.transform(graph.lines, lambda xy: scene.grid.from_metric(xy)[:, ::-1])
    colours = np.array(bin_colours(bins))[_bins_of(graph, bins) - 1] / 255
    is_inferred = np.asarray(graph.column("inferred", 0.0), dtype=np.bool_)

    def add(chosen: Bools, wider_pt: float, colour: Any = None, **style: Any) -> None:  # noqa: ANN401
        lines = [shapely.get_coordinates(line) for line in on_grid[chosen]]
        shown = colours[chosen] if colour is None else colour
        if lines:  # A collection without any would have no limits.
            style = {"linewidths": width_pt + wider_pt, "colors": shown, **style}
            panel.add_collection(LineCollection(lines, **style), autolim=False)

    add(~is_inferred, 0.9, INK, capstyle="round")
    add(~is_inferred, 0, capstyle="round")
    add(is_inferred, 1.1, INK, capstyle="round")
    add(is_inferred, 0.3, PAPER, capstyle="round")
    add(is_inferred, 0, capstyle="butt", linestyles=(0, (1.6, 1.0)))


def _speed_key(bins: SpeedBins, *graphs: RoadGraph) -> list[Line2D]:
    """Return a line with a dark rim for each speed bin of the graphs."""
    numbers = np.unique(np.concatenate([_bins_of(graph, bins) for graph in graphs])).tolist()
    return [
        Line2D(
            *([], []),
            color=as_hex(bin_colours(bins)[number - 1]),
            label=bins.shown_names[number - 1],
            linewidth=1.8,
            path_effects=[_RIM],
        )
        for number in numbers
    ]


def _bins_of(graph: RoadGraph, bins: SpeedBins) -> Bytes:
    return bins.bin_of(graph.attributes["speed_kph"] / KPH_PER_MPH)
