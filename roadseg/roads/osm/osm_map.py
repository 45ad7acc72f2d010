"""OsmMap: the roads of an OpenStreetMap file around a place, and what is in their way."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely

from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES
from roadseg.roads.conflation.obstacles import Obstacles
from roadseg.roads.graph.road_graph import RoadGraph, separate_edges
from roadseg.roads.osm.osm_objects import (
    OF_MAPS,
    UNITS_PER_DEGREE,
    Box,
    CollectedObjects,
    OsmObjects,
    PlacedNode,
    is_near,
    located_ways,
)

# Classes that are no ways to drive or walk on, or not yet.
_NOT_THERE = {"proposed", "construction", "razed", "abandoned", "platform", "no", "elevator"}
# Of these the values that are in the way; of buildings all are. Trams run in streets.
_IN_THE_WAY = {
    "railway": {"rail", "light_rail", "narrow_gauge", "subway", "preserved"},
    "aeroway": {"runway", "taxiway", "apron", "helipad", "stopway"},
    "waterway": {"river", "canal", "stream", "ditch", "drain", "riverbank", "dock"},
}
_NAMES = {
    "railway": "railway",
    "aeroway": "runway or taxiway",
    "waterway": "waterway",
    "building": "building",
}
# Metres from the middle of a track, of a runway and of a stream, and from the wall of a building.
_REACH_M = {"railway": 8.0, "aeroway": 30.0, "waterway": 5.0, "building": 0.5}
_RING = 4  # Nodes of the smallest closed way that encloses an area.
_KEYS = (
    *("highway", "name", "ref", "oneway", "junction", "lanes", "surface", "tunnel"),
    *("access", "vehicle", "motor_vehicle", "motorcar"),
    *("maxspeed", "maxspeed:forward", "maxspeed:backward"),
)


@dataclass(frozen=True)
class OsmMap:
    """The roads of a part of an OpenStreetMap file.

    Attributes:
        obstacles: railways, runways, waterways and buildings, in degrees.
        extent: box around the first nodes of all roads of the file; None if there are none.
    """

    path: Path
    ways: OsmObjects
    obstacles: Obstacles
    extent: Box | None

    def graph(self) -> RoadGraph:
        """Return the ways as edges in degrees, which do not share nodes, with their tags."""
        return separate_edges(self.ways.lines, DEGREES, {**self.ways.columns(_KEYS)})


def read_osm_map(path: Path, box: Box) -> OsmMap:
    """Read the ways of an OpenStreetMap file that come near a place.

    Roads and paths of any kind are ways here; what is planned or under construction is none, and
    areas are none. Obstacles that lie in tunnels or culverts are none.

    Args:
        box: only ways whose own box meets this one are kept.

    Raises:
        DataError: if the file cannot be read, or has no ids.
        ConfigError: if osmium is not installed.
    """
    sides = [round(side * UNITS_PER_DEGREE) for side in box]
    collected, obstacles, seen = CollectedObjects(), [], set[int]()
    low, high = [2**40] * 2, [-(2**40)] * 2
    for way, nodes in located_ways(path, OF_MAPS):
        tags = dict(way.tags)
        is_road = _is_road(tags) and len(set(nodes)) > 1
        if is_road:
            low, high = [*map(min, low, nodes[0][1:])], [*map(max, high, nodes[0][1:])]
        if not is_near(nodes, sides):
            continue
        if kind := _obstacle(tags):
            obstacles.append((kind, nodes))
        if is_road and way.id in seen:
            raise DataError(
                f"{path}: contains way {way.id} several times, expected every way once; take one "
                "state out of a history with osmium time-filter"
            )
        if is_road:
            seen.add(way.id)
            collected.add_located(way, nodes, tags)
    west, south, east, north = (side / UNITS_PER_DEGREE for side in (*low, *high))
    extent = (west, south, east, north) if west <= east else None
    return OsmMap(path, collected.objects(), _as_obstacles(obstacles), extent)


def _is_road(tags: dict[str, str]) -> bool:
    """Return whether a way is a road or path that is there, and no area."""
    return tags.get("highway", "") not in ("", *_NOT_THERE) and tags.get("area", "no") != "yes"


def _obstacle(tags: dict[str, str]) -> str:
    """Return which kind of obstacle a way is, "" for none."""
    if tags.get("tunnel", "no") != "no" or tags.get("location") == "underground":
        return ""
    for key in _REACH_M:
        value = tags.get(key, "no")
        if value != "no" and (key == "building" or value in _IN_THE_WAY[key]):
            return key
    return ""


def _as_obstacles(ways: list[tuple[str, list[PlacedNode]]]) -> Obstacles:
    """Return what roads do not cross without a look, in degrees."""
    shapes = np.empty(len(ways), dtype=object)
    for row, (kind, nodes) in enumerate(ways):
        xy = np.array(nodes, dtype=np.int64)[:, 1:] / UNITS_PER_DEGREE
        is_area = kind != "railway" and len(xy) >= _RING and nodes[0] == nodes[-1]
        if len(xy) > 1:
            shapes[row] = shapely.Polygon(xy) if is_area else shapely.LineString(xy)
    kinds = [kind for kind, _ in ways]
    whole = shapes != None  # noqa: E711 - of each
    return Obstacles(
        np.array([_NAMES[kind] for kind in kinds], dtype=object)[whole],
        shapes[whole],
        np.array([_REACH_M[kind] for kind in kinds], dtype=np.float64)[whole],
    )
