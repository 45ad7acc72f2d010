"""Overture: its transportation segments as features with tags of OpenStreetMap."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from roadseg.arrays import Array
from roadseg.roads.labels.traffic import CARS, ONE_WAY

_SEGMENT = ("subtype", "class", "connectors")  # Columns by which segments are known.
_READ = ("subtype", "class", "names", "speed_limits", "access_restrictions", "road_flags")
_ID = "id"  # This column is kept as it is.
_CAR_MODES = {"vehicle", "motor_vehicle", "car"}
_TAGS = ("highway", "name", "maxspeed", ONE_WAY, CARS, "tunnel", "bridge")


def is_segments(keys: Collection[str]) -> bool:
    """Return whether a file has the columns of Overture's segments."""
    return all(key in keys for key in _SEGMENT)


def segment_columns(keys: Collection[str]) -> list[str]:
    """Return the columns of segments that `segment_tags` reads."""
    return [key for key in (_ID, *_READ) if key in keys]


def segment_tags(columns: Mapping[str, Array], features: int) -> dict[str, Array]:
    """Return what segments say of roads, as tags of OpenStreetMap; None where they say nothing.

    Their `id` stays.

    1. Railways and ferries (`subtype`) have no `highway`. A `class` is one, "unknown" is "road",
       and a link has the ending `_link`.
    2. The first limit for cars that holds at all times counts, on however much of the segment.
    3. Cars that are denied in one heading make it one-way, in both the road is closed; else it is
       driven both ways, even a motorway. Rules for a part of the segment, for some times, or for
       some users only are ignored.

    Source: https://docs.overturemaps.org/schema/reference/transportation/segment.
    """
    nothing = np.full(features, None)
    # Pandas has NaN for what is missing; none of these columns holds numbers.
    cells = (
        [None if isinstance(value, float) else value for value in columns.get(key, nothing)]
        for key in _READ
    )
    rows = zip(*cells, strict=True)
    tags = [_tags(dict(zip(_READ, row, strict=True))) for row in rows]
    ids = {_ID: columns[_ID]} if _ID in columns else {}
    return ids | {key: np.array([row.get(key) for row in tags], dtype=object) for key in _TAGS}


def _tags(segment: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of one segment."""
    if segment["subtype"] != "road" or not segment["class"]:
        return {}
    highway = "road" if segment["class"] == "unknown" else segment["class"]
    flags = {
        flag
        for rule in _rules(segment["road_flags"])
        if not _is_part(rule)
        for flag in _rules(rule["values"])
    }
    tags = {"highway": f"{highway}_link" if "is_link" in flags else highway}
    if name := (segment["names"] or {}).get("primary"):
        tags["name"] = name
    if speed := _limit(segment["speed_limits"]):
        tags["maxspeed"] = speed
    tags |= {key: "yes" for key in ("tunnel", "bridge") if f"is_{key}" in flags}
    return tags | _access(segment["access_restrictions"])


def _limit(limits: Any) -> str:  # noqa: ANN401 - of a nested column
    for rule in _rules(limits):
        speed, when = rule.get("max_speed"), rule.get("when") or {}
        if speed and _is_for_cars(when) and not when.get("during") and not when.get("vehicle"):
            return f"{speed['value']} {speed['unit']}"
    return ""


def _access(rules: Any) -> dict[str, str]:  # noqa: ANN401 - of a nested column
    denied = set()
    for rule in _rules(rules):
        when = rule.get("when") or {}
        some = any(
            when.get(key) is not None for key in ("during", "using", "recognized", "vehicle")
        )
        if rule.get("access_type") == "denied" and _is_for_cars(when) and not some | _is_part(rule):
            heading = when.get("heading")
            denied |= {heading} if heading else {"forward", "backward"}
    if denied == {"forward", "backward"}:
        return {CARS: "no"}
    return {ONE_WAY: "yes" if denied == {"backward"} else "-1" if denied else "no"}


def _is_for_cars(when: Mapping[str, Any]) -> bool:
    modes = set(_rules(when.get("mode")))
    return not modes or bool(modes & _CAR_MODES)


def _is_part(rule: Mapping[str, Any]) -> bool:
    return rule.get("between") is not None


def _rules(values: Iterable[Any] | None) -> list[Any]:
    return [] if values is None else list(values)
