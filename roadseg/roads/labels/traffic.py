"""Traffic: whether cars may drive on a road, in which direction, and what it is called."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Array, Bools, Columns, Ints, Objects, Texts
from roadseg.roads.labels.highways import highway_class
from roadseg.roads.labels.tags import Tags, number
from roadseg.roads.options import NO_ROADS

ONE_WAY, CARS = "oneway", "motor_vehicle"  # Tags that edges have as attributes.
SPEED_SOURCE = "speed_source"
SPEED_KNOWN = "speed_known"  # 0 on those edges of a traced graph whose speed is the default.
DEFAULT = "default"  # The source of the speed of roads whose attributes say nothing of it.

_ASSUMED = (DEFAULT, "highway", "fclass", "road_type")  # No source, or a class of road.
_MODES = ("access", "vehicle", "motor_vehicle", "motorcar")  # The last one that is stated counts.
_FOR_CARS = _MODES[2:]
LAYER = "layer"  # 0 on the ground; roads of other layers pass over or under each other.
KEYS = ("name", "ref", ONE_WAY, "junction", "bridge", LAYER, *_MODES, SPEED_SOURCE, SPEED_KNOWN)

_DIRECTIONS = {
    **dict.fromkeys(("yes", "1", "true"), 1),
    **dict.fromkeys(("-1", "reverse"), -1),
}
_GEOFABRIK_DIRECTIONS = {"f": 1, "t": -1}  # Along and against the line; b is both ways.
_REVERSIBLE = "reversible"  # One-way, now in this and now in that direction.
_ROUND = ("roundabout", "circular")
_MOTORWAY = "motorway"
# Values of `tunnel` and `bridge` that say that a road is neither; a culvert passes below it.
NO_STRUCTURE = ("", "no", "0", "false", "f", "none", "culvert")

# Source: OpenStreetMap wiki, Key:access. What is left out lets a car through, or to its
# destination: yes, permissive, designated, destination, customers, and values that nobody defined.
_FORBIDDEN = {
    "no",
    "private",
    "permit",
    "restricted",
    "agricultural",
    "forestry",
    "emergency",
    "military",
    "psv",
    "bus",
    "taxi",
    "delivery",
}
_ALLOWED = {"yes", "designated", "permissive"}
# Classes that are there and wide enough for a car, where a tag of cars says that they may be used.
_MAY_BE_OPENED = {"bridleway", "cycleway", "footway", "path", "pedestrian", "rest_area", "services"}
_NO_CARS = {*NO_ROADS, "bus_guideway", "busway", "emergency_bay", "escalator", "escape", "no"}


@dataclass(frozen=True)
class Traffic(Columns):
    """Rules and names by the tags of features; all arrays of shape (features,).

    Attributes:
        highway: class of road as the file writes it, "" where there is none.
        name: `name`, or else `ref`; "" where there is none.
        one_way: 1 where cars drive along the line only, -1 against it, 0 both ways.
        is_closed: whether cars may not drive there at all.
        speed_source: key that the speed came from, see `is_assumed`.
        layer: as the file states it, or else 1 for a bridge and 0 for other roads.
        left_out: "" for a road for cars that images show, as labels are by default; else why it is
            none, see `Attributes`.
    """

    highway: Objects
    name: Objects
    one_way: Ints
    is_closed: Bools
    speed_source: Objects
    layer: Ints
    left_out: Texts

    def attributes(self) -> dict[str, Array]:
        """Return those columns of edges that say something, None where an edge has no text.

        They are tags as well: a file with these columns is read like the file before.
        """
        texts = {"highway": self.highway, "name": self.name}
        columns: dict[str, Array] = {
            key: np.array([word or None for word in column], dtype=object)
            for key, column in texts.items()
            if np.any(column != "")
        }
        if np.any(self.one_way) or np.any(self.highway == _MOTORWAY):
            columns[ONE_WAY] = self.one_way
        if np.any(self.layer):
            columns[LAYER] = self.layer
        if np.isin(self.speed_source.astype(str), _ASSUMED).any():
            columns[SPEED_SOURCE] = self.speed_source
        is_opened = ~self.is_closed & _are_without_cars(self.highway)
        if np.any(self.is_closed | is_opened):
            columns[CARS] = np.full(len(self.highway), None)
            columns[CARS][self.is_closed], columns[CARS][is_opened] = "no", "yes"
        return columns


def read_traffic(tags: Tags, speed_source: Texts, left_out: Texts) -> Traffic:
    """Read who may drive on features, by the tags of OpenStreetMap that concern cars.

    1. Of `motorcar`, `motor_vehicle`, `vehicle` and `access` the first that is stated counts.
    2. Where none forbids cars, a class that is not for cars (`highway=footway`) is closed, unless
       `motorcar` or `motor_vehicle` allows them on a class that may be opened.
    3. Cars drive one way by `oneway`, or, where that is not stated, on motorways, roundabouts and
       circular junctions along the line. A reversible lane is closed: its direction is not known.

    Args:
        tags: of the features, with `KEYS` and their `highway`.
        speed_source: key that the speed of each came from, shape (features,).
        left_out: why each is not a road for cars that images show, shape (features,).

    Source: OpenStreetMap wiki, Key:access and Key:oneway.
    """
    name, source = tags.texts("name"), tags.texts(SPEED_SOURCE)
    source = np.where(source == "", speed_source.astype(object), source)
    stated = tags.numbers(LAYER, number)
    is_bridge = ~np.isin(tags.words("bridge"), NO_STRUCTURE)
    layers = np.where(np.isnan(stated), is_bridge, np.clip(stated, -99, 99))
    return Traffic(
        highway=tags.highways.astype(object),
        name=np.where(name == "", tags.texts("ref"), name),
        one_way=_one_way(tags),
        is_closed=_are_closed(tags),
        speed_source=np.where(tags.numbers(SPEED_KNOWN, number) == 0, DEFAULT, source),
        layer=layers.astype(np.int64),
        left_out=left_out,
    )


def assumed_speeds(attributes: Mapping[str, Array], edges: int) -> Bools:
    """Return which edges have a speed that no file states and no pixel showed, shape (edges,).

    It is only usual on roads of their class, or anywhere.
    """
    if SPEED_KNOWN in attributes:
        return np.asarray(attributes[SPEED_KNOWN] == 0)
    if SPEED_SOURCE in attributes:
        return np.isin(attributes[SPEED_SOURCE].astype(str), _ASSUMED)
    return np.zeros(edges, dtype=bool)


def _one_way(tags: Tags) -> Ints:
    words = tags.words(ONE_WAY)
    directions = _DIRECTIONS | (_GEOFABRIK_DIRECTIONS if "fclass" in tags else {})
    stated = np.array([directions.get(word, 0) for word in words.tolist()], dtype=np.int64)
    is_implied = np.isin(tags.words("junction"), _ROUND) | (tags.highways == _MOTORWAY)
    return np.where((words == "") & is_implied, 1, stated)


def _are_closed(tags: Tags) -> Bools:
    is_without_cars = _are_without_cars(tags.highways)
    can_be_opened = np.isin(tags.highways, list(_MAY_BE_OPENED))
    is_closed = is_without_cars
    for key in _MODES:
        rule = tags.words(key, _rule)
        opens = (rule == "allowed") & can_be_opened if key in _FOR_CARS else np.False_
        by_class = is_without_cars & ~opens
        is_closed = np.where(rule == "", is_closed, (rule == "forbidden") | by_class)
    return np.asarray(is_closed | (tags.words(ONE_WAY) == _REVERSIBLE), dtype=bool)


def _rule(value: str) -> str:
    """Return what a value of a tag of access says: "" for nothing; of a list all have to forbid."""
    values = {part.strip() for part in value.split(";")} - {""}
    if not values:
        return ""
    if values <= _FORBIDDEN:
        return "forbidden"
    return "allowed" if values & _ALLOWED else "other"


def _are_without_cars(highway: Array) -> Bools:
    """Return which classes are not for cars."""
    names = highway.tolist()
    known = {name: highway_class(name) in _NO_CARS for name in set(names)}
    return np.array([known[name] for name in names], dtype=bool)
