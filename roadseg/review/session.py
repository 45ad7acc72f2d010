"""Session: one person at the page; what they do is kept in the file of edits, then answered."""

import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Floats
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, is_local
from roadseg.review.apply import Change, tick
from roadseg.review.edits import KINDS, Edit, EditFile
from roadseg.review.sheets import Sheet
from roadseg.roads.graph.joining import disjoint_union
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.system.units import chosen_units

_MOST_REACH_M = 100.0  # Metres; a click is never taken for a place farther away.
_MOST_M = 1e7  # Metres from the origin of a map.
_FASTEST_KPH = 300.0


class RequestError(ValueError):
    """A request of the page that cannot be done: its text is shown to the person."""


class ReviewSession:
    """The roads of a run under review, and the file in which all edits are.

    Its methods may be called from several threads. An edit is in the file, and on the disk, when
    the method that did it returns.

    Attributes:
        left_out: rows of the file that could not be used, and why.
    """

    def __init__(self, sheets: Sequence[Sheet], file: EditFile, who: str) -> None:
        """Take up what was done before.

        Args:
            who: name of the person, kept with every edit.
        """
        self.sheets, self.left_out = sheets, list[str]()
        self._file, self._who = file, who
        self._lock = threading.Lock()
        self._drawing = threading.Lock()
        self._done: list[tuple[int, int, Change]] = []  # Number of the edit, sheet, what it did.
        self._replay()

    def describe(self) -> dict[str, Any]:
        """Return the maps before all edits, as JSON values."""
        return {"units": chosen_units(), "sheets": [sheet.describe() for sheet in self.sheets]}

    def changes(self) -> dict[str, Any]:
        """Return what all edits together have changed on each map."""
        with self._lock:
            if self._file.has_changed():
                self._replay()
            changes = [sheet.describe_change(sheet.revision.all_changes()) for sheet in self.sheets]
            return {"changes": changes, "left_out": self.left_out, **self._counts()}

    def edit(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do and keep an edit that the page asks for; return what has changed.

        Raises:
            RequestError: if it cannot be done; then nothing has changed.
            OutputError: if it cannot be kept; the same.
        """
        with self._lock:
            if self._file.has_changed():
                self._replay()
                return {"reload": True, "error": "The edits were changed elsewhere; look again."}
            number = int(_number(request, "sheet", 0, len(self.sheets) - 1))
            sheet = self.sheets[number]
            edit = _edit(sheet, request)
            change = sheet.revision.apply(edit)
            if not change.after and not change.before:
                raise RequestError("This changes nothing here.")
            try:
                row = self._file.add(edit, sheet.area.crs, who=self._who)
            except BaseException:
                sheet.revision.undo(change)
                raise
            self._done.append((row, number, change))
            return self._changed(number, change)

    def undo(self) -> dict[str, Any]:
        """Undo the last edit, of this session or one before; return what has changed."""
        with self._lock:
            if self._file.has_changed() or not self._done:
                return self._reload("There is nothing to undo.")
            row, number, change = self._done[-1]
            if self._file.undo() != row:  # A row that could not be used was the last one.
                return self._reload()
            self._done.pop()
            self.sheets[number].revision.undo(change)
            return self._changed(number, Change(change.after, change.before))

    def redo(self) -> dict[str, Any]:
        """Do the edit again that was undone last; return what has changed."""
        with self._lock:
            if self._file.has_changed() or not self._file.counts[1]:
                return self._reload("There is nothing to redo.")
            row = self._file.redo()
            for number, sheet in enumerate(self.sheets):
                edits, _ = self._file.read(sheet.area.crs, number=row)
                if row is not None and edits and self._is_on(sheet, edits[0]):
                    change = sheet.revision.apply(edits[0])
                    self._done.append((row, number, change))
                    return self._changed(number, change)
            return self._reload()

    def picture(self, scene: tuple[int, int], layer: str, tile: tuple[int, int, int]) -> Any:  # noqa: ANN401
        """Return a picture for the page, see `Sheet.picture`; one at a time is made."""
        sheet, row = scene
        if not (0 <= sheet < len(self.sheets) and 0 <= row < len(self.sheets[sheet].scenes)):
            return None
        with self._drawing:
            return self.sheets[sheet].picture(row, layer, tile)

    def graphs(self) -> list[tuple[str, RoadGraph]]:
        """Return the edited roads by the name of their first scene, those of one CRS together."""
        groups: list[tuple[str, list[RoadGraph]]] = []
        for sheet in self.sheets:
            graph = sheet.revision.graph()
            alike = [each for _, each in groups if each[0].crs == graph.crs and not sheet.place]
            if alike:
                alike[0].append(graph)
            else:
                groups.append((sheet.scenes[0].name, [graph]))
        return [(name, disjoint_union(each)[0]) for name, each in groups]

    def roads_by_state(self) -> dict[str, int]:
        """Return how many roads there are of each state; "open" are those not yet decided."""
        every = [road for sheet in self.sheets for road in sheet.revision.roads.values()]
        return dict(Counter("open" if road.is_open else road.edited for road in every))

    def _is_on(self, sheet: Sheet, edit: Edit) -> bool:
        return len(self.sheets) == 1 or sheet.holds(edit)

    def _replay(self) -> None:
        """Do all edits of the file again, from the beginning."""
        self._done, used, rejected = [], set[int](), set[int]()
        left_out: dict[str, None] = {}
        numbers: set[int] = set()
        for number, sheet in enumerate(self.sheets):
            sheet.begin_again()
            edits, faults = self._file.read(sheet.area.crs)
            left_out |= dict.fromkeys(faults)
            numbers |= {edit.number for edit in edits}
            rejected |= {edit.number for edit in edits if edit.kind == "reject"}
            for edit in edits:
                if self._is_on(sheet, edit):
                    used.add(edit.number)
                    self._done.append((edit.number, number, sheet.revision.apply(edit)))
        self._done.sort(key=lambda each: each[0])
        left_out |= {
            f"row {row}: lies on no map of this run": None for row in sorted(numbers - used)
        }
        idle = [row for row, _, change in self._done if not change.before and not change.after]
        # A rejected road that a new graph no longer has is as the person wanted it.
        gone = [row for row in idle if row not in rejected]
        left_out |= {f"row {row}: no road is there any more": None for row in gone}
        self.left_out = list(left_out)

    def _reload(self, error: str = "") -> dict[str, Any]:
        """Read the file again, and have the page do so."""
        self._replay()
        return {"reload": True, "error": error, **self._counts()}

    def _changed(self, number: int, change: Change) -> dict[str, Any]:
        return {"sheet": number, **self.sheets[number].describe_change(change), **self._counts()}

    def _counts(self) -> dict[str, int]:
        undo, redo = self._file.counts
        return {"undo": undo, "redo": redo}


def crs_of_edits(sheets: Sequence[Sheet]) -> CRS:
    """Return the CRS for a new file of edits: that of the maps if they share one, else degrees.

    Raises:
        DataError: if some scenes have a georeference and others do not.
    """
    every = [sheet.area.crs for sheet in sheets]
    if len({is_local(crs) for crs in every}) > 1:
        raise DataError(
            f"{sheets[0].scenes[0].name}: some scenes of this run have a georeference and others "
            "do not, expected one kind; predict them into two folders, and review each"
        )
    return every[0] if all(crs == every[0] for crs in every) else DEGREES


def _edit(sheet: Sheet, request: Mapping[str, Any]) -> Edit:
    """Return the edit that the page asks for."""
    make = {
        "draw": _draw,
        "split": _split,
        **dict.fromkeys(("move", "join"), _move),
        **dict.fromkeys(("accept", "reject", "speed"), _decide),
    }
    kind = request.get("kind")
    if kind not in KINDS:
        raise RequestError(f"An edit is one of {', '.join(KINDS)}.")
    return replace(make[kind](sheet, request), kind=kind, place=sheet.place)


def _decide(sheet: Sheet, request: Mapping[str, Any]) -> Edit:
    road = sheet.revision.roads.get(int(_number(request, "id", 0, _MOST_M)))
    if road is None:
        raise RequestError("This road is no longer here.")
    is_speed = request["kind"] == "speed"
    kph = _number(request, "kph", 1, _FASTEST_KPH) if is_speed else None
    return Edit("accept", road.line, kph, width_m=sheet.revision.attribute(road, "width_m"))


def _draw(sheet: Sheet, request: Mapping[str, Any]) -> Edit:
    reach_m = _number(request, "reach", 0, _MOST_REACH_M)
    start, goal = (
        sheet.revision.snap(_place(sheet, request, name), reach_m) for name in ("from", "to")
    )
    _require_apart(start, goal)
    return Edit("draw", sheet.least_cost_path(start, goal))


def _split(sheet: Sheet, request: Mapping[str, Any]) -> Edit:
    place = _place(sheet, request, "from")
    near = sheet.revision.near(shapely.Point(place), _number(request, "reach", 0, _MOST_REACH_M))
    if not near:
        raise RequestError("There is no road to split here.")
    lines = [sheet.revision.roads[number].line for number in near]
    return Edit("split", tick(min(lines, key=shapely.Point(place).distance), place))


def _move(sheet: Sheet, request: Mapping[str, Any]) -> Edit:
    revision, reach_m = sheet.revision, _number(request, "reach", 0, _MOST_REACH_M)
    vertex = revision.vertex(_place(sheet, request, "from"), reach_m)
    if vertex is None:
        raise RequestError("There is no vertex of a road here.")
    goal = _place(sheet, request, "to")
    if request["kind"] == "join":
        own = revision.roads_at(vertex)
        goal = revision.snap(goal, reach_m, without=own)
        if own.issuperset(revision.roads_at(goal)):
            raise RequestError("There is no other road to join here.")
    _require_apart(vertex, goal)
    return Edit("move", shapely.LineString([vertex, goal]))


def _require_apart(start: Floats, goal: Floats) -> None:
    if (start == goal).all():
        raise RequestError("Both places are the same; choose two.")


def _place(sheet: Sheet, request: Mapping[str, Any], name: str) -> Floats:
    """Return a place on the ground that the page counts from the origin of its map."""
    value = request.get(name)
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - x and y
        raise RequestError(f"{name}: expected x and y.")
    xy = [_number({name: each}, name, -_MOST_M, _MOST_M) for each in value]
    return (np.array(xy) + sheet.area.origin).round(3)


def _number(request: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = request.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"{name}: expected a number.")
    if not (math.isfinite(value) and low <= value <= high):
        raise RequestError(f"{name}: expected a number from {low:g} to {high:g}.")
    return float(value)
