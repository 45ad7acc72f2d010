"""Overpass: the ways of an area from a server of OpenStreetMap data, box by box."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import shapely

from roadseg.errors import DataError
from roadseg.roads.osm.osm_objects import (
    UNITS_PER_DEGREE,
    Box,
    CollectedObjects,
    OsmObjects,
    is_time,
    merged,
)
from roadseg.system.records import parse_json
from roadseg.system.text import one_line
from roadseg.system.web.answers import Answer, BadAnswerError
from roadseg.system.web.client import Client

PUBLIC_SERVER = "https://overpass-api.de/api/interpreter"
TIMEOUT_S = 180  # Seconds that a query may take on the server.

_MAXSIZE = 2**29  # Bytes of memory that a query may take on the server.
_LARGEST = 2**28  # Bytes of an answer.
_SIDE = {True: 0.05, False: 0.15}  # Degrees of a box, with buildings or without.
_SMALLEST = 0.002  # Degrees; a box in which a server cannot count the roads is not halved further.
_FARTHEST = 180 * UNITS_PER_DEGREE
# What servers say that stopped before the end. The first two may go well with a smaller box.
_TOO_MUCH = ("timed out", "out of memory")
_HELP = "ask another server with --server, or cut roads out of an extract with osmium extract"


@dataclass
class OverpassArea:
    """The boxes of an area, and what a server gives for each.

    Attributes:
        client: with the patience to wait for answers, see `TIMEOUT_S`.
        area: in degrees.
        keys: ways with one of these keys are asked for.
        dates: of the data, as the answers state them.
    """

    client: Client
    server: str
    area: shapely.MultiPolygon
    keys: tuple[str, ...]
    dates: list[str] = field(default_factory=list)

    def boxes(self) -> list[Box]:
        """Return boxes of about the same size that cover the area, without those beside it."""
        west, south, east, north = self.area.bounds
        side = _SIDE["building" in self.keys]
        columns = max(math.ceil((east - west) / side), 1)
        rows = max(math.ceil((north - south) / side), 1)
        width, height = (east - west) / columns, (north - south) / rows
        every = (
            (west + i * width, south + j * height, west + (i + 1) * width, south + (j + 1) * height)
            for j in range(rows)
            for i in range(columns)
        )
        return [box for box in every if shapely.intersects(self.area, shapely.box(*box))]

    def fetch(self, done: Callable[[], None]) -> OsmObjects:
        """Ask for all boxes.

        Args:
            done: called after each box.

        Raises:
            DataError: if there is no whole answer after several tries.
        """
        parts = []
        for box in self.boxes():
            parts.append(merged(list(self._fetch(box))).touching(self.area))
            done()
        return merged(parts)

    @property
    def date(self) -> str | None:
        """The earliest date of an answer: what is newer may be missing."""
        return min(self.dates, default=None)

    def _fetch(self, box: Box) -> Iterator[OsmObjects]:
        """Yield the ways of a box, of each quarter of it if the server cannot manage it at once."""
        form = urlencode({"data": query(box, self.keys)}).encode()
        answer = self.client.get(self.server, read_answer, largest=_LARGEST, form=form)
        if isinstance(answer, OverpassAnswer):
            self.dates += [answer.date] if answer.date else []
            yield answer.objects
            return
        west, south, east, north = box
        if max(east - west, north - south) < _SMALLEST:
            raise DataError(
                f"{self.server}: cannot answer even for a small box ({answer}); {_HELP}"
            )
        x, y = (west + east) / 2, (south + north) / 2
        for quarter in (
            (west, south, x, y),
            (x, south, east, y),
            (west, y, x, north),
            (x, y, east, north),
        ):
            yield from self._fetch(quarter)


@dataclass(frozen=True)
class OverpassAnswer:
    """A whole answer.

    Attributes:
        date: of the data, None if the server does not state it.
    """

    objects: OsmObjects
    date: str | None


def query(box: Box, keys: tuple[str, ...]) -> str:
    """Return the query for the ways with some keys that touch a box, and their nodes.

    It is in Overpass QL, and states how much time and memory it may take.
    """
    west, south, east, north = (f"{side:.7f}" for side in box)
    ways = "".join(f'way["{key}"]({south},{west},{north},{east});' for key in keys)
    head = f"[out:json][timeout:{TIMEOUT_S}][maxsize:{_MAXSIZE}];"
    return f"{head}({ways})->.roads;.roads out meta;node(w.roads);out meta;"


def read_answer(answer: Answer) -> OverpassAnswer | str:
    """Read an answer of Overpass.

    Returns:
        The ways, or what the server says if the query took more time or memory than it may.

    Raises:
        BadAnswerError: if it is something else, or not whole.
    """
    try:
        values = parse_json(answer.text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not isinstance(values.get("elements"), list):
        raise BadAnswerError(f"expected an answer of Overpass in JSON, got {answer.description}")
    if remark := one_line(values.get("remark") or ""):
        if any(words in remark for words in _TOO_MUCH):
            return remark[:200]
        raise BadAnswerError(f"the answer is not whole: {remark:.200}")
    try:
        objects = _objects(values["elements"])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"{type(error).__name__}: {one_line(error):.100}"
        raise BadAnswerError(f"the answer of Overpass has faulty elements ({what})") from error
    base = values.get("osm3s")
    date = base.get("timestamp_osm_base") if isinstance(base, Mapping) else None
    return OverpassAnswer(objects, str(date) if is_time(date) else None)


def _objects(elements: list[dict[str, Any]]) -> OsmObjects:
    """Return the ways and nodes of an answer; a way whose node is missing is an error."""
    collected = CollectedObjects()
    for each in elements:
        tags = {str(key): str(value) for key, value in each.get("tags", {}).items()}
        if each["type"] == "way":
            collected.add_way(each["id"], each.get("version", 0), each["nodes"], tags)
        elif each["type"] == "node":
            place = round(each["lon"] * UNITS_PER_DEGREE), round(each["lat"] * UNITS_PER_DEGREE)
            if not (abs(place[0]) <= _FARTHEST and abs(place[1]) <= _FARTHEST / 2):
                raise ValueError(f"node {each['id']} is not on earth")
            collected.add_node(each["id"], each.get("version", 0), place, tags)
    return collected.objects()
