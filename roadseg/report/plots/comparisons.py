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

from roadseg.arrays import Bools, Bytes, Floats
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.report.plots.figures import (
    INK,
    PAPER,
    SMALL_PT,
    TALLEST,
    TEXT_PT,
    Paper,
    new_figure,
    save_figure,
)
from roadseg.report.plots.map_marks import extent_in
from roadseg.roads.colours import bin_colours
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins
from roadseg.roads.tracing.trace import PixelSource
from roadseg.system.units import road_text

Colour = str | tuple[float, float, float]

_PAPER, _PANELS, _PANEL_PX = Paper(8.9, 360), 3, 1000
_STRIP_PX = 512  # Rows of a scene that are read together.
# Inches: beside and between panels, of a title above, and of a row of the key.
_EDGE_IN, _GAP_IN, _TITLE_IN, _ROW_IN = 0.04, 0.08, 0.22, 0.17
_KEY_COLUMNS = 6
# Width of a road: metres on the ground, and points on paper at least and at most.
_ROAD_M, _ROAD_PT = 6.0, (0.8, 2.2)
_PT_PER_IN = 72
_DASHES = (0, (1.6, 1.0))
_RIM = withStroke(linewidth=2.6, foreground=INK)


@dataclass(frozen=True)
class Ground:
    """The scene below its roads.

    Attributes:
        grid: grid of the scene, in full resolution.
        image: the scene, reduced or not, shape (row, col, 3).
    """

    name: str
    grid: Grid
    image: Bytes

    @property
    def width_m(self) -> float:
        """Length of a row on the ground."""
        return self.grid.width * self.grid.pixel_size_m[0]

    @property
    def height_m(self) -> float:
        """Length of a column on the ground."""
        return self.grid.height * self.grid.pixel_size_m[1]


def draw_comparison(
    path: Path, ground: Ground, pixels: PixelSource, labels: RoadGraph, predicted: RoadGraph
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
    figure, (left, middle, right) = _new_sheet(ground, _speed_key(bins, labels, predicted))
    for panel, graph, name in ((left, labels, "labels"), (right, predicted, "found")):
        _show(panel, ground.grid, ground.image, interpolation="bilinear")
        _add_speeds(panel, ground, graph, bins)
        _add_title(panel, f"{name}: {road_text(graph.length_m.sum() / 1000)}")
    _show(middle, ground.grid, _thinned(pixels), cmap="magma", vmin=0, vmax=CERTAIN)
    _add_title(middle, f"{ground.name}: probability of road")
    save_figure(figure, path)


def _thinned(pixels: PixelSource) -> Bytes:
    """Return as many of the probabilities of road as a panel shows, shape (row, col)."""
    height, width = pixels.grid.height, pixels.grid.width
    thin = max(1, max(height, width) // _PANEL_PX)
    strip = thin * max(1, _STRIP_PX // thin)
    rows = [(row, min(strip, height - row)) for row in range(0, height, strip)]
    read = [pixels.read_road(Window(row, 0, rest, width))[::thin, ::thin] for row, rest in rows]
    return np.concatenate(read)


def _new_sheet(ground: Ground, key: Sequence[Line2D]) -> tuple[Figure, list[Axes]]:
    """Return a figure with three panels of the shape of the ground above a key."""
    key_in = math.ceil(len(key) / _KEY_COLUMNS) * _ROW_IN + 0.05
    aspect = ground.height_m / ground.width_m
    # Panels fill the width of the paper, unless they would then be taller than a page.
    gaps_in = (_PANELS - 1) * _GAP_IN
    room_in = (_PAPER.width_in - 2 * _EDGE_IN - gaps_in) / _PANELS
    width_in = min(room_in, _PAPER.width_in * TALLEST / aspect)
    figure = new_figure(_PAPER, key_in + width_in * aspect + _TITLE_IN)
    left_in = (_PAPER.width_in - _PANELS * width_in - gaps_in) / 2
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
    places_in = [
        (left_in + number * (width_in + _GAP_IN), key_in, width_in, width_in * aspect)
        for number in range(_PANELS)
    ]
    return figure, [_add_panel(figure, place_in, ground.grid) for place_in in places_in]


def _add_panel(figure: Figure, place_in: tuple[float, float, float, float], grid: Grid) -> Axes:
    """Add a panel in which a place is a column and a row of the grid."""
    left, bottom, width, height = place_in
    whole_in = figure.get_size_inches()
    place = (left / whole_in[0], bottom / whole_in[1], width / whole_in[0], height / whole_in[1])
    panel = figure.add_axes(place)
    panel.set(xlim=(0, grid.width), ylim=(grid.height, 0), xticks=[], yticks=[])
    return panel


def _show(panel: Axes, grid: Grid, pixels: Bytes, **how: Any) -> None:  # noqa: ANN401 - of imshow
    panel.imshow(pixels, extent=(0, grid.width, grid.height, 0), aspect="auto", **how)


def _add_speeds(panel: Axes, ground: Ground, graph: RoadGraph, bins: SpeedBins) -> None:
    """Draw roads in the colours of their speeds, with a thin dark rim."""
    width, is_inferred = _road_pt(panel, ground), _inferred(graph)
    colours = np.array(bin_colours(bins)) / 255
    lines, shades = _on_grid(ground, graph), colours[_bins_of(graph, bins) - 1]
    known = np.flatnonzero(~is_inferred).tolist()
    inferred = np.flatnonzero(is_inferred).tolist()
    solid = [lines[row] for row in known]
    _add_lines(panel, solid, width + 0.9, INK)
    _add_lines(panel, solid, width, shades[known])
    dashed = [lines[row] for row in inferred]
    _add_lines(panel, dashed, width + 1.1, INK)
    _add_lines(panel, dashed, width + 0.3, PAPER)
    _add_lines(panel, dashed, width, shades[inferred], is_dashed=True)


def _add_lines(
    panel: Axes,
    lines: list[Floats],
    width_pt: float,
    colours: Colour | Floats,
    *,
    is_dashed: bool = False,
) -> None:
    # A collection without lines would have no limits.
    if lines:
        collection = LineCollection(
            lines,
            linewidths=width_pt,
            colors=colours,
            capstyle="butt" if is_dashed else "round",
            linestyles=_DASHES if is_dashed else "solid",
        )
        panel.add_collection(collection, autolim=False)


def _add_title(panel: Axes, text: str) -> None:
    panel.set_title(text, fontsize=TEXT_PT, loc="left", pad=3)


def _speed_key(bins: SpeedBins, *graphs: RoadGraph) -> list[Line2D]:
    """Return a line with a dark rim for each speed bin of the graphs."""
    numbers = {number for graph in graphs for number in _bins_of(graph, bins).tolist()}
    colours = np.array(bin_colours(bins)) / 255
    return [
        Line2D(
            [],
            [],
            color=(*colours[number - 1].tolist(),),
            label=bins.shown_names[number - 1],
            linewidth=1.8,
            path_effects=[_RIM],
        )
        for number in sorted(numbers)
    ]


def _inferred(graph: RoadGraph) -> Bools:
    """Return which edges are inferred; without this attribute, no edge is."""
    return np.asarray(graph.attributes.get("inferred", np.zeros(len(graph.lines))), dtype=np.bool_)


def _bins_of(graph: RoadGraph, bins: SpeedBins) -> Bytes:
    return bins.bin_of(graph.attributes["speed_kph"] / KPH_PER_MPH)


def _on_grid(ground: Ground, graph: RoadGraph) -> list[Floats]:
    """Return lines in columns and rows of the grid."""
    xy, line = shapely.get_coordinates(graph.lines, return_index=True)
    starts = np.flatnonzero(np.diff(line)) + 1
    lines = np.split(ground.grid.from_metric(xy)[:, ::-1], starts)
    return lines if len(graph.lines) else []


def _road_pt(panel: Axes, ground: Ground) -> float:
    """Return how wide a road is on paper, in points."""
    left_in, _, right_in, _ = extent_in(panel)
    return float(np.clip(_ROAD_M * (right_in - left_in) * _PT_PER_IN / ground.width_m, *_ROAD_PT))
