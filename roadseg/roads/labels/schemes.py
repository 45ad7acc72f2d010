"""Schemes: what the attributes of a label say of speed and width, and which labels are roads."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from roadseg.arrays import Array, Bools, Floats, Texts
from roadseg.roads.labels.highways import RoadClasses, classify, is_unpaved, usual_mph
from roadseg.roads.labels.maxspeed import maxspeed_mph
from roadseg.roads.labels.tags import PACKED, Tags, highway_key, number, read_tags, text
from roadseg.roads.labels.traffic import DEFAULT, NO_STRUCTURE, ONE_WAY, Traffic, read_traffic
from roadseg.roads.labels.traffic import KEYS as TRAFFIC_KEYS
from roadseg.roads.options import LabelOptions, SchemeName
from roadseg.roads.speeds import KPH_PER_MPH, SpeedUnit

OWN_SPEED = "speed_kph"  # The key that roadseg and osmnx write.
# Keys of seconds, of which the first wins: SpaceNet's and CRESI's, osmnx's and ours, a Shapefile's.
TIMES = ("travel_time_s", "travel_time", "travel_tim")

# Keys of the speeds that SpaceNet's files and CRESI write, of which the first wins.
_STATED: dict[str, SpeedUnit] = {
    "inferred_speed_mph": "mph",
    "speed_mph": "mph",
    "inferred_speed_mps": "m/s",
    "speed_m/s": "m/s",
}
_BOTH_WAYS = ("maxspeed:forward", "maxspeed:backward")
_LIMITS = ("maxspeed", *_BOTH_WAYS, "zone:maxspeed", "source:maxspeed", "maxspeed:type")
_PAVING = ("paved", "surface")
_LANES = ("lane_number", "lane_numbe", "lanes")  # Shapefiles cut names to ten letters.

_SPEED_DECIMALS = 9  # Of km/h: a speed that was made mph comes back as it was.
_UNPAVED = 2  # SpaceNet's `paved` is 1 for paved, 2 for unpaved, 3 for unknown.
_SEEN = LabelOptions()  # Roads for cars that images show.
NARROWEST_M, WIDEST_M = 1.0, 100.0
MOST_LANES = 16
_LANE_M = 3.5  # Width of a lane.
_M_PER_UNIT = {
    **dict.fromkeys(("", "m", "meter", "meters", "metre", "metres"), 1.0),
    "cm": 0.01,
    "km": 1000.0,
    "mi": 1609.344,
    **dict.fromkeys(("ft", "feet", "foot", "'"), 0.3048),
}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z']*)")
_FEET = re.compile(r"(\d+)'\s*(\d+(?:\.\d+)?)(?:\"|'')")


@dataclass(frozen=True)
class Attributes:
    """Speeds, times and widths by the attributes; all arrays of shape (features,).

    Attributes:
        scheme: by which they were read; never "auto".
        mph: speed, above 0.
        source: key that the speed came from, "default" if none.
        travel_time_s: seconds to drive the whole feature, above 0; NaN where none are stated.
        width_m: whole width, above 0.
        left_out: "" for a road to keep, else the reason: "not for cars", "tunnel",
            "no highway tag".
        traffic: who may drive there, and its name.
    """

    scheme: SchemeName
    mph: Floats
    source: Texts
    travel_time_s: Floats
    width_m: Floats
    left_out: Texts
    traffic: Traffic


def choose_scheme(keys: Iterable[str]) -> SchemeName:
    """Choose the scheme of a file by the keys of its features; never "auto".

    "spacenet" where there is a `road_type` or a speed as SpaceNet and CRESI write it; "osm"
    where there is a `maxspeed` or a class of road (`highway`, the `other_tags` of a .osm.pbf,
    Geofabrik's `fclass`); "attribute" where there is a `speed_kph`, as in the graphs that roadseg
    writes; else "constant".
    """
    names = set(keys)
    if names & {"road_type", *_STATED}:
        return "spacenet"
    if "maxspeed" in names or highway_key(names):
        return "osm"
    return "attribute" if OWN_SPEED in names else "constant"


def wanted_keys(keys: Iterable[str], options: LabelOptions) -> list[str]:
    """Return those keys of a file that the scheme reads, in the file's order."""
    names = list(keys)
    read = {*_keys_read(names, _scheme(names, options), options), PACKED}
    return [key for key in names if key in read]


def read_attributes(
    columns: Mapping[str, Array], features: int, options: LabelOptions
) -> Attributes:
    """Read speed, travel time and width of features, and which of them are not roads.

    The first of these that a feature has gives its speed, else it is `default_speed_mph`:

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
    """
    scheme = _scheme(columns, options)
    tags = read_tags(columns, features, _keys_read(columns, scheme, options))
    classes = classify(tags.highways, options.exclude)
    lanes = _stated_lanes(tags)
    stated_s = np.stack([tags.numbers(key, number) for key in TIMES])
    seconds = stated_s[np.argmax(stated_s > 0, axis=0), np.arange(tags.features)]
    mph, source = _speeds(tags, classes, lanes, scheme, options)
    unseen = _left_out(tags, classify(tags.highways, _SEEN.exclude), scheme, _SEEN)
    traffic = read_traffic(tags, source, unseen)
    is_one_way = (traffic.one_way != 0) | (classes.is_motorway & (tags.words(ONE_WAY) == ""))
    return Attributes(
        scheme=scheme,
        mph=mph,
        source=source,
        travel_time_s=np.where(seconds > 0, seconds, np.nan),
        width_m=_widths(tags, lanes, is_one_way, options),
        left_out=_left_out(tags, classes, scheme, options),
        traffic=traffic,
    )


def stated_travel(columns: Mapping[str, Array], features: int) -> tuple[Floats, Floats, Traffic]:
    """Return what attributes say of speed (km/h), travel time (seconds) and traffic.

    The first two have shape (features,), and are NaN where nothing is said. Speeds are those of
    `read_attributes` by "auto". Arguments are those of it, too.
    """
    attributes = read_attributes(columns, features, LabelOptions())
    speed_kph = (attributes.mph * KPH_PER_MPH).round(_SPEED_DECIMALS)
    speed_kph = np.where(attributes.source == DEFAULT, np.nan, speed_kph)
    return speed_kph, attributes.travel_time_s, attributes.traffic


def _scheme(keys: Collection[str], options: LabelOptions) -> SchemeName:
    return choose_scheme(keys) if options.scheme == "auto" else options.scheme


def _keys_read(keys: Collection[str], scheme: SchemeName, options: LabelOptions) -> tuple[str, ...]:
    """Return all keys that a scheme looks at in a file, whether it has them or not."""
    typical = (*_LANES, *_PAVING)
    of_speed: dict[SchemeName, tuple[str, ...]] = {
        "spacenet": (OWN_SPEED, *_STATED, "road_type", *typical),
        "osm": (OWN_SPEED, *_LIMITS, *typical),
        "attribute": (_speed_attribute(options)[0],),
    }
    of_width = {"attribute": (options.width_key,), "lanes": _LANES}
    of_scheme = (*of_speed.get(scheme, ()), *of_width.get(options.width, ()))
    return (highway_key(keys), "tunnel", *TIMES, *TRAFFIC_KEYS, *of_scheme)


def _speed_attribute(options: LabelOptions) -> tuple[str, SpeedUnit]:
    if options.scheme == "attribute" and options.speed_key:
        return options.speed_key, options.speed_unit
    return OWN_SPEED, "km/h"


def require_speed_key(keys: Collection[str], options: LabelOptions) -> None:
    """Refuse a file without the attribute from which the scheme "attribute" takes speeds.

    Raises:
        ValueError: if it is not among the keys of the file.
    """
    key, _ = _speed_attribute(options)
    if options.scheme == "attribute" and key not in keys and PACKED not in keys:
        has = ", ".join(keys) or "none"
        raise ValueError(f"no attribute {key!r} to take speeds from; its attributes: {has}")


def _speeds(
    tags: Tags,
    classes: RoadClasses,
    lanes: Floats,
    scheme: SchemeName,
    options: LabelOptions,
) -> tuple[Floats, Texts]:
    """Return speed and source: of the first candidate that says something."""
    candidates = {}
    if scheme == "spacenet":
        candidates = _own_mph(tags) | _stated_mph(tags) | _usual_mph(tags, classes, lanes)
    elif scheme == "osm":
        candidates = _own_mph(tags) | _limit_mph(tags) | _usual_mph(tags, classes, lanes)
    elif scheme == "attribute":
        key, unit = _speed_attribute(options)
        candidates = {key: tags.numbers(key, partial(maxspeed_mph, unit=unit))}
    candidates[DEFAULT] = np.full(tags.features, options.default_speed_mph)
    table = np.stack(list(candidates.values()))
    chosen = np.argmax(~np.isnan(table), axis=0)
    return table[chosen, np.arange(tags.features)], np.array(list(candidates))[chosen]


def _own_mph(tags: Tags) -> dict[str, Floats]:
    return {OWN_SPEED: tags.numbers(OWN_SPEED, partial(maxspeed_mph, unit="km/h"))}


def _stated_mph(tags: Tags) -> dict[str, Floats]:
    return {
        key: tags.numbers(key, partial(maxspeed_mph, unit=unit)) for key, unit in _STATED.items()
    }


def _limit_mph(tags: Tags) -> dict[str, Floats]:
    limits = {key: tags.numbers(key, maxspeed_mph) for key in _LIMITS}
    forward, backward = (limits[key] for key in _BOTH_WAYS)
    forward[forward < backward] = np.nan  # So that the faster of both is taken.
    return limits


def _usual_mph(tags: Tags, classes: RoadClasses, lanes: Floats) -> dict[str, Floats]:
    types = {"road_type": tags.numbers("road_type", number)}
    if key := highway_key(tags.columns):
        types[key] = classes.road_type
    unpaved = tags.numbers("paved", number) == _UNPAVED
    unpaved |= tags.numbers("surface", lambda surface: float(is_unpaved(surface.lower()))) == 1
    return {key: usual_mph(road_type, lanes, unpaved) for key, road_type in types.items()}


def _stated_lanes(tags: Tags) -> Floats:
    """Return the number of lanes that each feature states, shape (features,): NaN for none."""
    lanes = np.full(tags.features, np.nan)
    for key in _LANES:
        lanes = np.where(np.isnan(lanes), tags.numbers(key, lane_count), lanes)
    return lanes


def _widths(tags: Tags, lanes: Floats, is_one_way: Bools, options: LabelOptions) -> Floats:
    width = np.full(tags.features, np.nan)
    if options.width == "attribute":
        width = tags.numbers(options.width_key, width_m)
    elif options.width == "lanes":
        width = _road_lanes(tags, lanes, is_one_way) * _LANE_M
    return np.where(np.isnan(width), options.width_m, width)


def _road_lanes(tags: Tags, stated: Floats, is_one_way: Bools) -> Floats:
    """Return the number of lanes of each feature, shape (features,).

    A road that states none has one if it is one-way (as motorways, what leads to one, and
    roundabouts are unless they say no), else two; but it is NaN in files that know neither lanes
    nor classes of road.
    """
    if not highway_key(tags.columns) and not any(key in tags for key in _LANES):
        return stated
    return np.where(np.isnan(stated), np.where(is_one_way, 1, 2), stated)


def _left_out(tags: Tags, classes: RoadClasses, scheme: SchemeName, options: LabelOptions) -> Texts:
    reason = np.full(tags.features, "", dtype="<U14")
    if not options.tunnels:
        reason[~np.isin(tags.words("tunnel"), NO_STRUCTURE)] = "tunnel"
    if highway_key(tags.columns):
        # Every edge of a graph is a road, and graphs have speeds of their own.
        if scheme == "osm" and OWN_SPEED not in tags:
            reason[tags.highways == ""] = "no highway tag"
        reason[classes.is_excluded] = "not for cars"
    return reason


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
