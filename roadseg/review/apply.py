"""Apply: edits to a road graph, one after the other; pure, and the same in every replay."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import shapely

from roadseg.arrays import Array, Bools, Floats, Ints, Lines
from roadseg.review.edits import Edit
from roadseg.roads.graph.groups import begin_runs
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    TRAVEL_TIME,
    RoadGraph,
    end_points,
    unique_pairs,
    with_vertices,
)
from roadseg.roads.graph.travel import travel_time_s

_EDITED = "edited"  # The attribute that says what people did to an edge; empty where nothing.
BESIDE_M = 8.0  # Metres beside a road that was confirmed in which there is no other one.
_REACH_M = 3.0  # Metres; what was drawn this near to a road without being snapped to it meets it.

_SAME_M = 0.002  # Metres; places that differ by no more are one, as all are whole millimetres.
_SHARE = 0.8  # Of an edge that has to lie along the line of an edit that is about it.
_NODE_M = 0.05  # Metres; a crossing this near to a node is there.
_USUAL_KPH = 40.0  # Speed of a drawn road where there is no other.
_DRAWN = -1  # Source of roads that a person drew.


@dataclass(frozen=True)
class Road:
    """An edge under review.

    Attributes:
        source: row of the edge that it was, or is a part of; -1 if a person drew it.
        edited: "accepted", "rejected", "drawn", "moved", "speed", or empty.
        kph: speed that a person set, or that is assumed for a drawn road; None for that of the
            source.
        has_speed: whether a person set it.
        width_m: width of a drawn road; None for that of the source.
    """

    line: shapely.LineString
    source: int
    edited: str = ""
    kph: float | None = None
    has_speed: bool = False
    width_m: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether nobody has decided about it yet."""
        return self.edited in ("", "speed")

    @property
    def is_rejected(self) -> bool:
        """Whether a person rejected it; it stays to be seen, but not in the graph."""
        return self.edited == "rejected"


@dataclass(frozen=True)
class Change:
    """What an edit changed: roads before and after, by their numbers.

    A number that is in both is the same road.
    """

    before: dict[int, Road] = field(default_factory=dict)
    after: dict[int, Road] = field(default_factory=dict)


class Revision:
    """A road graph, and all that was done to it.

    A road is known by its number here, and to edits by its line: first by one that is equal to the
    millimetre, in either direction, else by every edge of which 80 % lie within 3 m of the line of
    the edit, so that decisions hold for a graph that was made anew, where its lines are still
    there.

    Args:
        graph: roads in metres; its coordinates are rounded to millimetres.
    """

    def __init__(self, graph: RoadGraph) -> None:
        """Begin with all edges of a graph, numbered by their rows."""
        lines = _rounded(graph.lines)
        self.base = replace(graph, lines=lines)
        self._first = {row: Road(line, row) for row, line in enumerate(lines)}
        self.roads = dict(self._first)
        self._tree = shapely.STRtree(lines)
        self._next = len(lines)
        self._new: dict[int, shapely.LineString] = {}  # Lines that the tree does not hold.
        self._named: dict[bytes, set[int]] = {}
        for row, name in enumerate(_names(lines)):
            self._named.setdefault(name, set()).add(row)

    def apply(self, edit: Edit) -> Change:
        """Do what an edit says, and return what it changed: nothing, if it is about nothing here.

        Edits that were drawn without being snapped to a road take the nearest within 3 m.
        """
        changes = {
            "accept": self._decide,
            "reject": self._decide,
            "speed": self._decide,
            "draw": self._draw,
            "split": self._split,
            "move": self._move,
            "join": self._move,
        }
        (line,) = _rounded(np.array([edit.line]))
        return changes[edit.kind](replace(edit, line=line))

    def undo(self, change: Change) -> None:
        """Undo a change, which was the last one."""
        self._swap(change.after, change.before)

    def all_changes(self) -> Change:
        """Return what all edits together have changed."""
        first, now = self._first, self.roads
        before = {number: road for number, road in first.items() if now.get(number) is not road}
        after = {number: road for number, road in now.items() if first.get(number) is not road}
        return Change(before, after)

    def near(self, shape: shapely.Geometry, within_m: float) -> list[int]:
        """Return the numbers of the roads no farther from a shape, without rejected ones."""
        near = self._near(shape, within_m)
        return [number for number in near if not self.roads[number].is_rejected]

    def snap(self, place: Floats, within_m: float, *, without: Collection[int] = ()) -> Floats:
        """Return the end of a road near a place, else the nearest place on a road, else itself.

        Args:
            without: numbers of roads that do not count.
        """
        point = shapely.Point(place)
        roads = self._lines(set(self.near(point, within_m)).difference(without))
        if not len(roads):
            return place.round(DECIMALS)
        ends = end_points(roads).reshape(-1, 2)
        away = np.hypot(*(ends - place).T)
        if away.min() <= within_m:
            return np.asarray(ends[away.argmin()])
        nearest = roads[shapely.distance(roads, point).argmin()]
        along = nearest.interpolate(nearest.project(point))
        return np.array([along.x, along.y]).round(DECIMALS)

    def roads_at(self, place: Floats) -> set[int]:
        """Return the numbers of the roads that pass a place, or end there."""
        return set(self.near(shapely.Point(place), _SAME_M))

    def vertex(self, place: Floats, within_m: float) -> Floats | None:
        """Return the vertex of a road nearest to a place; None if `within_m` reaches none."""
        roads = self._lines(self.near(shapely.Point(place), within_m))
        if not len(roads):
            return None
        vertices = shapely.get_coordinates(roads)
        away = np.hypot(*(vertices - place).T)
        return np.asarray(vertices[away.argmin()]) if away.min() <= within_m else None

    def speed_of(self, road: Road) -> float | None:
        """Return the speed of a road in km/h, if the graph has speeds."""
        if road.kph is not None or "speed_kph" not in self.base.attributes:
            return road.kph
        return float(self.base.attributes["speed_kph"][road.source])

    def width_of(self, road: Road) -> float | None:
        """Return the width of a road in metres, if it is known."""
        return self.attribute(road, "width_m") if road.width_m is None else road.width_m

    def attribute(self, road: Road, name: str) -> float | None:
        """Return a number of the edge that a road comes from; None where it has none."""
        if road.source == _DRAWN or name not in self.base.attributes:
            return None
        value = float(self.base.attributes[name][road.source])
        return None if np.isnan(value) else value

    def graph(self) -> RoadGraph:
        """Return the roads that were not rejected as a graph.

        Attributes are those of the edges before; `edited` says what people did. Drawn roads have
        confidence 1, no probabilities, and the speed and width of the roads that they meet.
        """
        roads = [self.roads[number] for number in sorted(self.roads)]
        roads = [road for road in roads if not road.is_rejected]
        lines = np.array([road.line for road in roads], dtype=object)
        source = np.array([road.source for road in roads], dtype=np.int64)
        ends = end_points(lines).reshape(-1, 2) + 0.0
        first, node = unique_pairs(ends)
        attributes = {
            name: _taken(name, column, source) for name, column in self.base.attributes.items()
        }
        self._add_speeds(attributes, roads, lines)
        if "width_m" in attributes:
            known = [self.width_of(road) for road in roads]
            attributes["width_m"] = np.array(known, dtype=np.float64)
        attributes[_EDITED] = np.array([road.edited for road in roads], dtype=object)
        return RoadGraph(self.base.crs, ends[first], node.reshape(-1, 2), lines, attributes)

    def _add_speeds(self, attributes: dict[str, Array], roads: list[Road], lines: Lines) -> None:
        """Put the speeds in that people set, and the times of roads that were changed."""
        if "speed_kph" not in attributes:
            return
        kph = np.array([self.speed_of(road) for road in roads], dtype=np.float64)
        attributes["speed_kph"] = kph
        if "speed_known" in attributes:
            attributes["speed_known"][[road.has_speed for road in roads]] = 1
        if TRAVEL_TIME in attributes:
            base = self.base.lines
            new = [road.kph is not None or road.line is not base[road.source] for road in roads]
            is_new = np.array(new, dtype=bool)
            seconds = travel_time_s(shapely.length(lines[is_new]), kph[is_new])
            attributes[TRAVEL_TIME][is_new] = seconds

    def _lines(self, numbers: Iterable[int]) -> Lines:
        return np.array([self.roads[number].line for number in numbers], dtype=object)

    def _decide(self, edit: Edit) -> Change:
        """Accept or reject the roads along a line, or set their speed.

        An accepted road that a new graph does not have, also not beside it, is drawn.
        """
        before = {number: self.roads[number] for number in self._roads_along(edit.line)}
        if edit.kind == "accept" and not before:
            beside = shapely.buffer(self._lines(self.near(edit.line, BESIDE_M)), BESIDE_M)
            lost = edit.line.difference(shapely.union_all(beside))
            return self._draw(edit) if lost.length > edit.line.length / 2 else Change()
        after = {}
        for number, road in before.items():
            if edit.kind == "speed":
                edited = road.edited or "speed"
                after[number] = replace(road, edited=edited, kph=edit.speed_kph, has_speed=True)
            elif edit.kind == "reject":
                after[number] = replace(road, edited="rejected")
            else:
                stays = road.edited in ("drawn", "moved")
                after[number] = road if stays else replace(road, edited="accepted")
        return self._swap(before, after)

    def _draw(self, edit: Edit) -> Change:
        """Add a road, joined to those that it meets or crosses."""
        xy = shapely.get_coordinates(edit.line).copy()
        xy[0], xy[-1] = (self.snap(place, self._reach(place)) for place in (xy[0], xy[-1]))
        line = _line(xy)
        if line is None:
            return Change()
        met = self.near(line, _SAME_M)
        crossed = shapely.intersection(self._lines(met), line)
        points = {number: _places(shape) for number, shape in zip(met, crossed, strict=True)}
        nodes = end_points(self._lines(met)).reshape(-1, 2)
        for number, shape in zip(met, self._lines(met), strict=True):
            # An end that rounding has put beside the road is on it all the same.
            touching = [
                end for end in (xy[0], xy[-1]) if shape.distance(shapely.Point(end)) <= _SAME_M
            ]
            crossings = _at_nodes(points[number], nodes)
            points[number] = np.concatenate([crossings, np.reshape(touching, (-1, 2))])
        cut = self._cut_at(points)
        own = np.concatenate([np.zeros((0, 2)), *points.values()])
        width_m = edit.width_m or self._beside(met, "width_m", self.width_of)
        kph = None
        if "speed_kph" in self.base.attributes:
            kph = self._beside(met, "speed_kph", self.speed_of) or _USUAL_KPH
        names = set(_names([*self._lines(met), *(road.line for road in cut.after.values())]))
        for part in _cut(line, own):
            if _names([part])[0] not in names:
                cut.after[self._number()] = Road(part, _DRAWN, "drawn", kph, width_m=width_m)
        return self._swap(cut.before, cut.after)

    def _split(self, edit: Edit) -> Change:
        """Cut the roads that a line crosses."""
        lines = {number: self.roads[number].line for number in self.near(edit.line, 0.0)}
        cut = self._cut_at(
            {number: _places(line.intersection(edit.line)) for number, line in lines.items()}
        )
        return self._swap(cut.before, cut.after)

    def _move(self, edit: Edit) -> Change:
        """Take the vertices at one place to another; of kind join, the roads there get a node."""
        start, goal = shapely.get_coordinates(edit.line)[[0, -1]].round(DECIMALS)
        if (vertex := self.vertex(start, self._reach(start))) is None:
            return Change()
        if edit.kind == "join":
            goal = self.snap(goal, self._reach(goal))
        before: dict[int, Road] = {}
        after: dict[int, Road] = {}
        for number in sorted(self.roads_at(vertex)):
            road = self.roads[number]
            xy = shapely.get_coordinates(road.line)
            is_there = np.hypot(*(xy - vertex).T) <= _SAME_M
            if not is_there.any():
                continue
            before[number] = road
            xy[is_there] = goal
            if (line := _line(xy)) is not None:
                edited = "drawn" if road.edited == "drawn" else "moved"
                after[number] = replace(road, line=line, edited=edited)
        change = self._swap(before, after)
        return self._joined_at(goal, change) if edit.kind == "join" else change

    def _joined_at(self, place: Floats, change: Change) -> Change:
        """Cut the roads that pass a place, after another change; return both as one."""
        cut = self._cut_at(dict.fromkeys(sorted(self.roads_at(place)), place.reshape(1, 2)))
        self._swap(cut.before, cut.after)
        kept = {number: road for number, road in change.after.items() if number not in cut.before}
        others = {n: road for n, road in cut.before.items() if n not in change.after}
        return Change(change.before | others, kept | cut.after)

    def _reach(self, place: Floats) -> float:
        """Return how far from a place to look: nowhere else, if a road is there to the millimetre.

        Thus what was snapped once stays where it is.
        """
        return _SAME_M if self.roads_at(place) else _REACH_M

    def _roads_along(self, line: shapely.LineString) -> list[int]:
        """Return the numbers of the roads that the line of an edit is about."""
        named = self._named.get(_names([line])[0])
        if named:
            return sorted(named)
        along = line.buffer(_REACH_M, cap_style="flat")
        numbers = self._near(along, 0.0)
        lines = self._lines(numbers)
        inside_m = shapely.length(shapely.intersection(lines, along))
        return list(itertools.compress(numbers, inside_m >= _SHARE * shapely.length(lines)))

    def _near(self, shape: shapely.Geometry, within_m: float) -> list[int]:
        """Return the numbers of the roads no farther from a shape, also of rejected ones."""
        rows = self._tree.query(shape, predicate="dwithin", distance=within_m).tolist()
        found = [row for row in rows if row in self.roads and row not in self._new]
        lines = np.array(list(self._new.values()), dtype=object)
        is_near = shapely.dwithin(lines, shape, within_m)
        return sorted([*found, *itertools.compress(self._new, is_near)])

    def _beside(
        self, numbers: Iterable[int], name: str, value_of: Callable[[Road], float | None]
    ) -> float | None:
        """Return the median of the roads that a drawn one meets, else of all; None if not known."""
        met = [value for n in numbers if (value := value_of(self.roads[n])) is not None]
        every = met or self.base.attributes.get(name, np.zeros(0))
        return float(np.nanmedian(every)) if np.isfinite(every).any() else None

    def _cut_at(self, places: Mapping[int, Floats]) -> Change:
        """Return the change that cuts roads, by number, at places; it is not done yet."""
        parts = {number: _cut(self.roads[number].line, at) for number, at in places.items()}
        before = {number: self.roads[number] for number in places if len(parts[number]) > 1}
        after = {
            self._number(): replace(road, line=part)
            for number, road in before.items()
            for part in parts[number]
        }
        return Change(before, after)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _swap(self, before: dict[int, Road], after: dict[int, Road]) -> Change:
        """Put roads in the place of others."""
        for number, name in zip(before, _names(self._lines(before)), strict=True):
            del self.roads[number]
            self._new.pop(number, None)
            self._named[name].discard(number)
        self.roads |= after
        for number, name in zip(after, _names(self._lines(after)), strict=True):
            line = after[number].line
            if number >= len(self.base.lines) or line is not self.base.lines[number]:
                self._new[number] = line
            self._named.setdefault(name, set()).add(number)
        return Change(before, after)


def tick(line: shapely.LineString, place: Floats) -> shapely.LineString:
    """Return a line of a metre across a road at the place on it that is nearest to another."""
    along = line.project(shapely.Point(place))
    low, high = (line.interpolate(min(max(along + by, 0), line.length)) for by in (-0.5, 0.5))
    heading = np.array([high.x - low.x, high.y - low.y])
    across = np.array([-heading[1], heading[0]]) / max(np.hypot(*heading), 1e-9) / 2
    middle = shapely.get_coordinates(line.interpolate(along))[0]
    return shapely.LineString(np.array([middle - across, middle + across]).round(DECIMALS))


def _cut(line: shapely.LineString, places: Floats) -> list[shapely.LineString]:
    """Return the parts of a line between places on it; the line itself if there are none."""
    if not len(places):
        return [line]
    places = np.unique(places.round(DECIMALS), axis=0)
    marked = with_vertices(
        np.array([line], dtype=object), np.zeros(len(places), dtype=np.int64), places
    )
    xy = shapely.get_coordinates(marked)
    xy = xy[begin_runs(*xy.T)]
    is_cut: Bools = (xy[:, np.newaxis] == places).all(axis=2).any(axis=1)
    cuts: Ints = np.flatnonzero(is_cut[1:-1]) + 1
    bounds = [0, *cuts.tolist(), len(xy) - 1]
    if len(bounds) == 2:  # noqa: PLR2004 - first and last vertex
        return [line]
    return [shapely.LineString(xy[first : last + 1]) for first, last in itertools.pairwise(bounds)]


def _line(xy: Floats) -> shapely.LineString | None:
    """Return a line without repeated vertices; None if nothing is left of it."""
    xy = xy.round(DECIMALS) + 0.0
    xy = xy[begin_runs(*xy.T)]
    return shapely.LineString(xy) if len(xy) > 1 else None


def _places(shape: shapely.Geometry) -> Floats:
    """Return where lines meet: points, and the ends of what they share."""
    parts = shapely.get_parts(shape)
    ends = [shapely.get_coordinates(part)[[0, -1]] for part in parts if not part.is_empty]
    return np.concatenate([np.zeros((0, 2)), *ends]).round(DECIMALS) + 0.0


def _at_nodes(places: Floats, nodes: Floats) -> Floats:
    """Return places, those beside a node at that node."""
    away = np.hypot(*np.moveaxis(places[:, np.newaxis] - nodes, -1, 0))
    is_near = away.min(axis=1, initial=np.inf) <= _NODE_M
    moved = places.copy()
    moved[is_near] = nodes[away[is_near].argmin(axis=1)]
    return moved


def _rounded(lines: Lines) -> Lines:
    return np.asarray(shapely.transform(lines, lambda xy: xy.round(DECIMALS) + 0.0))


def _names(lines: Lines | list[shapely.LineString]) -> list[bytes]:
    """Return for each line what it has in common with one drawn alike, in either direction."""
    return list(shapely.to_wkb(shapely.normalize(lines))) if len(lines) else []


def _taken(name: str, column: Array, source: Ints) -> Array:
    """Return an attribute of the edges by their rows; drawn roads have none of their own."""
    taken = column[source].copy() if len(column) else np.zeros(len(source), dtype=column.dtype)
    is_drawn = source == _DRAWN
    if name == "confidence":
        taken[is_drawn] = 1
    elif name == "highway":
        taken[is_drawn] = "road"
    elif column.dtype.kind == "f":
        taken[is_drawn] = np.nan
    else:
        taken[is_drawn] = "" if column.dtype.hasobject else 0
    return taken
