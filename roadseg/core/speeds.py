"""Speed of a road from its label, and speed bins."""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

KPH_PER_MPH = 1.609344
BIN_MPH = 10  # width of a speed bin
BINS = 7  # 1..10, 11..20, ..., 61 and faster
BIN_SPEEDS_MPH = tuple(BIN_MPH * b - BIN_MPH / 2 for b in range(1, BINS + 1))
BAND_NAMES = (  # of a probability raster: the bins, then any road
    *(f"speed_{BIN_MPH * b + 1}_to_{BIN_MPH * (b + 1)}_mph" for b in range(BINS - 1)),
    f"speed_above_{BIN_MPH * (BINS - 1)}_mph",
    "road",
)

# SpaceNet road_type -> (1 or 2 lanes, 3 lanes and more), mph; and the OpenStreetMap classes
# that the SpaceNet labellers mapped to each type.
# Source: CRESI, data_prep/road_speed.py (Apache-2.0), which documents the SpaceNet 3 table.
_MPH_BY_TYPE = {
    1: (55, 65),
    2: (45, 55),
    3: (35, 45),
    4: (30, 35),
    5: (25, 30),
    6: (20, 20),
    7: (20, 20),
}
_TYPE_BY_HIGHWAY = {
    "motorway": 1,
    "trunk": 1,
    "primary": 2,
    "bus_guideway": 2,
    "secondary": 3,
    "tertiary": 4,
    "residential": 5,
    "living_street": 5,
    "unclassified": 6,
    "service": 6,
    "road": 6,
    "track": 7,
    "cart_track": 7,
}
_NO_ROADS = {
    "bridleway",
    "bus_stop",
    "construction",
    "corridor",
    "cycleway",
    "elevator",
    "footway",
    "path",
    "pedestrian",
    "platform",
    "proposed",
    "raceway",
    "steps",
}
_MANY_LANES = 3
_UNPAVED_FACTOR = 0.75
_SPEED_KEYS = ("inferred_speed_mph", "speed_mph")
SPEED_FIELDS = (
    *_SPEED_KEYS,
    "maxspeed",
    "road_type",
    "highway",
    "lane_number",
    "lane_numbe",
    "lanes",
    "paved",
    "surface",
)


class RoadSpeed(NamedTuple):
    """Speed of a road in mph, and the label key that it came from ("default" if none did)."""

    mph: float
    source: str


def road_speed(properties: Mapping[str, Any], *, default_mph: float) -> RoadSpeed:
    """Find the speed of a road from the attributes of its label.

    A speed that the label states wins (`inferred_speed_mph`, `speed_mph`, a number in
    `maxspeed`: km/h unless it says mph); then SpaceNet's `road_type`, then OpenStreetMap's
    `highway`, by lanes and pavement; else `default_mph`.

    Source: table and pavement factor of CRESI's road_speed.py. Different here: only a surface
    that is named as unpaved slows a road down, where CRESI slows down every SpaceNet 5 road
    whose surface is not the very word "paved".
    """
    for key in _SPEED_KEYS:
        mph = number(properties.get(key))
        if mph is not None and mph > 0:
            return RoadSpeed(mph, key)
    mph = _maxspeed_mph(properties.get("maxspeed"))
    if mph is not None:
        return RoadSpeed(mph, "maxspeed")
    for key, road_type in (
        ("road_type", number(properties.get("road_type"))),
        ("highway", _TYPE_BY_HIGHWAY.get(_highway(properties.get("highway")))),
    ):
        if road_type in _MPH_BY_TYPE:
            return RoadSpeed(_typical_mph(int(road_type), properties), key)
    return RoadSpeed(default_mph, "default")


def is_no_road(highway: object) -> bool:
    """Say whether an OpenStreetMap `highway` is not for cars, or not built yet."""
    return highway in _NO_ROADS


def speed_bin(mph: ArrayLike) -> NDArray[np.uint8]:
    """Return the bin of each speed: 1 for up to 10 mph, ..., 7 for above 60; 10 is in bin 1.

    Raises:
        ValueError: if a speed is not above 0.
    """
    speeds = np.asarray(mph, dtype=np.float64)
    if not np.all(speeds > 0):
        raise ValueError(f"a speed must be above 0 mph, got {speeds.min()}")
    return np.clip(np.ceil(speeds / BIN_MPH), 1, BINS).astype(np.uint8)


def number(value: object) -> float | None:
    """Read a number that may be a string, as SpaceNet writes them; None if it is none."""
    try:
        found = float(str(value).strip())
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _typical_mph(road_type: int, properties: Mapping[str, Any]) -> float:
    few, many = _MPH_BY_TYPE[road_type]
    lanes = next(
        (n for key in ("lane_number", "lane_numbe", "lanes") if (n := number(properties.get(key)))),
        1.0,
    )
    factor = _UNPAVED_FACTOR if _is_unpaved(properties) else 1.0
    return (many if lanes >= _MANY_LANES else few) * factor


def _is_unpaved(properties: Mapping[str, Any]) -> bool:
    return number(properties.get("paved")) == 2 or properties.get("surface") in {  # noqa: PLR2004 - SpaceNet: 1 paved, 2 unpaved, 3 unknown
        "unpaved",
        "gravel",
        "dirt",
        "ground",
        "earth",
        "sand",
        "grass",
        "mud",
        "compacted",
        "fine_gravel",
    }


def _highway(value: object) -> str:
    return str(value).removesuffix("_link")


def _maxspeed_mph(value: object) -> float | None:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(mph|km/h|kmh|kph)?\s*", str(value))
    if found is None or float(found[1]) == 0:
        return None
    return float(found[1]) / (1 if found[2] == "mph" else KPH_PER_MPH)
