"""Lengths: kilometres of road of a run by class, on its whole map and in each polygon of its area.

The classes are those that the edges carry as `highway`, the words of OpenStreetMap.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import shapely
from affine import Affine

from roadseg.arrays import Floats, Ints
from roadseg.raster.grid import Grid
from roadseg.report.areas import Area
from roadseg.report.scenes import ReportScenes
from roadseg.roads.graph.joining import in_crs
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.areas import Area as Polygons
from roadseg.roads.labels.areas import work_area
from roadseg.roads.labels.highways import ROAD_CLASSES, UNKNOWN_CLASS, highway_class
from roadseg.system.text import count, table
from roadseg.system.units import road_unit, to_road_unit

WHOLE = "whole map"
_MOST_ROWS = 12  # Polygons in the text; all are in the report and in JSON.
_DECIMALS = 3  # Of kilometres.


@dataclass(frozen=True)
class RoadLengths:
    """Kilometres of road by class, of which the fastest comes first.

    Attributes:
        classes: kilometres of each class; "road" is a class that is not known.
        areas: the same of the roads in each polygon of `imagery.area`, by its name; only if there
            are several.
    """

    classes: dict[str, float] = field(default_factory=dict)
    areas: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def says_more(self) -> bool:
        """Whether a table says more than the length of all roads."""
        return len(self.classes) > 1 or bool(self.areas)

    def __str__(self) -> str:
        """Return a table with a row for each polygon; empty if it says nothing more."""
        if not self.says_more:
            return ""
        names = list(self.classes) if len(self.classes) > 1 else []
        shown = list(self.areas.items())[:_MOST_ROWS]
        rows = [
            [name, *(road_cell(of.get(each, 0.0)) for each in names), road_cell(sum(of.values()))]
            for name, of in [*shown, (WHOLE, self.classes)]
        ]
        head = [f"{road_unit()} of road", *map(shown_class, names), "all"]
        text = table([head, *rows], right=range(1, len(head)))
        more = len(self.areas) - len(shown)
        return f"{text}\n({count(more, 'more polygon')}: see the report)" if more else text


def road_cell(km: float) -> str:
    """Return a length of roads as a cell of a table, without its unit."""
    return f"{to_road_unit(km):.2f}"


def shown_class(name: str) -> str:
    """Return the class of a road as people read it."""
    return "class not known" if name == UNKNOWN_CLASS else name.replace("_", " ")


def road_lengths(shown: ReportScenes, within: str | None) -> RoadLengths:
    """Measure the roads of a run; those that adjoining images share count once.

    Args:
        within: `imagery.area`, whose polygons the roads are clipped to; those of one name count as
            one.

    Raises:
        ConfigError: if the area is neither a box nor a file.
        DataError: if it cannot be read.
    """
    area = work_area(within)
    polygons = area.by_name() if area else {}
    totals: dict[str, dict[str, float]] = {name: defaultdict(float) for name in ("", *polygons)}
    for number, ground in enumerate(shown.areas):
        graphs = [graph for _, _, graph in shown.graphs_on(number) if len(graph.lines)]
        if not graphs:
            continue
        classes, of_edge = _classes(graphs)
        lengths_m = np.concatenate([graph.length_m for graph in graphs])
        lines = np.concatenate([in_crs(graph, ground.crs).lines for graph in graphs])
        tree, drawn_m = shapely.STRtree(lines), shapely.length(lines)
        for name, total in totals.items():
            metres = lengths_m
            if name:
                polygon = _on_map(polygons[name], ground)
                near = tree.query(polygon, predicate="intersects")
                inside_m = shapely.length(shapely.intersection(lines[near], polygon))
                metres = np.zeros(len(lines))
                metres[near] = lengths_m[near] * inside_m / drawn_m[near]
            _add(total, classes, np.bincount(of_edge, metres, len(classes)))
    whole = totals.pop("")
    order = sorted(whole, key=_speed_rank)
    sorted_totals = {
        name: {each: round(of[each], _DECIMALS) for each in order if of.get(each)}
        for name, of in {"": whole, **totals}.items()
    }
    return RoadLengths(sorted_totals.pop(""), sorted_totals)


def _classes(graphs: Iterable[RoadGraph]) -> tuple[list[str], Ints]:
    """Return the classes that there are, and the number of that of each edge."""
    columns = [graph.attributes.get("highway", np.full(len(graph.lines), None)) for graph in graphs]
    texts = [
        str(each) if isinstance(each, str) and each else UNKNOWN_CLASS
        for column in columns
        for each in column
    ]
    names, rows = np.unique([highway_class(text) for text in texts], return_inverse=True)
    return names.tolist(), rows


def _on_map(polygons: Polygons, ground: Area) -> shapely.MultiPolygon:
    west, south, east, north = shapely.total_bounds(ground.outlines)
    whole = Grid(ground.crs, Affine(east - west, 0, west, 0, south - north, north), 1, 1)
    return polygons.on(whole)


def _add(total: dict[str, float], classes: list[str], metres: Floats) -> None:
    for name, length_m in zip(classes, metres.tolist(), strict=True):
        total[name] += length_m / 1000


def _speed_rank(name: str) -> tuple[bool, int, str]:
    """Return the place of a class: fast ones first, others after those, not known last."""
    rank = ROAD_CLASSES.index(name) if name in ROAD_CLASSES else len(ROAD_CLASSES)
    return name == UNKNOWN_CLASS, rank, name
