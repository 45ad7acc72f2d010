"""OsmMap: the roads of an OpenStreetMap file around a place, and what is in their way."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely

from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES
from roadseg.roads.conflation.obstacles import Obstacles
from roadseg.roads.graph.road_graph import RoadGraph, separate_edges
from roadseg.roads.labels.traffic import SPEED_KNOWN
from roadseg.roads.osm.osm_objects import (
    OF_MAPS,
    Box,
    OsmObjects,
    ways_near,
)
from roadseg.system.text import count, first

# Classes that are not ways to drive or walk on, or not yet.
_NOT_THERE = {"proposed", "construction", "razed", "abandoned", "platform", "no", "elevator"}
# Of these the values that are in the way; of buildings all are. Trams run in streets.
_IN_THE_WAY = {
    "railway": {"rail", "light_rail", "narrow_gauge", "subway", "preserved"},
    "aeroway": {"runway", "taxiway", "apron", "helipad", "stopway"},
    "waterway": {"river", "canal", "stream", "ditch", "drain", "riverbank", "dock"},
}
_NAMES = {"aeroway": "runway or taxiway"}  # Others are called as their key.
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
    """

    path: Path
    ways: OsmObjects
    obstacles: Obstacles

    def graph(self) -> RoadGraph:
        """Return the ways as edges in degrees, which do not share nodes, with their tags."""
        columns = self.ways.columns((*_KEYS, SPEED_KNOWN))
        if SPEED_KNOWN in columns:  # A map that `roadseg convert` wrote.
            columns[SPEED_KNOWN] = (columns[SPEED_KNOWN] != "0").astype(np.uint8)
        return separate_edges(self.ways.lines, DEGREES, columns)


def read_osm_map(path: Path, box: Box) -> OsmMap:
    """Read the ways of an OpenStreetMap file that come near a place.

    Ways are roads and paths of any kind, except areas and what is planned or under construction.
    Obstacles in tunnels and culverts are left out.

    Args:
        box: only ways whose own box meets this one are kept.

    Raises:
        DataError: if the file cannot be read, has a way in several versions, or lacks nodes of
            these ways.
        ConfigError: if osmium is not installed.
    """
    near, incomplete = ways_near(path, box, OF_MAPS)
    if incomplete:
        raise DataError(
            f"{path}: lacks nodes of {count(len(incomplete), 'way')} near the predicted roads "
            f"({first(incomplete)}), expected complete ways, or their gaps are filled again; "
            "take an extract with all nodes of its ways, as osmium extract makes it"
        )
    is_road = np.array([_is_road(tags) for tags in near.way_tags], dtype=bool)
    is_road &= shapely.length(near.lines) > 0
    return OsmMap(path, near.take(is_road), _obstacles(near))


def _is_road(tags: dict[str, str]) -> bool:
    """Return whether a way is a road or path that is there, and no area."""
    return tags.get("highway", "") not in ("", *_NOT_THERE) and tags.get("area", "no") != "yes"


def _obstacles(ways: OsmObjects) -> Obstacles:
    """Return what roads do not cross without a look, in degrees."""
    kinds = np.array([_obstacle(tags) for tags in ways.way_tags], dtype=object)
    chosen = np.flatnonzero(kinds != "")
    kinds, shapes = kinds[chosen].tolist(), ways.lines[chosen]
    for row, (kind, line) in enumerate(zip(kinds, shapes, strict=True)):
        if kind != "railway" and line.is_closed and shapely.get_num_coordinates(line) >= _RING:
            shapes[row] = shapely.Polygon(line.coords)
    return Obstacles(
        np.array([_NAMES.get(kind, kind) for kind in kinds], dtype=object),
        shapes,
        np.array([_REACH_M[kind] for kind in kinds], dtype=np.float64),
    )


def _obstacle(tags: dict[str, str]) -> str:
    """Return which kind of obstacle a way is, "" for none."""
    if tags.get("tunnel", "no") != "no" or tags.get("location") == "underground":
        return ""
    for key in _REACH_M:
        value = tags.get(key, "no")
        if value != "no" and (key == "building" or value in _IN_THE_WAY[key]):
            return key
    return ""
