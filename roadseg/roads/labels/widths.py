"""Widths: how wide a road is, by what its label says of width or lanes."""

import re

import numpy as np
from numpy.typing import NDArray

from roadseg.roads.labels.highways import are_of, highway_keys, highways
from roadseg.roads.labels.tags import Tags, text
from roadseg.roads.speeds import number

LANE_KEYS = ("lane_number", "lane_numbe", "lanes")  # Shapefile cuts names to ten letters
DIRECTION_KEYS = ("oneway", "junction")

NARROWEST_M, WIDEST_M = 1.0, 100.0
MOST_LANES = 16

_M_PER_UNIT = {
    **dict.fromkeys(("", "m", "meter", "meters", "metre", "metres"), 1.0),
    "cm": 0.01,
    "km": 1000.0,
    "mi": 1609.344,
    **dict.fromkeys(("ft", "feet", "foot", "'"), 0.3048),
}
_ONE_WAY = ("yes", "1", "true", "-1")
_ONE_WAY_GEOFABRIK = ("f", "t")  # along and against the line; b is both ways
_ROUND = ("roundabout", "circular")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z']*)")
_FEET = re.compile(r"(\d+)'\s*(\d+(?:\.\d+)?)(?:\"|'')")


def width_m(value: object) -> float | None:
    r"""Say which width a `width` states, in metres; None if it states none.

    Understood are 7, "7", "7.5 m", "7,5", "23 ft", "20'6\"" and lists of these ("5;6"), of which
    the widest counts. A width below 1 m or above 100 m is that of something else, or a mistake,
    and counts as none.

    Source: OpenStreetMap wiki, Key:width and Map features/Units.
    """
    stated = text(value).lower().replace(",", ".")
    found = [_one_width_m(part.strip()) for part in stated.split(";")]
    return max((m for m in found if m and NARROWEST_M <= m <= WIDEST_M), default=None)


def lane_count(value: object) -> float | None:
    """Say how many lanes a label states; None if none, fewer than 1 or more than 16.

    Of a list ("2;3") the larger number counts. A half ("1.5") is a road between one and two.
    """
    found = [number(part) for part in re.split(r"[;|,]", text(value))]
    return max((lanes for lanes in found if lanes and 1 <= lanes <= MOST_LANES), default=None)


def stated_lanes(tags: Tags) -> NDArray[np.float64]:
    """Return the number of lanes that each feature states, shape (features,): NaN for none."""
    found = np.full(tags.features, np.nan)
    for key in LANE_KEYS:
        found = np.where(np.isnan(found), tags.numbers(key, lane_count), found)
    return found


def road_lanes(tags: Tags) -> NDArray[np.float64]:
    """Return the number of lanes of each feature, shape (features,).

    A road that states none has one if it is one-way (as motorways and roundabouts are unless
    they say no), else two; but it is NaN in files that know neither lanes nor classes of road.
    """
    stated = stated_lanes(tags)
    if not highway_keys(tags.columns) and not any(key in tags for key in LANE_KEYS):
        return stated
    return np.where(np.isnan(stated), np.where(_one_way(tags), 1, 2), stated)


def _one_way(tags: Tags) -> NDArray[np.bool_]:
    said = tags.words("oneway")
    yes = (*_ONE_WAY, *_ONE_WAY_GEOFABRIK) if "fclass" in tags else _ONE_WAY
    implied = np.isin(tags.words("junction"), _ROUND) | are_of(highways(tags), {"motorway"})
    found: NDArray[np.bool_] = np.isin(said, yes) | (implied & (said == ""))
    return found


def _one_width_m(stated: str) -> float | None:
    if feet := _FEET.fullmatch(stated):
        return (12 * float(feet[1]) + float(feet[2])) * 0.0254
    length = _LENGTH.fullmatch(stated)
    factor = length and _M_PER_UNIT.get(length[2])
    return float(length[1]) * factor if length and factor else None
