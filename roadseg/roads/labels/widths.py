"""Widths: what a label's `width` says in metres, and its number of lanes."""

import re

from roadseg.roads.labels.tags import text
from roadseg.roads.speeds import number

NARROWEST_M, WIDEST_M = 1.0, 100.0
MOST_LANES = 16

_M_PER_UNIT = {
    **dict.fromkeys(("", "m", "meter", "meters", "metre", "metres"), 1.0),
    "cm": 0.01,
    "km": 1000.0,
    "mi": 1609.344,
    **dict.fromkeys(("ft", "feet", "foot", "'"), 0.3048),
}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z']*)")
_FEET = re.compile(r"(\d+)'\s*(\d+(?:\.\d+)?)(?:\"|'')")


def width_m(value: object) -> float | None:
    r"""Return the width that a `width` states, in metres; None if it states none.

    Understood are 7, "7", "7.5 m", "7,5", "23 ft", "20'6\"" and lists of these ("5;6"), of which
    the widest counts. A width below 1 m or above 100 m is that of something else, or a mistake,
    and counts as none.

    Source: OpenStreetMap wiki, Key:width and Map features/Units.
    """
    stated = text(value).lower().replace(",", ".")
    widths = [_one_width_m(part.strip()) for part in stated.split(";")]
    return max((m for m in widths if m and NARROWEST_M <= m <= WIDEST_M), default=None)


def lane_count(value: object) -> float | None:
    """Return the number of lanes that a label states; None if none, below 1 or above 16.

    Of a list ("2;3") the larger number counts. A half ("1.5") is a road between one and two.
    """
    numbers = [number(part) for part in re.split(r"[;|,]", text(value))]
    return max((lanes for lanes in numbers if lanes and 1 <= lanes <= MOST_LANES), default=None)


def _one_width_m(stated: str) -> float | None:
    if feet := _FEET.fullmatch(stated):
        return (12 * float(feet[1]) + float(feet[2])) * 0.0254
    length = _LENGTH.fullmatch(stated)
    factor = length and _M_PER_UNIT.get(length[2])
    return float(length[1]) * factor if length and factor else None
