"""One page: a run on a sheet of A4 for a client, with its map, figures, lengths and credits."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from pyproj import CRS

from roadseg.arrays import Bytes, Lines
from roadseg.raster.grid import is_local
from roadseg.report.plots.figures import (
    AMBER,
    INK,
    PAPER,
    add_north,
    add_scale_bar,
    new_figure,
    save_figure,
)
from roadseg.roads.colours import as_hex, speed_colours
from roadseg.roads.labels.highways import UNKNOWN_CLASS
from roadseg.roads.metrics.road_lengths import WHOLE, RoadLengths, road_cell
from roadseg.system.units import road_unit

MAP_PX = 1400  # Pixels of the longer side of the picture, which the width of a page needs.

_PAPER_IN, _HEIGHT_IN, _EDGE_IN, _DPI = 8.27, 11.69, 0.6, 200
_WIDTH_IN = _PAPER_IN - 2 * _EDGE_IN
_TITLE_PT, _FIGURE_PT, _HEAD_PT, _TEXT_PT, _SMALL_PT = 21, 15, 11, 8.5, 7.5
_LINE_IN, _ROW_IN, _HEAD_IN, _GAP_IN = 0.165, 0.215, 0.22, 0.2
_FIGURES_IN, _LEAST_MAP_IN = 0.62, 3.0  # With the space above the figures.
_MOST_CLASSES, _MOST_AREAS = 6, 10  # Of a table; the rest is added up.
_MOST_CREDITS = 6  # Lines.
_NAME_IN, _AREA_IN, _BAR_IN = 1.4, 1.3, 4.2  # Columns of classes and areas; the longest bar.
_MUTED, _RULE, _GROUND = "#5B6670", "#D5DAE0", "#EEF1F4"
# The colour of a class is that of the speed that is usual on it, as elsewhere in a report.
_MPH = {"motorway": 65, "trunk": 55, "primary": 45, "secondary": 35, "tertiary": 30}
_MPH |= {"residential": 25, "unclassified": 20}
_SLOW_MPH = 10
_REST, _ALL = "other", "all"
_ROAD_M, _ROAD_PT = 6.0, (0.7, 2.2)  # Metres on the ground, points on paper at least and at most.
_MANY_LINES = 20_000  # From here on, roads are pixels, so that a viewer shows the page at once.
_PT_PER_IN = 72
_FINE_DPI, _UNITS = 7200, 64  # Texts are measured without the hints of pixels; units of a dot.


@dataclass(frozen=True)
class MapPicture:
    """A map in metres.

    Attributes:
        bounds: west, south, east and north.
        image: what is below the roads, shape (row, col, 4).
        lines: roads.
        classes: `highway` of each road.
    """

    crs: CRS
    bounds: tuple[float, float, float, float]
    image: Bytes
    lines: Lines
    classes: Sequence[str]
    polygons: Mapping[str, shapely.Geometry] = field(default_factory=dict)


@dataclass(frozen=True)
class OnePage:
    """Contents of the page.

    Attributes:
        figures: name, value and unit of each headline number.
        notes: sentences on how far the map can be trusted.
    """

    title: str
    subtitle: str
    picture: MapPicture
    figures: Sequence[tuple[str, str, str]]
    lengths: RoadLengths
    notes: Sequence[str]
    credits: Sequence[str]


def draw_one_page(path: Path, page: OnePage) -> None:
    """Draw the page as a PDF file; the map takes the room that texts and the table leave.

    Raises:
        OutputError: if the file cannot be written.
    """
    sheet = _Sheet(new_figure(_PAPER_IN, _HEIGHT_IN, dpi=_DPI))
    names = _main_classes(page.lengths)
    areas = _area_rows(page.lengths, names) if page.lengths.areas else []
    notes = [line for note in page.notes for line in _wrapped(note, _TEXT_PT)]
    credits_ = [line for each in page.credits for line in _wrapped(each, _SMALL_PT)]
    del credits_[_MOST_CREDITS:]
    rows = len(areas or names) * page.lengths.says_more
    table_in = rows * _ROW_IN + (_HEAD_IN + _GAP_IN) * bool(rows)
    notes_in = len(notes) * _LINE_IN + _HEAD_IN + _GAP_IN
    y = _HEIGHT_IN - _EDGE_IN - 0.24
    sheet.write(page.title, y, size=_TITLE_PT, weight="bold", most_in=_WIDTH_IN)
    sheet.write(page.subtitle, y - 0.24, color=_MUTED, most_in=_WIDTH_IN)
    y -= 0.4
    foot_in = _EDGE_IN + len(credits_) * _LINE_IN
    room_in = y - foot_in - notes_in - table_in - _FIGURES_IN - _GAP_IN
    west, south, east, north = page.picture.bounds
    map_in = min(max(_WIDTH_IN * (north - south) / (east - west), _LEAST_MAP_IN), room_in)
    y -= map_in
    sheet.add_map(page.picture, y, map_in, names)
    y -= _FIGURES_IN
    sheet.add_figures(page.figures, y)
    if rows:
        many = len(page.lengths.areas)
        title = f"Roads by {'area' if areas else 'class'}, {road_unit()}"
        title += f" (the largest {_MOST_AREAS} of {many})" if many > _MOST_AREAS else ""
        y = sheet.add_head(title, y)
        if areas:
            sheet.add_areas(areas, y)
        else:
            km = {name: _km(page.lengths.classes, name, names) for name in names}
            sheet.add_classes(km, y)
        y -= rows * _ROW_IN
    y = sheet.add_head("How far to trust this map", y)
    sheet.add_text(notes, y)
    sheet.rule(foot_in + 0.06)
    sheet.add_text(credits_, foot_in, size=_SMALL_PT, color=_MUTED)
    save_figure(sheet.figure, path)


def class_colour(name: str) -> str:
    """Return the colour of a class of roads: that of its usual speed; one of its own if unknown."""
    if name in (UNKNOWN_CLASS, _REST):
        return AMBER if name == UNKNOWN_CLASS else _MUTED
    return as_hex(speed_colours([_MPH.get(name, _SLOW_MPH)])[0])


def _class_name(name: str) -> str:
    return "Not known" if name == UNKNOWN_CLASS else name.replace("_", " ").capitalize()


def _main_classes(lengths: RoadLengths) -> list[str]:
    """Return the classes that are shown: the longest in their order, then the rest of them."""
    longest = sorted(lengths.classes, key=lambda name: -lengths.classes[name])[:_MOST_CLASSES]
    names = [name for name in lengths.classes if name in longest]
    return [*names, *[_REST] * (len(lengths.classes) > len(names))]


def _km(lengths: Mapping[str, float], name: str, names: Sequence[str]) -> float:
    if name != _REST:
        return lengths.get(name, 0.0)
    return sum(km for each, km in lengths.items() if each not in names)


def _area_rows(lengths: RoadLengths, names: Sequence[str]) -> list[list[str]]:
    """Return the rows of the table of polygons, its head first; those with most road are shown."""
    areas = sorted(lengths.areas.items(), key=lambda each: -sum(each[1].values()))
    rows = [*areas[:_MOST_AREAS], (WHOLE.capitalize(), lengths.classes)]
    names = names if len(names) > 1 else []
    cells = [
        [name, *(road_cell(_km(km, each, names)) for each in names), road_cell(sum(km.values()))]
        for name, km in rows
    ]
    return [["", *names, _ALL], *cells]


@dataclass
class _Sheet:
    """A sheet on which places are inches from its lower left corner.

    Texts are as wide as they are drawn, so none of them is cut off or lies over another.
    """

    figure: Figure

    def write(self, text: str, y: float, *, x: float = _EDGE_IN, **style: Any) -> None:  # noqa: ANN401
        """Write a line with its base at y, shortened to `most_in` inches."""
        size, most = style.pop("size", _TEXT_PT), style.pop("most_in", None)
        weight = style.pop("weight", "normal")
        if most is not None and _width_in(text, size, weight) > most:
            lengths = range(len(text))
            fits = bisect(lengths, most, key=lambda end: _width_in(f"{text[:end]}…", size, weight))
            text = f"{text[: max(fits - 1, 0)].rstrip()}…"
        style = {"color": INK, "va": "baseline", "parse_math": False, **style}
        style |= {"fontsize": size, "fontweight": weight, "transform": self.figure.dpi_scale_trans}
        self.figure.text(x, y, text, **style)

    def rule(self, y: float) -> None:
        """Draw a thin line over the width of the page."""
        self._box(_EDGE_IN, y, _WIDTH_IN, 0.008, _RULE)

    def add_head(self, text: str, y: float) -> float:
        """Write the head of a part below y; return where the part begins."""
        y -= _GAP_IN + _HEAD_IN
        self.write(text, y + 0.07, size=_HEAD_PT, weight="bold")
        return y

    def add_text(self, lines: Sequence[str], y: float, **style: Any) -> None:  # noqa: ANN401
        """Write lines below y."""
        for number, line in enumerate(lines, 1):
            self.write(line, y - number * _LINE_IN + 0.04, **style)

    def add_figures(self, figures: Sequence[tuple[str, str, str]], y: float) -> None:
        """Write headline numbers with their units side by side, each below its name."""
        values = [_width_in(value, _FIGURE_PT, "bold") + 0.05 for _, value, _ in figures]
        widths = [
            max(_width_in(name, _SMALL_PT), width + _width_in(unit, _TEXT_PT))
            for (name, _, unit), width in zip(figures, values, strict=True)
        ]
        gap, x = (_WIDTH_IN - sum(widths)) / max(len(figures), 1), _EDGE_IN
        for (name, value, unit), before, width in zip(figures, values, widths, strict=True):
            if x > _EDGE_IN:
                self._box(x - 0.12, y, 0.008, 0.42, _RULE)
            self.write(name, y + 0.3, x=x, size=_SMALL_PT, color=_MUTED)
            self.write(value, y + 0.02, x=x, size=_FIGURE_PT, weight="bold")
            self.write(unit, y + 0.02, x=x + before, color=_MUTED)
            x += width + gap

    def add_classes(self, lengths: Mapping[str, float], y: float) -> None:
        """Draw a row with a bar for each class below y."""
        most, total = max(lengths.values(), default=1), sum(lengths.values())
        for name, km in lengths.items():
            y -= _ROW_IN
            self._box(_EDGE_IN, y + 0.045, 0.2, 0.1, class_colour(name))
            room_in = _NAME_IN - 0.35
            self.write(_class_name(name), y + 0.05, x=_EDGE_IN + 0.3, most_in=room_in)
            self._box(_EDGE_IN + _NAME_IN, y + 0.045, _BAR_IN * km / most, 0.1, class_colour(name))
            for right, text in ((0.75, road_cell(km)), (0, f"{km / total:.0%}")):
                self.write(text, y + 0.05, x=_EDGE_IN + _WIDTH_IN - right, ha="right")

    def add_areas(self, rows: Sequence[Sequence[str]], y: float) -> None:
        """Draw the table of polygons below y; its last row is a sum."""
        columns = len(rows[0]) - 1
        step = min((_WIDTH_IN - _AREA_IN) / columns, 1.3)
        name_in = _WIDTH_IN - step * columns
        for number, row in enumerate(rows):
            y -= _ROW_IN
            is_head, is_sum = number == 0, number == len(rows) - 1
            style: dict[str, Any] = {"color": _MUTED, "size": _SMALL_PT} if is_head else {}
            style |= {"weight": "bold"} if is_sum else {}
            self.write(row[0], y + 0.06, most_in=name_in - 0.1, **style)
            for column, text in enumerate(row[1:], 1):
                right, room_in = _EDGE_IN + name_in + step * column, step - 0.08
                shown = _class_name(text) if is_head else text
                self.write(shown, y + 0.06, x=right, ha="right", most_in=room_in, **style)
                if is_head and text != _ALL:  # The line below a class has its colour.
                    width = min(_width_in(shown, _SMALL_PT), room_in)
                    self._box(right - width, y, width, 0.035, class_colour(text))
            if not is_sum:
                self.rule(y - 0.008)

    def add_map(self, picture: MapPicture, y: float, height: float, names: Sequence[str]) -> None:
        """Draw the map in the middle of a box as wide as the page."""
        place = (
            *(_EDGE_IN / _PAPER_IN, y / _HEIGHT_IN),
            *(_WIDTH_IN / _PAPER_IN, height / _HEIGHT_IN),
        )
        panel = self.figure.add_axes(place, facecolor=_GROUND)
        west, south, east, north = picture.bounds
        scale = max((east - west) / _WIDTH_IN, (north - south) / height)  # Metres an inch.
        width_m, height_m = scale * _WIDTH_IN, scale * height
        left, top = (west + east - width_m) / 2, (south + north + height_m) / 2
        sides = (west, east, south, north)
        panel.imshow(picture.image, extent=sides, aspect="auto", interpolation="bilinear")
        panel.set(xlim=(left, left + width_m), ylim=(top - height_m, top), xticks=[], yticks=[])
        panel.spines[:].set(color=_RULE, linewidth=0.6)
        road_pt = float(np.clip(_ROAD_M / scale * _PT_PER_IN, *_ROAD_PT))
        self._add_roads(panel, picture, names, road_pt)
        self._add_polygons(panel, picture.polygons, scale)
        if not is_local(picture.crs):
            add_scale_bar(panel, width_m)
            add_north(panel, picture.crs, ((west + east) / 2, (south + north) / 2))

    def _add_roads(
        self, panel: Axes, picture: MapPicture, names: Sequence[str], width: float
    ) -> None:
        lines = [shapely.get_coordinates(line) for line in picture.lines]
        shown = [name if name in names else _REST for name in picture.classes]
        style: Any = {"capstyle": "round", "rasterized": len(lines) > _MANY_LINES}
        for each, colours in ((width + 0.9, INK), (width, [class_colour(name) for name in shown])):
            if lines:
                roads = LineCollection(lines, linewidths=each, colors=colours, **style)
                panel.add_collection(roads, autolim=False)

    def _add_polygons(
        self, panel: Axes, polygons: Mapping[str, shapely.Geometry], scale: float
    ) -> None:
        """Draw the outlines of polygons, and the names of those that are wide enough for them."""
        for name, polygon in polygons.items():
            rings = [shapely.get_coordinates(ring) for ring in shapely.get_rings(polygon)]
            for width, colour, dashes in ((1.8, INK, "solid"), (0.9, PAPER, (0, (5, 2)))):
                outline: Any = {"linewidths": width, "colors": colour, "linestyles": [dashes]}
                panel.add_collection(LineCollection(rings, **outline), autolim=False)
            west, _, east, _ = shapely.bounds(polygon).tolist()
            if (east - west) / scale < _width_in(name, _SMALL_PT, "bold") + 0.1:
                continue
            point = shapely.point_on_surface(polygon)
            text = panel.text(point.x, point.y, name, fontsize=_SMALL_PT, fontweight="bold")
            text.set(color=PAPER, ha="center", va="center", clip_on=True, parse_math=False)
            text.set_path_effects([withStroke(linewidth=2, foreground=INK)])

    def _box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        box = Rectangle((x, y), width, height, facecolor=colour, linewidth=0)
        box.set_transform(self.figure.dpi_scale_trans)
        self.figure.add_artist(box)


def _width_in(text: str, size_pt: float, weight: str = "normal") -> float:
    """Return how wide a text is on paper."""
    font = get_font(findfont(FontProperties(weight=weight)))
    font.set_size(size_pt, _FINE_DPI)
    font.set_text(text)
    return float(font.get_width_height()[0]) / _UNITS / _FINE_DPI


def _wrapped(text: str, size_pt: float) -> list[str]:
    """Return a text in lines that fit the page."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and _width_in(longer, size_pt) > _WIDTH_IN:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
