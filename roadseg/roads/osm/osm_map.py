"""OsmMap: the ways of an OpenStreetMap file with their ids, versions and nodes."""

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from roadseg.arrays import Array, Bools, Floats, Ints, Objects, Shapes
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES
from roadseg.roads.formats.extras import check_package
from roadseg.roads.graph.road_graph import RoadGraph, lines_from, unjoined
from roadseg.roads.labels.osm_deletions import deleted_objects
from roadseg.roads.labels.pbf_blocks import check_pbf_blocks
from roadseg.system.text import one_line

if TYPE_CHECKING:
    from osmium.osm import NodeRef, Way

_log = logging.getLogger(__name__)

OSM_SUFFIXES = (".osm", ".pbf", ".osm.gz", ".osm.bz2")  # Files that have ids.
UNITS_PER_DEGREE = 10_000_000  # OpenStreetMap keeps seven decimals.
# Classes that are no ways to drive or walk on, or not yet.
_NOT_THERE = {"proposed", "construction", "razed", "abandoned", "platform", "no", "elevator"}
_OBSTACLES = ("railway", "aeroway", "waterway", "building")
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
_NOWHERE = -(2**40)  # Units; no place on earth.
_RING = 4  # Nodes of the smallest closed way that encloses an area.
_KEYS = (
    *("highway", "name", "ref", "oneway", "junction", "lanes", "surface", "tunnel"),
    *("access", "vehicle", "motor_vehicle", "motorcar"),
    *("maxspeed", "maxspeed:forward", "maxspeed:backward"),
)

Box = tuple[float, float, float, float]  # west, south, east and north, degrees


@dataclass(frozen=True)
class OsmObstacles:
    """What roads do not cross without a look, in degrees.

    Attributes:
        kind: shape (o,), what each is called.
        shapes: shape (o,), LineStrings and Polygons.
        reach_m: shape (o,), distance up to which a road is near it.
    """

    kind: Objects
    shapes: Shapes
    reach_m: Floats


@dataclass(frozen=True)
class OsmMap:
    """The ways of a part of an OpenStreetMap file.

    Attributes:
        path: the file.
        way_id: shape (w,).
        version: shape (w,), 0 where the file does not say.
        sizes: shape (w,), number of nodes of each way.
        refs: shape (k,), ids of the nodes of all ways, one way after the other.
        places: shape (k, 2), longitude and latitude of these, in units of 1e-7 degrees.
        tags: of each way.
        obstacles: railways, runways, waterways and buildings.
        extent: box around the first nodes of all roads of the file; None if there are none.
    """

    path: Path
    way_id: Ints
    version: Ints
    sizes: Ints
    refs: Ints
    places: Ints
    tags: list[dict[str, str]]
    obstacles: OsmObstacles
    extent: Box | None

    @cached_property
    def first(self) -> Ints:
        """Where in `refs` each way begins, shape (w + 1,), and the number of all nodes."""
        return np.append(0, np.cumsum(self.sizes))

    def nodes_of(self, way: int) -> list[int]:
        """Return the ids of the nodes of a way, by its row."""
        nodes: list[int] = self.refs[self.first[way] : self.first[way + 1]].tolist()
        return nodes

    def graph(self) -> RoadGraph:
        """Return the ways as edges in degrees, which do not share nodes, with their tags."""
        lines = lines_from(self.places / UNITS_PER_DEGREE, self.sizes)
        columns = {key: [tags.get(key) for tags in self.tags] for key in _KEYS}
        attributes: dict[str, Array] = {
            key: np.array(column, dtype=object)
            for key, column in columns.items()
            if any(column) or key == "highway"
        }
        return unjoined(lines, DEGREES, attributes)

    def has(self, *keys: str) -> Bools:
        """Return which ways have a value other than "no" or "0" for one of these keys."""
        return np.array(
            [any(tags.get(key, "no") not in ("no", "0") for key in keys) for tags in self.tags],
            dtype=bool,
        )


def osmium() -> ModuleType:
    """Return the module osmium.

    Raises:
        ConfigError: if it is not installed.
    """
    check_package("osmium", needed_by="a map with ids", otherwise="convert the map to a GeoPackage")
    return importlib.import_module("osmium")


def osm_file(path: Path) -> Any:  # noqa: ANN401 - osmium has no types
    """Return a file for osmium to read; its suffix may be in capitals."""
    suffix = next((end[1:] for end in OSM_SUFFIXES if path.name.lower().endswith(end)), "")
    return osmium().io.File(str(path), suffix)


def osm_objects(path: Path, kinds: Any) -> Any:  # noqa: ANN401 - osmium has no types
    """Return the objects of a file, without those that are marked as deleted.

    Args:
        path: PBF or XML.
        kinds: of objects, as osmium combines them.
    """
    objects = osmium().FileProcessor(osm_file(path), kinds)
    deleted = deleted_objects(path)
    return objects.with_filter(_Deletions(deleted)) if deleted else objects


class _Deletions:
    """A filter of osmium's, whose methods return True for what is left out."""

    def __init__(self, deleted: set[tuple[str, int]]) -> None:
        self._deleted = deleted

    def node(self, node: Any) -> bool:  # noqa: ANN401 - osmium has no types
        return ("node", node.id) in self._deleted

    def way(self, way: Any) -> bool:  # noqa: ANN401 - osmium has no types
        return ("way", way.id) in self._deleted

    def relation(self, relation: Any) -> bool:  # noqa: ANN401 - osmium has no types
        return ("relation", relation.id) in self._deleted


@contextmanager
def osm_errors(path: Path) -> Iterator[None]:
    """Raise errors of libosmium as those of a file that cannot be read.

    Raises:
        DataError: if there is one.
    """
    try:
        yield
    except DataError:
        raise
    except (RuntimeError, ValueError, osmium().InvalidLocationError) as error:
        raise DataError(
            f"{path}: cannot be read as OpenStreetMap data ({one_line(error):.200}); expected a "
            "complete PBF or XML file; download it again"
        ) from error


def read_osm_map(path: Path, box: Box) -> OsmMap:
    """Read the ways of an OpenStreetMap file that come near a place.

    Roads and paths of any kind are ways here; what is planned or under construction is none, and
    areas are none. Obstacles that lie in tunnels or culverts are none.

    Args:
        path: PBF or XML.
        box: only ways whose own box meets this one are kept.

    Raises:
        DataError: if the file cannot be read, or has no ids.
        ConfigError: if osmium is not installed.
    """
    reader = _MapReader(box)
    if path.suffix.lower() == ".pbf":
        check_pbf_blocks(path)
    with osm_errors(path):
        reader.read(path)
    if reader.incomplete:
        _log.warning(
            "%s: %d ways are ignored, because nodes of theirs are not in the file",
            path,
            reader.incomplete,
        )
    return reader.result(path)


class _MapReader:
    """Reads a map, way by way."""

    def __init__(self, box: Box) -> None:
        self._box = tuple(round(side * UNITS_PER_DEGREE) for side in box)
        self._ways: list[tuple[int, int, int]] = []
        self._nodes: list[tuple[int, int, int]] = []
        self._tags: list[dict[str, str]] = []
        self._obstacles: list[tuple[str, list[tuple[int, int, int]]]] = []
        self._low, self._high = (2**40, 2**40), (-(2**40), -(2**40))
        self.incomplete = 0

    def read(self, path: Path) -> None:
        """Read all ways that have a key that matters here."""
        module = osmium()
        kinds = module.osm.NODE | module.osm.WAY
        new = dict(_new_nodes(path))
        ways = osm_objects(path, kinds).with_locations("flex_mem")
        ways.with_filter(module.filter.EntityFilter(module.osm.WAY))
        for way in ways.with_filter(module.filter.KeyFilter("highway", *_OBSTACLES)):
            if way.id == 0:
                raise DataError(
                    f"{path}: contains ways without ids, expected OpenStreetMap data with ids; "
                    "convert it to a GeoPackage to merge roads without changing OpenStreetMap"
                )
            if way.deleted:
                continue
            nodes = [(node.ref, *_place(node, new)) for node in way.nodes]
            if not nodes or any(x == _NOWHERE for _, x, _ in nodes):
                self.incomplete += 1
            else:
                self._add(way, nodes)

    def _add(self, way: "Way", nodes: list[tuple[int, int, int]]) -> None:
        tags = dict(way.tags)
        is_road = _is_road(tags) and len(set(nodes)) > 1
        if is_road:
            _, x, y = nodes[0]
            self._low = min(self._low[0], x), min(self._low[1], y)
            self._high = max(self._high[0], x), max(self._high[1], y)
        west, south, east, north = self._box
        xs, ys = [node[1] for node in nodes], [node[2] for node in nodes]
        if max(xs) < west or min(xs) > east or max(ys) < south or min(ys) > north:
            return
        if kind := _obstacle(tags):
            self._obstacles.append((kind, nodes))
        if is_road:
            self._ways.append((way.id, way.version, len(nodes)))
            self._nodes.extend(nodes)
            self._tags.append(tags)

    def result(self, path: Path) -> OsmMap:
        """Return what was read."""
        ways = np.array(self._ways, dtype=np.int64).reshape(-1, 3)
        ids, counts = np.unique(ways[:, 0], return_counts=True)
        if (counts > 1).any():
            raise DataError(
                f"{path}: contains way {ids[counts > 1][0]} several times, expected every way "
                "once; take one state out of a history with osmium time-filter"
            )
        nodes = np.array(self._nodes, dtype=np.int64).reshape(-1, 3)
        degrees = (np.array((*self._low, *self._high)) / UNITS_PER_DEGREE).tolist()
        extent: Box = (degrees[0], degrees[1], degrees[2], degrees[3])
        return OsmMap(
            path,
            ways[:, 0],
            ways[:, 1],
            ways[:, 2],
            nodes[:, 0],
            nodes[:, 1:],
            self._tags,
            _as_obstacles(self._obstacles),
            extent if self._low[0] <= self._high[0] else None,
        )


def ids_up_to_positive(path: Path, kinds: Any) -> Iterator[Any]:  # noqa: ANN401 - osmium has no types
    """Yield objects of a file up to the first with a positive id, or all if not a PBF.

    PBF files are sorted, and negative ids come first; other files may have them in any order.

    Args:
        path: the file.
        kinds: of objects, as osmium combines them.

    Raises:
        DataError: if the file cannot be read.
    """
    with osm_errors(path):
        for each in osm_objects(path, kinds):
            yield each
            if each.id > 0 and path.suffix.lower() == ".pbf":
                return


def _new_nodes(path: Path) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the nodes with negative ids, of which osmium's index of places keeps nothing."""
    for node in ids_up_to_positive(path, osmium().osm.NODE):
        if node.id < 0:
            yield node.id, (node.location.x, node.location.y)


def _place(node: "NodeRef", new: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the position of a node of a way; `_NOWHERE` if the file does not have it."""
    if node.ref < 0:
        return new.get(node.ref, (_NOWHERE, _NOWHERE))
    return (node.x, node.y) if node.location.valid() else (_NOWHERE, _NOWHERE)


def _is_road(tags: dict[str, str]) -> bool:
    """Return whether a way is a road or path that is there, and no area."""
    return tags.get("highway", "") not in ("", *_NOT_THERE) and tags.get("area", "no") != "yes"


def _obstacle(tags: dict[str, str]) -> str:
    """Return which kind of obstacle a way is, "" for none."""
    if tags.get("tunnel", "no") != "no" or tags.get("location") == "underground":
        return ""
    for key in _OBSTACLES:
        value = tags.get(key, "no")
        if value != "no" and (key == "building" or value in _IN_THE_WAY[key]):
            return key
    return ""


def _as_obstacles(ways: list[tuple[str, list[tuple[int, int, int]]]]) -> OsmObstacles:
    shapes = np.empty(len(ways), dtype=object)
    for row, (kind, nodes) in enumerate(ways):
        xy = np.array(nodes, dtype=np.int64)[:, 1:] / UNITS_PER_DEGREE
        is_area = kind != "railway" and len(xy) >= _RING and nodes[0] == nodes[-1]
        if len(xy) > 1:
            shapes[row] = shapely.Polygon(xy) if is_area else shapely.LineString(xy)
    kinds = [kind for kind, _ in ways]
    whole = shapes != None  # noqa: E711 - of each
    return OsmObstacles(
        np.array([_NAMES[kind] for kind in kinds], dtype=object)[whole],
        shapes[whole],
        np.array([_REACH_M[kind] for kind in kinds], dtype=np.float64)[whole],
    )
