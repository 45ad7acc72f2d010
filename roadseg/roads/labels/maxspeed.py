"""Maxspeed: what OpenStreetMap's `maxspeed`, in all its written forms, says in mph."""

import re

from roadseg.roads.labels.tags import text
from roadseg.roads.speeds import KPH_PER_MPH, MPH_PER, SpeedUnit

WALK_KPH = 7.0  # What German courts mostly take for "Schrittgeschwindigkeit".
NO_LIMIT_KPH = 130.0  # The speed advised on German motorways without a limit.

_FASTEST_MPH = 300 * MPH_PER["km/h"]  # No road is signed faster: that is a year, or a mistake.
_FASTEST_ZONE = 130  # A larger number is that of a traffic sign, as in DE:274.

_MPH_PER_UNIT = {
    **dict.fromkeys(("mph", "mi/h"), 1.0),
    **dict.fromkeys(("km/h", "kmh", "kph", "kmph"), MPH_PER["km/h"]),
    **dict.fromkeys(("knots", "knot", "kn", "kt"), 1.852 * MPH_PER["km/h"]),
    "m/s": MPH_PER["m/s"],
}
_WORDS_KPH = {"walk": WALK_KPH, "none": NO_LIMIT_KPH}

# Limits where no sign says otherwise, km/h, by country. A number that is missing differs
# within the country, is not laid down, or is not used as a code.
# Source: OpenStreetMap wiki, Key:maxspeed (implicit values) and Default_speed_limits.
_ZONES = ("urban", "rural", "trunk", "motorway", "living_street")
_LIMITS_KPH: dict[str, tuple[float | None, ...]] = {
    "at": (50, 100, 100, 130, WALK_KPH),
    "au": (50, None, None, None, None),
    "be": (50, None, 120, 120, 20),
    "be-bru": (30, 70, None, None, None),
    "be-vlg": (50, 70, None, None, None),
    "be-wal": (50, 90, None, None, None),
    "bg": (50, 90, 120, 140, 20),
    "by": (60, 90, None, 110, 20),
    "ch": (50, 80, 100, 120, 20),
    "cz": (50, 90, 110, 130, 20),
    "de": (50, 100, None, NO_LIMIT_KPH, WALK_KPH),
    "dk": (50, 80, None, 130, None),
    "ee": (50, 90, None, None, 20),
    "es": (50, 90, 90, 120, 20),
    "fi": (50, 80, 100, 120, 20),
    "fr": (50, 80, None, 130, 20),
    "gr": (50, 90, 110, 130, None),
    "hu": (50, 90, 110, 130, 20),
    "it": (50, 90, 110, 130, None),
    "lt": (50, 90, None, None, 20),
    "nl": (50, 80, 100, 130, 15),
    "no": (50, 80, None, None, None),
    "pl": (50, 90, None, 140, 20),
    "pt": (50, 90, 100, 120, 20),
    "ro": (50, 90, 100, 130, 20),
    "rs": (50, 80, 100, 130, 10),
    "ru": (60, 90, None, 110, 20),
    "se": (50, 70, None, None, None),
    "si": (50, 90, 110, 130, 10),
    "sk": (50, 90, None, 130, 20),
    "tr": (50, 90, 110, 130, 20),
    "ua": (50, 90, 110, 130, 20),
    "uz": (70, 100, None, 110, 30),
    "za": (60, 100, None, 120, None),
}
_CODES_KPH = {
    **{
        f"{country}:{zone}": limit
        for country, limits in _LIMITS_KPH.items()
        for zone, limit in zip(_ZONES, limits, strict=True)
        if limit is not None
    },
    "at:bicycle_road": 30.0,
    "be:cyclestreet": 30.0,
    "de:bicycle_road": 30.0,
    "gb:motorway": 70 * KPH_PER_MPH,
    "gb:nsl_dual": 70 * KPH_PER_MPH,
    "gb:nsl_restricted": 30 * KPH_PER_MPH,
    "gb:nsl_single": 60 * KPH_PER_MPH,
    "jp:express": 100.0,
    "jp:nsl": 60.0,
}
_MPH_COUNTRIES = {"gb", "us"}

_LIST = re.compile(r"[;|,]")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z/]*)")
_CODE = re.compile(r"(?:([a-z]{2})[-:])?(?:([a-z0-9]{1,3}):)?([a-z0-9_: ]+)")
_ZONE_NUMBER = re.compile(r"(?:(?:zone|tempo)[ :]?)?(\d+)([ _]?mph)?")


def maxspeed_mph(value: object, *, unit: SpeedUnit = "km/h") -> float | None:
    """Return the speed that a `maxspeed` states, in mph; None if it states none.

    Understood are numbers with or without a unit ("50", "50 km/h", "30mph", "10 knots"), "walk"
    (7 km/h), "none" (130 km/h), codes of a zone ("DE:zone:30", "Zone 30") or of a country's
    limits ("DE:urban", "GB:nsl_single"), and lists of these ("50;30"). Of a list the fastest
    counts, as of roads that overlap: its values are those of the directions or lanes of one
    road, or of ways that were joined. None is what the rest gives, such as "signals" or
    "variable", a country that is not in the table (in the United States limits differ by
    state), 0, negative numbers, and anything above 300 km/h.

    Args:
        value: text or number; null is allowed.
        unit: of numbers that name none.

    Source: OpenStreetMap wiki, Key:maxspeed, Key:zone:maxspeed, Default_speed_limits.
    """
    stated = text(value).lower()
    speeds = [mph for part in _LIST.split(stated) if (mph := _one_mph(part.strip(), unit))]
    return max(speeds, default=None)


def _one_mph(stated: str, unit: SpeedUnit) -> float | None:
    number = _NUMBER.fullmatch(stated)
    if number is None:
        kph = _WORDS_KPH.get(stated) or _code_kph(stated)
        return kph and kph * MPH_PER["km/h"]
    factor = _MPH_PER_UNIT.get(number[2] or unit)
    mph = factor and float(number[1]) * factor
    return mph if mph and mph <= _FASTEST_MPH else None


def _code_kph(stated: str) -> float | None:
    code = _CODE.fullmatch(stated)
    if code is None:
        return None
    country = (code[1] or "").replace("uk", "gb")
    region = f"-{code[2]}" if code[2] else ""
    number = _ZONE_NUMBER.fullmatch(code[3])
    if number is None:
        return _CODES_KPH.get(f"{country}{region}:{code[3]}")
    in_mph = number[2] or country in _MPH_COUNTRIES
    kph = float(number[1]) * (KPH_PER_MPH if in_mph else 1)
    return kph if kph <= _FASTEST_ZONE else None
