"""Schemes: what the attributes of a label say of speed and width, and which labels are roads."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadseg.roads.labels.highways import (
    are_of,
    highway_keys,
    highways,
    is_unpaved,
    road_types,
    usual_mph,
)
from roadseg.roads.labels.maxspeed import maxspeed_mph
from roadseg.roads.labels.tags import PACKED, Tags, read_tags
from roadseg.roads.labels.widths import (
    DIRECTION_KEYS,
    LANE_KEYS,
    road_lanes,
    stated_lanes,
    width_m,
)
from roadseg.roads.options import LabelOptions, SchemeName
from roadseg.roads.speeds import KPH_PER_MPH, SpeedUnit, number

DEFAULT = "default"  # source of the speed of roads whose attributes say nothing of it
OWN_SPEED = "speed_kph"  # what roadseg and osmnx write
TIMES = (  # seconds, first wins: as SpaceNet and CRESI, as osmnx and roadseg, as Shapefiles cut it
    "travel_time_s",
    "travel_time",
    "travel_tim",
)

_STATED: dict[str, SpeedUnit] = {  # speeds that SpaceNet's files and CRESI write, first wins
    "inferred_speed_mph": "mph",
    "speed_mph": "mph",
    "inferred_speed_mps": "m/s",
    "speed_m/s": "m/s",
}
_BOTH_WAYS = ("maxspeed:forward", "maxspeed:backward")
_LIMITS = ("maxspeed", *_BOTH_WAYS, "zone:maxspeed", "source:maxspeed", "maxspeed:type")
_PAVING = ("paved", "surface")

_SPEED_DECIMALS = 9  # of km/h: a speed in km/h that was made mph comes back as it was
_UNPAVED = 2  # SpaceNet's `paved`: 1 paved, 2 unpaved, 3 unknown
_NO_TUNNEL = ("", "no", "0", "false", "f", "none", "culvert")  # a culvert passes below


@dataclass(frozen=True)
class Attributes:
    """What the attributes of features say; all arrays of shape (features,).

    Attributes:
        mph: speed, above 0.
        source: key that the speed came from, "default" if none.
        travel_time_s: seconds to drive the whole feature, above 0; NaN where none are stated.
        width_m: whole width, above 0.
        left_out: "" for a road to keep, else why it is none: "not for cars", "tunnel",
            "no highway tag".
    """

    mph: NDArray[np.float64]
    source: NDArray[np.str_]
    travel_time_s: NDArray[np.float64]
    width_m: NDArray[np.float64]
    left_out: NDArray[np.str_]


def choose_scheme(keys: Iterable[str]) -> SchemeName:
    """Choose the scheme of a file by the keys of its features; never "auto".

    "spacenet" where there is a `road_type` or a speed as SpaceNet and CRESI write it; "osm"
    where there is a class of road (`highway`, the `other_tags` of a .osm.pbf, Geofabrik's
    `fclass`, `class` with `type`); "attribute" where there is a `speed_kph`, as in the graphs
    that roadseg writes; else "constant".
    """
    found = set(keys)
    if found & {"road_type", *_STATED}:
        return "spacenet"
    if highway_keys(found):
        return "osm"
    return "attribute" if OWN_SPEED in found else "constant"


def wanted_keys(keys: Iterable[str], options: LabelOptions) -> list[str]:
    """Return those keys of a file that the scheme reads, in the file's order.

    Raises:
        ValueError: if the scheme is "attribute" and the file, though it has keys, has not its.
    """
    found = list(keys)
    if found:
        _check_speed_key(found, options)
    read = {*_keys_read(found, options), PACKED}
    return [key for key in found if key in read]


def read_attributes(
    columns: Mapping[str, NDArray[Any]], features: int, options: LabelOptions
) -> Attributes:
    """Read speed, travel time and width of features, and which of them are no roads.

    The first of these that a feature has gives its speed, else it is `default_mph`:

    - spacenet: `speed_kph`, `inferred_speed_mph`, `speed_mph`, `inferred_speed_mps`, `speed_m/s`;
      the usual speed of its `road_type`, or else of its `highway`, by lanes and paving.
    - osm: `speed_kph`, which graphs have; `maxspeed`; the faster of `maxspeed:forward` and
      `maxspeed:backward`; a code in `zone:maxspeed`, `source:maxspeed` or `maxspeed:type`; the
      usual speed of its class.
    - attribute: `speed_key`, numbers in `speed_unit` or with a unit of their own; by "auto"
      `speed_kph` in km/h.
    - constant: none.

    By every scheme its travel time is `travel_time_s`, or else `travel_time`, in seconds, and a
    feature is left out whose `highway` is excluded, or whose `tunnel` says so unless tunnels are
    kept; by "osm" also one without a `highway`, in a file with that key and without `speed_kph`.

    Args:
        columns: attributes by key, each of shape (features,), of any dtype; further keys do no
            harm. The text in `other_tags` counts as columns.
        features: number of features.
        options: how they are read.

    Raises:
        ValueError: if the scheme is "attribute" and there is no such key.
    """
    name = _name(columns, options)
    if features:
        _check_speed_key(columns, options)
    tags = read_tags(columns, features, _keys_read(columns, options))
    mph, source = _speeds(tags, name, options)
    times = _travel_times(tags)
    return Attributes(mph, source, times, _widths(tags, options), _left_out(tags, name, options))


def stated_travel(
    columns: Mapping[str, NDArray[Any]], features: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what attributes say of speed in km/h and of travel time in seconds, NaN for nothing.

    Speeds are those of `read_attributes` by "auto". Arguments are those of it, too.
    """
    found = read_attributes(columns, features, LabelOptions())
    speed_kph = (found.mph * KPH_PER_MPH).round(_SPEED_DECIMALS)
    return np.where(found.source == DEFAULT, np.nan, speed_kph), found.travel_time_s


def _name(keys: Collection[str], options: LabelOptions) -> SchemeName:
    return choose_scheme(keys) if options.scheme == "auto" else options.scheme


def _keys_read(keys: Collection[str], options: LabelOptions) -> tuple[str, ...]:
    """Return all keys that a scheme looks at in a file, whether it has them or not."""
    typical = (*LANE_KEYS, *_PAVING)
    of_speed: dict[SchemeName, tuple[str, ...]] = {
        "spacenet": (OWN_SPEED, *_STATED, "road_type", *typical),
        "osm": (OWN_SPEED, *_LIMITS, *typical),
        "attribute": (_speed_attribute(options)[0],),
    }
    of_width = {"attribute": (options.width_key,), "lanes": (*LANE_KEYS, *DIRECTION_KEYS)}
    of_name = of_speed.get(_name(keys, options), ())
    return (*highway_keys(keys), "tunnel", *TIMES, *of_name, *of_width.get(options.width, ()))


def _speed_attribute(options: LabelOptions) -> tuple[str, SpeedUnit]:
    if options.scheme == "attribute" and options.speed_key:
        return options.speed_key, options.speed_unit
    return OWN_SPEED, "km/h"


def _check_speed_key(keys: Collection[str], options: LabelOptions) -> None:
    key, _ = _speed_attribute(options)
    if options.scheme == "attribute" and key not in keys and PACKED not in keys:
        has = ", ".join(keys) or "none"
        raise ValueError(f"no attribute {key!r} to take speeds from; its attributes: {has}")


def _speeds(
    tags: Tags, name: SchemeName, options: LabelOptions
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return speed and source: of the first candidate that says something."""
    candidates = {}
    if name == "spacenet":
        candidates = _own_mph(tags) | _stated_mph(tags) | _usual_mph(tags)
    elif name == "osm":
        candidates = _own_mph(tags) | _limit_mph(tags) | _usual_mph(tags)
    elif name == "attribute":
        key, unit = _speed_attribute(options)
        candidates = {key: tags.numbers(key, partial(maxspeed_mph, unit=unit))}
    candidates[DEFAULT] = np.full(tags.features, options.default_speed_mph)
    table = np.stack(list(candidates.values()))
    chosen = np.argmax(~np.isnan(table), axis=0)
    return table[chosen, np.arange(tags.features)], np.array(list(candidates))[chosen]


def _own_mph(tags: Tags) -> dict[str, NDArray[np.float64]]:
    return {OWN_SPEED: tags.numbers(OWN_SPEED, partial(maxspeed_mph, unit="km/h"))}


def _stated_mph(tags: Tags) -> dict[str, NDArray[np.float64]]:
    return {
        key: tags.numbers(key, partial(maxspeed_mph, unit=unit)) for key, unit in _STATED.items()
    }


def _limit_mph(tags: Tags) -> dict[str, NDArray[np.float64]]:
    found = {key: tags.numbers(key, maxspeed_mph) for key in _LIMITS}
    forward, backward = (found[key] for key in _BOTH_WAYS)
    forward[forward < backward] = np.nan  # so that the faster of both is asked
    return found


def _usual_mph(tags: Tags) -> dict[str, NDArray[np.float64]]:
    types = {"road_type": tags.numbers("road_type", number)}
    if keys := highway_keys(tags.columns):
        types[keys[0]] = road_types(highways(tags))
    unpaved = tags.numbers("paved", number) == _UNPAVED
    unpaved |= tags.numbers("surface", lambda surface: float(is_unpaved(surface.lower()))) == 1
    lanes = stated_lanes(tags)
    return {key: usual_mph(road_type, lanes, unpaved) for key, road_type in types.items()}


def _travel_times(tags: Tags) -> NDArray[np.float64]:
    found = np.stack([tags.numbers(key, number) for key in TIMES])
    chosen = np.argmax(found > 0, axis=0)
    seconds = found[chosen, np.arange(tags.features)]
    return np.where(seconds > 0, seconds, np.nan)


def _widths(tags: Tags, options: LabelOptions) -> NDArray[np.float64]:
    found = np.full(tags.features, np.nan)
    if options.width == "attribute":
        found = tags.numbers(options.width_key, width_m)
    elif options.width == "lanes":
        found = road_lanes(tags) * options.lane_m
    return np.where(np.isnan(found), options.width_m, found)


def _left_out(tags: Tags, name: SchemeName, options: LabelOptions) -> NDArray[np.str_]:
    reason = np.full(tags.features, "", dtype="<U14")
    if not options.tunnels:
        reason[~np.isin(tags.words("tunnel"), _NO_TUNNEL)] = "tunnel"
    if highway_keys(tags.columns):
        found = highways(tags)
        if name == "osm" and OWN_SPEED not in tags:  # every edge of a graph is a road
            reason[found == ""] = "no highway tag"
        reason[are_of(found, options.exclude)] = "not for cars"
    return reason
