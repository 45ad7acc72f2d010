"""Units: lengths and speeds as people read them, metric or in miles; files and JSON stay metric."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Units = Literal["metric", "miles"]
ShownSpeed = Literal["km/h", "mph"]

KM_PER_MILE = 1.609344
_M_PER_FOOT = 0.3048

# As a locale does, they hold for all that a process shows: the config chooses them once.
_chosen: ContextVar[Units] = ContextVar("units", default="metric")


def chosen_units() -> Units:
    """Return the units in which lengths and speeds are shown."""
    return _chosen.get()


def choose_units(units: Units) -> None:
    """Show lengths and speeds in these units from now on."""
    _chosen.set(units)


@contextmanager
def shown_in(units: Units) -> Iterator[None]:
    """Show lengths and speeds in these units inside the block."""
    before = _chosen.set(units)
    try:
        yield
    finally:
        _chosen.reset(before)


def is_metric() -> bool:
    """Return whether metric units are shown."""
    return _chosen.get() == "metric"


def road_unit() -> str:
    """Return the unit of lengths of roads: `km` or `mi`."""
    return "km" if is_metric() else "mi"


def to_road_unit(km: float) -> float:
    """Return a length of roads in `road_unit`."""
    return km if is_metric() else km / KM_PER_MILE


def road_text(km: float, decimals: int = 2) -> str:
    """Return a length of roads: `1.61 km`, `1.00 mi`."""
    return f"{to_road_unit(km):.{decimals}f} {road_unit()}"


def per_road_unit(per_km: float) -> float:
    """Return a number per km as a number per `road_unit`."""
    return per_km if is_metric() else per_km * KM_PER_MILE


def area_text(km2: float) -> str:
    """Return an area: `2.59 km2`, `1.00 mi2`."""
    return f"{km2:.2f} km2" if is_metric() else f"{km2 / KM_PER_MILE**2:.2f} mi2"


def short_unit() -> str:
    """Return the unit of short distances: `m` or `ft`."""
    return "m" if is_metric() else "ft"


def to_short_unit(metres: float) -> float:
    """Return a short distance in `short_unit`."""
    return metres if is_metric() else metres / _M_PER_FOOT


def short_text(metres: float) -> str:
    """Return a short distance: `3.7 m`, `12 ft`."""
    return f"{to_short_unit(metres):.{1 if is_metric() else 0}f} {short_unit()}"


def distance_text(metres: float) -> str:
    """Return a distance of any length, whole metres or feet up to a kilometre or a mile."""
    per_unit_m, unit = map_unit(metres)
    value = metres / per_unit_m
    return f"{value:,.1f} {unit}" if unit == road_unit() else f"{value:.0f} {unit}"


def map_unit(length_m: float) -> tuple[float, str]:
    """Return the unit for a length on a map: its metres, and what it is called."""
    long = (1000.0, "km") if is_metric() else (KM_PER_MILE * 1000, "mi")
    short = (1.0, "m") if is_metric() else (_M_PER_FOOT, "ft")
    return long if length_m >= long[0] else short


def speed_unit() -> ShownSpeed:
    """Return the unit of speeds."""
    return "km/h" if is_metric() else "mph"


def to_speed_unit(kph: float) -> float:
    """Return a speed in `speed_unit`."""
    return kph if is_metric() else kph / KM_PER_MILE


def speed_text(kph: float) -> str:
    """Return a speed in whole units: `40 km/h`, `25 mph`."""
    return f"{to_speed_unit(kph):.0f} {speed_unit()}"
