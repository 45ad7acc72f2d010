"""Comparisons: labels, probabilities and the predicted graph, side by side over the scene."""

from pathlib import Path
from typing import Any

import numpy as np
import shapely
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure

from roadseg.arrays import Bytes
from roadseg.raster.grid import Grid
from roadseg.report.plots.figures import rgb, save_figure, screen_figure
from roadseg.roads.colours import bin_colours
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins
from roadseg.system.units import road_text, speed_unit

_SIDE_PX = 1000  # Pixels; side of a panel.
_TITLE_PT, _SMALL_PT = 40, 32


def draw_comparison(
    path: Path,
    image: Bytes,
    probability: Probability,
    reference: RoadGraph,
    predicted: RoadGraph,
) -> None:
    """Write a PNG of three panels: labels, probability of road, predicted roads.

    The title is the stem of the file. Roads have the colours of the speed bins of the probability,
    or of the default bins.

    Args:
        image: the scene or a thinned copy, shape (band, row, col); its first three bands are
            shown, or the first alone.
        reference: roads of the labels in the metric CRS of the scene, with `speed_kph`.
        predicted: roads of the prediction, in the same way.
    """
    grid, bins = probability.grid, probability.speed_bins or DEFAULT_BINS
    figure = screen_figure(3.2 * _SIDE_PX, 1.16 * _SIDE_PX)
    left, middle, right = figure.subplots(1, 3)
    shown = np.moveaxis(rgb(image), 0, -1)
    extent = (0, grid.width, grid.height, 0)
    for axis, graph, name in ((left, reference, "labels"), (right, predicted, "found")):
        axis.imshow(shown, extent=extent)
        _add_roads(axis, grid, graph, bins)
        length = road_text(graph.length_m.sum() / 1000)
        axis.set_title(f"{name}: {length}", fontsize=_SMALL_PT, pad=10)
    # A panel shows no more pixels than it has.
    thin = max(1, max(probability.road.shape) // _SIDE_PX)
    middle.imshow(probability.road[::thin, ::thin], cmap="magma", vmin=0, vmax=255, extent=extent)
    middle.set_title("probability of road", fontsize=_SMALL_PT, pad=10)
    for axis in (left, middle, right):
        axis.set_axis_off()
    _add_key(figure, bins)
    figure.suptitle(path.stem, x=0.003, y=0.993, ha="left", fontsize=_TITLE_PT)
    figure.subplots_adjust(left=0.003, right=0.93, top=0.87, bottom=0.005, wspace=0.01)
    save_figure(figure, path)


def _speed_colours(bins: SpeedBins) -> tuple[ListedColormap, BoundaryNorm]:
    """Return the colours of the numbers of speed bins."""
    limits = np.arange(bins.count + 1) + 0.5
    colours = ListedColormap(np.array(bin_colours(bins)) / 255)
    return colours, BoundaryNorm(limits, bins.count)


def _add_roads(axis: Any, grid: Grid, graph: RoadGraph, bins: SpeedBins) -> None:  # noqa: ANN401 - matplotlib's
    colours, norm = _speed_colours(bins)
    paths = [grid.from_metric(shapely.get_coordinates(line))[:, ::-1] for line in graph.lines]
    axis.add_collection(LineCollection(paths, linewidths=6, colors="black", capstyle="round"))
    drawn = LineCollection(paths, linewidths=4, cmap=colours, norm=norm, capstyle="round")
    drawn.set_array(bins.bin_of(graph.attributes["speed_kph"] / KPH_PER_MPH))
    axis.add_collection(drawn)
    axis.set_xlim(0, grid.width)
    axis.set_ylim(grid.height, 0)


def _add_key(figure: Figure, bins: SpeedBins) -> None:
    colours, norm = _speed_colours(bins)
    place = figure.add_axes((0.953, 0.1, 0.008, 0.7))
    between = np.arange(1, bins.count) + 0.5
    key = figure.colorbar(ScalarMappable(norm, colours), cax=place, ticks=between)
    key.set_ticklabels(bins.shown_edges, fontsize=_SMALL_PT)
    key.set_label(f"speed, {speed_unit()}", fontsize=_SMALL_PT)
