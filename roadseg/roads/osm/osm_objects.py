"""OsmObjects: ways of OpenStreetMap with their nodes, ids and versions; files of them."""

import importlib
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from roadseg.arrays import Bools, Ints, Lines, Objects
from roadseg.errors import DataError
from roadseg.roads.formats.by_suffix import check_package
from roadseg.roads.formats.pbf import osm_writer
from roadseg.roads.graph.road_graph import lines_from, ranges
from roadseg.roads.labels.osm_deletions import deleted_objects
from roadseg.system.text import one_line

if TYPE_CHECKING:
    from osmium.osm import Node, NodeRef, Way


OSM_SUFFIXES = (".osm", ".pbf", ".osm.gz", ".osm.bz2")  # Files that have ids.
UNITS_PER_DEGREE = 10_000_000  # OpenStreetMap keeps seven decimals.
HIGHWAYS = ("highway",)
# Keys of the ways that `conflate` looks at: roads, and what roads do not cross without a look.
OF_MAPS = (*HIGHWAYS, "railway", "aeroway", "waterway", "building")
# Tags that labels, widths, routes and audits read.
_COLUMNS = (
    *("highway", "name", "ref", "oneway", "junction", "lanes", "width", "surface"),
    *("tunnel", "bridge", "layer", "access", "vehicle", "motor_vehicle", "motorcar"),
    *("maxspeed", "maxspeed:forward", "maxspeed:backward"),
    *("zone:maxspeed", "source:maxspeed", "maxspeed:type"),
)

_LEAST_NODES = 2  # Of a line.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

Tags = dict[str, str]
Box = tuple[float, float, float, float]  # west, south, east and north, degrees
PlacedNode = tuple[int, int, int]  # id, longitude and latitude in units of 1e-7 degrees


@dataclass(frozen=True)
class OsmObjects:
    """Ways, each of two nodes at least, and all of their nodes.

    Attributes:
        way_id: shape (w,); -1, -2 and so on before 1, as files are sorted.
        way_version: shape (w,), 0 where it is not known.
        sizes: shape (w,), number of nodes of each way.
        refs: shape (k,), ids of the nodes of all ways, one way after the other.
        node_id: shape (n,), rising.
        node_version: shape (n,), 0 where it is not known.
        places: shape (n, 2), longitude and latitude in units of 1e-7 degrees.
        node_tags: of those nodes that have any, by id.
    """

    way_id: Ints
    way_version: Ints
    sizes: Ints
    refs: Ints
    way_tags: Sequence[Tags]
    node_id: Ints
    node_version: Ints
    places: Ints
    node_tags: dict[int, Tags]

    @cached_property
    def first(self) -> Ints:
        """Where in `refs` each way begins, shape (w + 1,), and the number of all nodes."""
        return np.append(0, np.cumsum(self.sizes))

    def nodes_of(self, way: int) -> list[int]:
        """Return the ids of the nodes of a way, by its row."""
        nodes: list[int] = self.refs[self.first[way] : self.first[way + 1]].tolist()
        return nodes

    @cached_property
    def vertices(self) -> Ints:
        """The places of the nodes of all ways, shape (k, 2), one way after the other."""
        return self.places[np.searchsorted(self.node_id, self.refs)]

    @cached_property
    def lines(self) -> Lines:
        """The ways as lines in degrees, shape (w,)."""
        return lines_from(self.vertices / UNITS_PER_DEGREE, self.sizes)

    def take(self, chosen: Ints | Bools) -> "OsmObjects":
        """Return the chosen ways with their nodes, by row or by a boolean for each."""
        rows = np.arange(len(self.way_id))[chosen]
        refs = self.refs[ranges(self.first[rows], self.sizes[rows])]
        used = np.isin(self.node_id, refs)
        ids = set(self.node_id[used].tolist())
        return OsmObjects(
            self.way_id[rows],
            self.way_version[rows],
            self.sizes[rows],
            refs,
            [self.way_tags[row] for row in rows.tolist()],
            self.node_id[used],
            self.node_version[used],
            self.places[used],
            {node: tags for node, tags in self.node_tags.items() if node in ids},
        )

    def touching(self, area: shapely.MultiPolygon) -> "OsmObjects":
        """Return the ways that touch an area in degrees, each as a whole."""
        shapely.prepare(area)
        return self.take(np.asarray(shapely.intersects(area, self.lines), dtype=bool))

    def roads(self) -> "OsmObjects":
        """Return the ways that are lines with a `highway`, and not areas."""
        is_road = ["highway" in tags and tags.get("area", "no") != "yes" for tags in self.way_tags]
        return self.take(np.array(is_road, dtype=bool))

    def has(self, *keys: str) -> Bools:
        """Return which ways have a value other than "no" or "0" for one of these keys."""
        return np.array(
            [any(tags.get(key, "no") not in ("no", "0") for key in keys) for tags in self.way_tags],
            dtype=bool,
        )

    def columns(self, keys: Sequence[str] = _COLUMNS) -> dict[str, Objects]:
        """Return those of some tags that a way has, as columns with None where one has none."""
        columns = {key: [tags.get(key) for tags in self.way_tags] for key in keys}
        return {key: np.array(each, dtype=object) for key, each in columns.items() if any(each)}


@dataclass
class CollectedObjects:
    """Ways and nodes as they come, in any order and any number of versions."""

    _ways: "array[int]" = field(default_factory=lambda: array("q"))  # id, version, number of nodes
    _refs: "array[int]" = field(default_factory=lambda: array("q"))
    _way_tags: list[Tags] = field(default_factory=list)
    _nodes: "array[int]" = field(default_factory=lambda: array("q"))  # id, version, x, y
    _node_tags: dict[int, Tags] = field(default_factory=dict)

    def add_way(self, number: int, version: int, refs: Sequence[int], tags: Tags) -> None:
        """Add a way; one of fewer than two nodes is not a line, and left out."""
        if len(refs) < _LEAST_NODES:
            return
        self._ways.extend((number, version, len(refs)))
        self._refs.extend(refs)
        self._way_tags.append({sys.intern(key): sys.intern(value) for key, value in tags.items()})

    def add_node(self, number: int, version: int, place: tuple[int, int], tags: Tags) -> None:
        """Add a node at a place in units of 1e-7 degrees."""
        self._nodes.extend((number, version, *place))
        if tags:
            self._node_tags[number] = tags

    def objects(self) -> OsmObjects:
        """Return them by rising ids, each in its latest version.

        Raises:
            ValueError: if a node of a way is missing.
        """
        ways = np.array(self._ways, dtype=np.int64).reshape(-1, 3)
        nodes = np.array(self._nodes, dtype=np.int64).reshape(-1, 4)
        refs = np.array(self._refs, dtype=np.int64)
        missing = np.setdiff1d(refs, nodes[:, 0])
        if len(missing):
            raise ValueError(f"{len(missing)} nodes of ways are missing, such as {missing[0]}")
        number, version, sizes = ways.T
        columns = nodes[:, 0], nodes[:, 1], nodes[:, 2:], self._node_tags
        return merged([OsmObjects(number, version, sizes, refs, self._way_tags, *columns)])


def merged(parts: Sequence[OsmObjects]) -> OsmObjects:
    """Return all ways of several parts, one at least, with their nodes, in the latest versions."""
    node_ids = np.concatenate([part.node_id for part in parts])
    nodes = _latest(node_ids, np.concatenate([part.node_version for part in parts]))
    way_ids = np.concatenate([part.way_id for part in parts])
    versions = np.concatenate([part.way_version for part in parts])
    every = OsmObjects(
        way_ids,
        versions,
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.refs for part in parts]),
        [tags for part in parts for tags in part.way_tags],
        node_ids[nodes],
        np.concatenate([part.node_version for part in parts])[nodes],
        np.concatenate([part.places for part in parts])[nodes],
        {node: tags for part in parts for node, tags in part.node_tags.items()},
    )
    ways = _latest(way_ids, versions)
    return every.take(ways[in_file_order(way_ids[ways])])


def _latest(ids: Ints, versions: Ints) -> Ints:
    """Return the row of the latest version of each id, by rising ids."""
    order = np.lexsort([versions, ids])
    is_last = np.diff(ids[order], append=np.iinfo(np.int64).max) != 0
    return np.asarray(order[is_last], dtype=np.int64)


def in_file_order(ids: Ints) -> Ints:
    """Return the rows of ids in the order of sorted files: -1, -2 and so on, and then 1."""
    return np.lexsort([np.abs(ids), ids > 0])


def ways_near(
    path: Path, box: Sequence[float], keys: Sequence[str]
) -> tuple[OsmObjects, list[str]]:
    """Return the ways of a file that have one of some keys, and whose own box meets another one.

    Versions and tags of their nodes are not known.

    Args:
        box: west, south, east and north, degrees.

    Returns:
        These ways, and the ids of those that are left out because the file lacks nodes of them.

    Raises:
        DataError: if the file cannot be read, or has a way in several versions.
        ConfigError: if osmium is not installed.
    """
    west, south, east, north = (round(side * UNITS_PER_DEGREE) for side in box)
    collected, seen, incomplete = CollectedObjects(), dict[int, int](), list[str]()
    for way, nodes in _located_ways(path, keys):
        refs, xs, ys = zip(*nodes, strict=True)
        if max(xs) < west or min(xs) > east or max(ys) < south or min(ys) > north:
            continue
        if len(nodes) < len(way.nodes):
            incomplete.append(str(way.id))
            continue
        # Extracts that were put together have the ways at their borders twice, which is harmless.
        if seen.setdefault(way.id, way.version) != way.version:
            raise DataError(
                f"{path}: contains way {way.id} in several versions, expected one; take one state "
                "out of a history with osmium time-filter"
            )
        collected.add_way(way.id, way.version, refs, dict(way.tags))
        for ref, x, y in nodes:
            collected.add_node(ref, 0, (x, y), {})
    return collected.objects(), incomplete


def _located_ways(path: Path, keys: Sequence[str]) -> Iterator[tuple["Way", list[PlacedNode]]]:
    """Yield the ways of a file that have one of some keys, with their nodes that it has."""
    module = osmium()
    # Of nodes with negative ids, osmium's index of places keeps nothing.
    new = {
        node.id: (node.location.x, node.location.y)
        for node in ids_up_to_positive(path, module.osm.NODE)
        if node.id < 0
    }
    with osm_errors(path):
        ways = objects_in(path, module.osm.NODE | module.osm.WAY).with_locations("flex_mem")
        ways.with_filter(module.filter.EntityFilter(module.osm.WAY))
        for way in ways.with_filter(module.filter.KeyFilter(*keys)):
            if way.deleted:
                continue
            placed = [(node.ref, _place(node, new)) for node in way.nodes]
            nodes = [(ref, *place) for ref, place in placed if place is not None]
            if nodes:
                yield way, nodes


def _place(node: "NodeRef", new: dict[int, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the position of a node of a way; None if the file does not have it."""
    if node.ref < 0:
        return new.get(node.ref)
    return (node.x, node.y) if node.location.valid() else None


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


def objects_in(path: Path, kinds: Any) -> Any:  # noqa: ANN401 - osmium has no types
    """Return the objects of a file, without those that are marked as deleted.

    Args:
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


def ids_up_to_positive(path: Path, kinds: Any) -> Iterator[Any]:  # noqa: ANN401 - osmium has no types
    """Yield objects of a file up to the first with a positive id, or all if not a PBF.

    PBF files are sorted, and negative ids come first; other files may have them in any order.

    Args:
        kinds: of objects, as osmium combines them.

    Raises:
        DataError: if the file cannot be read.
    """
    with osm_errors(path):
        for each in objects_in(path, kinds):
            yield each
            if each.id > 0 and path.suffix.lower() == ".pbf":
                return


def nodes_with_ids(path: Path, wanted: set[int]) -> Iterator["Node"]:
    """Yield the nodes of a file that have these ids.

    Raises:
        DataError: if the file cannot be read.
    """
    module = osmium()
    # osmium's filter takes no negative ids.
    for node in ids_up_to_positive(path, module.osm.NODE):
        if node.id < 0 and node.id in wanted:
            yield node
    positive = module.filter.IdFilter([node for node in wanted if node > 0])
    with osm_errors(path):
        yield from objects_in(path, module.osm.NODE).with_filter(positive)


def write_osm_objects(path: Path, objects: OsmObjects, *, bounds: Box, date: str | None) -> None:
    """Write ways and nodes as OpenStreetMap data, as PBF or XML by the suffix of the path.

    Args:
        path: that the caller has from `atomic_write`.
        objects: their ids and versions stay as they are.
        bounds: of the area of which all ways are there, for the header.
        date: of the data, for the header; None if it is not known.

    Raises:
        OSError: if the file cannot be written.
    """
    module = osmium()
    node, way = module.osm.mutable.Node, module.osm.mutable.Way
    header = module.io.Header()
    header.set("generator", "roadseg")
    header.set("sorting", "Type_then_ID")
    if date:
        header.set("osmosis_replication_timestamp", date)
    degrees = objects.places / UNITS_PER_DEGREE
    header.add_box(module.osm.Box(*bounds))
    order = in_file_order(objects.node_id)
    rows = zip(
        *(column[order] for column in (objects.node_id, objects.node_version, degrees)), strict=True
    )
    ways = zip(objects.way_id.tolist(), objects.way_version.tolist(), objects.way_tags, strict=True)
    with osm_writer(path, header) as writer:
        for each, version, place in rows:
            tags = objects.node_tags.get(int(each), {})
            writer.add_node(
                node(id=int(each), version=int(version), location=tuple(place.tolist()), tags=tags)
            )
        for row, (each, version, tags) in enumerate(ways):
            writer.add_way(way(id=each, version=version, nodes=objects.nodes_of(row), tags=tags))


def is_time(text: object) -> bool:
    """Return whether a text is a time as OpenStreetMap writes it: 2026-11-20T20:21:02Z."""
    return isinstance(text, str) and _TIME.fullmatch(text) is not None
