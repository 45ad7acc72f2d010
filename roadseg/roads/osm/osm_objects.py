"""OsmObjects: ways of OpenStreetMap with their nodes, ids and versions, and files of them."""

import re
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import shapely

from roadseg.arrays import Bools, Ints, Lines, Objects
from roadseg.roads.formats.pbf import osm_writer
from roadseg.roads.graph.road_graph import lines_from, ranges
from roadseg.roads.osm.osm_map import UNITS_PER_DEGREE, Box, osmium

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


@dataclass(frozen=True)
class OsmObjects:
    """Ways, each of two nodes at least, and all of their nodes.

    Attributes:
        way_id: shape (w,), rising.
        way_version: shape (w,), 0 where it is not known.
        sizes: shape (w,), number of nodes of each way.
        refs: shape (k,), ids of the nodes of all ways, one way after the other.
        way_tags: of each way.
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
    def lines(self) -> Lines:
        """The ways as lines in degrees, shape (w,)."""
        rows = np.searchsorted(self.node_id, self.refs)
        return lines_from(self.places[rows] / UNITS_PER_DEGREE, self.sizes)

    def take(self, chosen: Ints | Bools) -> "OsmObjects":
        """Return the chosen ways with their nodes, by row or by a boolean for each."""
        rows = np.arange(len(self.way_id))[chosen]
        starts = np.cumsum(self.sizes) - self.sizes
        refs = self.refs[ranges(starts[rows], self.sizes[rows])]
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

    def columns(self) -> dict[str, Objects | Ints]:
        """Return ids, versions and those tags that roadseg reads; None where a way has none."""
        tags = {
            key: np.array([each.get(key) for each in self.way_tags], dtype=object)
            for key in _COLUMNS
        }
        stated = {key: column for key, column in tags.items() if (column != None).any()}  # noqa: E711 - of each
        return {"osm_id": self.way_id, "osm_version": self.way_version, **stated}


@dataclass
class CollectedObjects:
    """Ways and nodes as they come, in any order and any number of versions."""

    _ways: "array[int]" = field(default_factory=lambda: array("q"))  # id, version, number of nodes
    _refs: "array[int]" = field(default_factory=lambda: array("q"))
    _way_tags: list[Tags] = field(default_factory=list)
    _nodes: "array[int]" = field(default_factory=lambda: array("q"))  # id, version, x, y
    _node_tags: dict[int, Tags] = field(default_factory=dict)

    def add_way(self, number: int, version: int, refs: Sequence[int], tags: Tags) -> None:
        """Add a way; one of fewer than two nodes is no line, and left out."""
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
        unsorted = OsmObjects(
            ways[:, 0],
            ways[:, 1],
            ways[:, 2],
            refs,
            self._way_tags,
            nodes[:, 0],
            nodes[:, 1],
            nodes[:, 2:],
            self._node_tags,
        )
        return merged([unsorted])


def merged(parts: Sequence[OsmObjects]) -> OsmObjects:
    """Return all objects of several parts, of each its latest version.

    Args:
        parts: at least one.
    """
    ways = _latest([part.way_id for part in parts], [part.way_version for part in parts])
    nodes = _latest([part.node_id for part in parts], [part.node_version for part in parts])
    sizes = np.concatenate([part.sizes for part in parts])
    starts = np.cumsum(sizes) - sizes
    tags = [each for part in parts for each in part.way_tags]
    refs = np.concatenate([part.refs for part in parts])
    return OsmObjects(
        np.concatenate([part.way_id for part in parts])[ways],
        np.concatenate([part.way_version for part in parts])[ways],
        sizes[ways],
        refs[ranges(starts[ways], sizes[ways])],
        [tags[row] for row in ways.tolist()],
        np.concatenate([part.node_id for part in parts])[nodes],
        np.concatenate([part.node_version for part in parts])[nodes],
        np.concatenate([part.places for part in parts])[nodes],
        {node: each for part in parts for node, each in part.node_tags.items()},
    )


def _latest(ids: Sequence[Ints], versions: Sequence[Ints]) -> Ints:
    """Return the row of the latest version of each id, by rising ids."""
    every = np.concatenate(ids)
    order = np.lexsort([np.concatenate(versions), every])
    is_last = np.append(np.diff(every[order]) != 0, True) if len(order) else np.zeros(0, dtype=bool)
    return np.asarray(order[is_last], dtype=np.int64)


def write_osm_objects(path: Path, objects: OsmObjects, *, bounds: Box, date: str | None) -> None:
    """Write ways and nodes as OpenStreetMap data, as PBF or XML by the suffix of the path.

    Args:
        path: that the caller has from `whole`.
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
    rows = zip(objects.node_id, objects.node_version, degrees, strict=True)
    ends = np.cumsum(objects.sizes)[:-1]
    ways = zip(
        objects.way_id.tolist(),
        objects.way_version.tolist(),
        np.split(objects.refs, ends),
        objects.way_tags,
        strict=True,
    )
    with osm_writer(path, header) as writer:
        for each, version, place in rows:
            tags = objects.node_tags.get(int(each), {})
            writer.add_node(
                node(id=int(each), version=int(version), location=tuple(place.tolist()), tags=tags)
            )
        for each, version, refs, tags in ways:
            writer.add_way(way(id=each, version=version, nodes=refs.tolist(), tags=tags))


def is_time(text: object) -> bool:
    """Return whether a text is a time as OpenStreetMap writes it: 2026-11-20T20:21:02Z."""
    return isinstance(text, str) and _TIME.fullmatch(text) is not None
