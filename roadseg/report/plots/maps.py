"""Maps: a scene, its road graph, and the errors of the graph for print; both sides side by side."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MapPath
from matplotlib.patheffects import withStroke

from roadseg.arrays import Bools, Bytes, Floats
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN
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
from roadseg.report.plots.map_marks import add_marks, extent_in
from roadseg.roads.colours import FALSE, FOUND, MISSED, as_hex, bin_colours
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins
from roadseg.system.units import road_text

Colour = str | tuple[float, float, float]

# Inches: beside and between panels, of a title above, and of a row of the key.
_EDGE_IN, _GAP_IN, _TITLE_IN, _ROW_IN = 0.04, 0.08, 0.22, 0.17
_ENTRY_IN = 1.35  # Inches; width of an entry of the key.
# Width of a road: metres on the ground, and points on paper at least and at most.
_ROAD_M, _ROAD_PT = 6.0, (0.8, 2.2)
_PT_PER_IN = 72
_PALE = (0.45, 138.0)  # Factor of the brightness of a greyed image, and the value added to it.
_DASHES = (0, (1.6, 1.0))
_VEIL = 0.6  # Opacity of the white over training ground.
_RIM = withStroke(linewidth=2.6, foreground=INK)
_ALL = slice(None)
_SCREEN, _PANEL_PX = Paper(8.9, 360), 1000  # For three panels beside each other.


@dataclass(frozen=True)
class Ground:
    """The scene below the roads of a map.

    Attributes:
        grid: grid of the scene, in full resolution.
        image: image of the scene, thinned or not, shape (row, col, 3), or None.
        held_out: held-out part, x and y in columns and rows of the grid; None if that is the whole
            scene, or not known.
    """

    name: str
    grid: Grid
    image: Bytes | None = None
    held_out: shapely.Geometry | None = None

    @property
    def width_m(self) -> float:
        """Length of a row on the ground."""
        return self.grid.width * self.grid.pixel_size_m[0]

    @property
    def height_m(self) -> float:
        """Length of a column on the ground."""
        return self.grid.height * self.grid.pixel_size_m[1]


@dataclass(frozen=True)
class Errors:
    """Predicted roads of a place compared with labels.

    Attributes:
        missed: labelled roads that are not predicted.
        false: predicted roads that are not labelled.
        tolerance_m: distance up to which roads are the same.
    """

    predicted: RoadGraph
    missed: RoadGraph
    false: RoadGraph
    tolerance_m: float


def draw_scene(
    path: Path, ground: Ground, labels: RoadGraph | None, *, bins: SpeedBins, paper: Paper
) -> None:
    """Draw a scene twice: plain, and with its labels coloured by speed.

    Args:
        labels: in the metric CRS of the scene, with `speed_kph`; None if there are none.

    Raises:
        OutputError: if the file cannot be written.
    """
    known = [] if labels is None else [labels]
    key = _speed_key(bins, *known)
    with _sheet(path, ground, paper, panels=1 + len(known), key=key) as panels:
        _add_title(panels[0], ground.name)
        for panel in panels:
            _add_image(panel, ground, greyed=False)
        for graph, panel in zip(known, panels[1:], strict=True):
            _add_speeds(panel, ground, graph, bins)
            _add_title(panel, f"labels, {_km(graph)}")
        _add_marks(panels[0], ground)


def draw_graph(
    path: Path, ground: Ground, graph: RoadGraph, *, bins: SpeedBins, paper: Paper
) -> None:
    """Draw a graph over the greyed scene, coloured by speed; inferred edges are dashed.

    Args:
        graph: in its metric CRS, with `speed_kph`, and `inferred` where that is known.

    Raises:
        OutputError: if the file cannot be written.
    """
    is_inferred = _inferred(graph)
    key = _speed_key(bins, graph)
    if is_inferred.any():
        label = f"inferred, {_km(graph, is_inferred)}"
        key.append(Line2D([], [], color=INK, label=label, linewidth=1.8, linestyle=_DASHES))
    with _sheet(path, ground, paper, panels=1, key=key + _training_key(ground)) as (panel,):
        _add_image(panel, ground, greyed=True)
        _pale_training(panel, ground)
        _add_speeds(panel, ground, graph, bins)
        _add_title(panel, f"{ground.name}: {_km(graph)} of road")
        _add_marks(panel, ground)


def draw_errors(path: Path, ground: Ground, errors: Errors, *, paper: Paper) -> None:
    """Draw found, missed and false roads over the greyed scene.

    Raises:
        OutputError: if the file cannot be written.
    """
    right_km = (errors.predicted.length_m.sum() - errors.false.length_m.sum()) / 1000
    found, missed, false = map(as_hex, (FOUND, MISSED, FALSE))
    key = [
        Line2D([], [], color=found, label=f"found, {road_text(right_km)}", linewidth=1.8),
        Line2D([], [], color=missed, label=f"missed, {_km(errors.missed)}", linewidth=1.8),
        _rimmed_line(false, f"false, {_km(errors.false)}"),
    ]
    with _sheet(path, ground, paper, panels=1, key=key + _training_key(ground)) as (panel,):
        _add_image(panel, ground, greyed=True)
        _pale_training(panel, ground)
        width = _road_pt(panel, ground)
        for graph, colour, times in (
            (errors.predicted, found, 1.0),
            (errors.missed, missed, 1.3),
            (errors.false, false, 1.3),
        ):
            lines = _on_grid(ground, graph)
            if colour == false:
                _add_lines(panel, lines, times * width + 0.8, INK)
            _add_lines(panel, lines, times * width, colour)
        _add_title(
            panel, f"{ground.name}: labels and prediction, the same within {errors.tolerance_m:g} m"
        )
        _add_marks(panel, ground)


def draw_comparison(
    path: Path, ground: Ground, probability: Probability, labels: RoadGraph, predicted: RoadGraph
) -> None:
    """Draw labels, probability of road, and predicted roads side by side, for the screen.

    Roads have the colours of the speed bins of the probability, or of the default bins.

    Args:
        labels: in the metric CRS of the scene, with `speed_kph`.
        predicted: the same.

    Raises:
        OutputError: if the file cannot be written.
    """
    bins = probability.speed_bins or DEFAULT_BINS
    key = _speed_key(bins, labels, predicted)
    with _sheet(path, ground, _SCREEN, panels=3, key=key) as (left, middle, right):
        for panel, graph, name in ((left, labels, "labels"), (right, predicted, "found")):
            _add_image(panel, ground, greyed=False)
            _add_speeds(panel, ground, graph, bins)
            _add_title(panel, f"{name}: {_km(graph)}")
        # A panel shows no more pixels than it has.
        thin = max(1, max(probability.road.shape) // _PANEL_PX)
        shown = probability.road[::thin, ::thin]
        _show(middle, ground.grid, shown, cmap="magma", vmin=0, vmax=CERTAIN)
        _add_title(middle, f"{ground.name}: probability of road")


@contextmanager
def _sheet(
    path: Path, ground: Ground, paper: Paper, *, panels: int, key: Sequence[Line2D]
) -> Iterator[list[Axes]]:
    """Yield panels of the shape of the ground above a key; write them when the block ends well."""
    columns = max(1, int(paper.width_in / _ENTRY_IN))
    key_in = math.ceil(len(key) / columns) * _ROW_IN + 0.05
    aspect = ground.height_m / ground.width_m
    # Panels fill the width of the paper, unless they would then be taller than a page.
    gaps_in = (panels - 1) * _GAP_IN
    room_in = (paper.width_in - 2 * _EDGE_IN - gaps_in) / panels
    width_in = min(room_in, paper.width_in * TALLEST / aspect)
    figure = new_figure(paper, key_in + width_in * aspect + _TITLE_IN)
    left_in = (paper.width_in - panels * width_in - gaps_in) / 2
    places_in = [
        (left_in + number * (width_in + _GAP_IN), key_in, width_in, width_in * aspect)
        for number in range(panels)
    ]
    figure.legend(
        handles=list(key),
        loc="lower center",
        ncols=min(columns, max(len(key), 1)),
        fontsize=SMALL_PT,
        frameon=False,
        borderaxespad=0.1,
        borderpad=0.1,
        labelspacing=0.3,
    )
    yield [_add_panel(figure, place_in, ground.grid) for place_in in places_in]
    save_figure(figure, path)


def _add_panel(figure: Figure, place_in: tuple[float, float, float, float], grid: Grid) -> Axes:
    """Add a panel in which a place is a column and a row of the grid."""
    left, bottom, width, height = place_in
    whole_in = figure.get_size_inches()
    place = (left / whole_in[0], bottom / whole_in[1], width / whole_in[0], height / whole_in[1])
    panel = figure.add_axes(place)
    panel.set(xlim=(0, grid.width), ylim=(grid.height, 0), xticks=[], yticks=[])
    return panel


def _add_image(panel: Axes, ground: Ground, *, greyed: bool) -> None:
    if ground.image is None:
        return
    shown = ground.image
    if greyed:
        factor, more = _PALE
        grey = (ground.image.mean(axis=-1, dtype=np.float32) * factor + more).astype(np.uint8)
        shown = np.repeat(grey[..., np.newaxis], 3, axis=-1)
    _show(panel, ground.grid, shown, interpolation="bilinear")


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


def _pale_training(panel: Axes, ground: Ground) -> None:
    """Pale the training ground of a scene that was not held out as a whole."""
    if ground.held_out is None:
        return
    scene = shapely.box(0, 0, ground.grid.width, ground.grid.height)
    # In a path, holes have to run in the opposite direction to outlines, or they are filled.
    trained = shapely.orient_polygons(shapely.difference(scene, ground.held_out))
    rings = [shapely.get_coordinates(ring) for ring in shapely.get_rings(trained)]
    area = MapPath.make_compound_path(*map(MapPath, rings))
    panel.add_patch(PathPatch(area, facecolor=PAPER, alpha=_VEIL, linewidth=0))
    _add_lines(panel, rings, 0.8, INK)


def _add_title(panel: Axes, text: str) -> None:
    panel.set_title(text, fontsize=TEXT_PT, loc="left", pad=3)


def _add_marks(panel: Axes, ground: Ground) -> None:
    """Draw scale bar and north arrow, if the scene has a georeference."""
    if not ground.grid.is_local:
        add_marks(panel, ground.grid)


def _speed_key(bins: SpeedBins, *graphs: RoadGraph) -> list[Line2D]:
    """Return an entry of the key for each speed bin of the graphs."""
    numbers = {number for graph in graphs for number in _bins_of(graph, bins).tolist()}
    colours = np.array(bin_colours(bins)) / 255
    return [
        _rimmed_line((*colours[number - 1].tolist(),), bins.shown_names[number - 1])
        for number in sorted(numbers)
    ]


def _training_key(ground: Ground) -> list[Line2D]:
    if ground.held_out is None:
        return []
    square = Line2D([], [], color=INK, label="trained on", linestyle="none", marker="s")
    square.set(markersize=7, markerfacecolor=PAPER, markeredgewidth=0.8)
    return [square]


def _rimmed_line(colour: Colour, label: str) -> Line2D:
    """Return an entry of the key: a line with a dark rim."""
    return Line2D([], [], color=colour, label=label, linewidth=1.8, path_effects=[_RIM])


def _km(graph: RoadGraph, part: Bools | slice = _ALL) -> str:
    return road_text(graph.length_m[part].sum() / 1000)


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
