"""Road lengths: kilometres by class of road, on a whole map and in each polygon of an area.

The classes are those that the edges carry as `highway`, the words of OpenStreetMap.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import shapely
from pyproj import CRS

from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph
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
            [name, *(road_cell(km.get(each, 0.0)) for each in names), road_cell(sum(km.values()))]
            for name, km in [*shown, (WHOLE, self.classes)]
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


@dataclass(frozen=True)
class MappedRoads:
    """The roads of a map, each once, and the polygons in which they are measured.

    Attributes:
        crs: metric CRS of the polygons.
        graphs: in any metric CRS.
        polygons: by their names, of which several maps may have the same.
    """

    crs: CRS
    graphs: Sequence[RoadGraph]
    polygons: Mapping[str, shapely.MultiPolygon]


def road_lengths(maps: Iterable[MappedRoads]) -> RoadLengths:
    """Measure the roads of maps by their `highway`, on all and clipped to each polygon."""
    whole: dict[str, float] = defaultdict(float)
    areas: dict[str, dict[str, float]] = {}
    for each in maps:
        for name in each.polygons:
            areas.setdefault(name, defaultdict(float))
        if not any(len(graph.lines) for graph in each.graphs):
            continue
        lengths_m = np.concatenate([graph.length_m for graph in each.graphs])
        lines = np.concatenate([to_crs(graph, each.crs).lines for graph in each.graphs])
        names = [name for graph in each.graphs for name in classes_of(graph)]
        classes, of_edge = np.unique(names, return_inverse=True)
        tree, drawn_m = shapely.STRtree(lines), shapely.length(lines)
        parts = [(whole, np.arange(len(lines)), lengths_m)]
        for name, polygon in each.polygons.items():
            near = tree.query(polygon, predicate="intersects")
            inside_m = shapely.length(shapely.intersection(lines[near], polygon))
            # Lengths differ a little from CRS to CRS; those of the graphs are the right ones.
            parts.append((areas[name], near, lengths_m[near] * inside_m / drawn_m[near]))
        for total, rows, metres in parts:
            for number, length_m in enumerate(np.bincount(of_edge[rows], metres).tolist()):
                total[str(classes[number])] += length_m / 1000
    return RoadLengths(_sorted(whole), {name: _sorted(total) for name, total in areas.items()})


def classes_of(graph: RoadGraph) -> list[str]:
    """Return the class of each edge by its `highway`; "road" if it is not known."""
    texts = graph.attributes.get("highway", [""] * len(graph.lines))
    names = (highway_class(text) if isinstance(text, str) else "" for text in texts)
    return [name or UNKNOWN_CLASS for name in names]


def _sorted(total: Mapping[str, float]) -> dict[str, float]:
    lengths = {name: round(total[name], _DECIMALS) for name in sorted(total, key=_speed_rank)}
    return {name: km for name, km in lengths.items() if km}


def _speed_rank(name: str) -> tuple[bool, int, str]:
    """Return the place of a class: fast ones first, others after those, not known last."""
    rank = ROAD_CLASSES.index(name) if name in ROAD_CLASSES else len(ROAD_CLASSES)
    return name == UNKNOWN_CLASS, rank, name
