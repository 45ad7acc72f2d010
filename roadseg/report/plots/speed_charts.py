"""Speed charts: how many kilometres of road there are of each speed."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from roadseg.arrays import Floats
from roadseg.report.plots.colours import AMBER, BLUE
from roadseg.report.plots.figures import (
    INK,
    SMALL_PT,
    TEXT_PT,
    Paper,
    new_figure,
    save_figure,
)
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins
from roadseg.system.units import road_unit, speed_unit, to_road_unit

_HEIGHT = 0.42  # Height of a chart, in its widths.
_FILLINGS = ((AMBER, "////"), (BLUE, None))  # Colour and hatch of each network; the last is plain.
_ROOM = 0.8  # Share of the place of a bin that its bars take.


def draw_speeds(
    path: Path, graphs: Mapping[str, RoadGraph], *, title: str, bins: SpeedBins, paper: Paper
) -> None:
    """Draw the length of road in each speed bin as bars, one or two networks side by side.

    Args:
        path: file to write, .png, .pdf or .svg.
        graphs: one network or two by name, with `speed_kph`.
        title: what they are of.
        bins: the speed bins.
        paper: size of the figure.

    Raises:
        OutputError: if the file cannot be written.
    """
    figure = new_figure(paper, paper.width_in * _HEIGHT)
    axis = figure.add_axes((0.075, 0.16, 0.915, 0.75))
    width = _ROOM / len(graphs)
    for number, (name, graph) in enumerate(graphs.items()):
        lengths = road_km(graph, bins) * to_road_unit(1)
        places = np.arange(bins.count) + (number - (len(graphs) - 1) / 2) * width
        # A network alone has the plain filling.
        colour, hatch = _FILLINGS[number - len(graphs)]
        bars = axis.bar(
            places,
            lengths,
            width,
            label=f"{name}, {lengths.sum():.2f} {road_unit()}",
            color=colour,
            hatch=hatch,
            edgecolor=INK,
            linewidth=0.6,
        )
        axis.bar_label(
            bars, [f"{one:.2f}" if one else "" for one in lengths], fontsize=6, padding=1
        )
    # The axis names the unit, so the bins do not: `10 to 20`, `above 60`.
    axis.set_xticks(range(bins.count), [name.rpartition(" ")[0] for name in bins.shown_names])
    axis.set_xlabel(f"speed, {speed_unit()}", fontsize=TEXT_PT)
    axis.set_ylabel(f"roads, {road_unit()}", fontsize=TEXT_PT)
    axis.tick_params(labelsize=SMALL_PT, length=2)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=SMALL_PT, frameon=False)
    axis.set_title(title, fontsize=TEXT_PT, loc="left", pad=3)
    save_figure(figure, path)


def road_km(graph: RoadGraph, bins: SpeedBins) -> Floats:
    """Return the kilometres of road in each speed bin, shape (bins,)."""
    numbers = bins.bin_of(graph.attributes["speed_kph"] / KPH_PER_MPH)
    km = np.bincount(numbers, graph.length_m / 1000, minlength=bins.count + 1)
    return np.asarray(km[1:], dtype=np.float64)
