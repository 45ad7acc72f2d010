"""OsmChange: what new roads change in an OpenStreetMap file, and the file with the changes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roadseg.arrays import Ints
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, transformer
from roadseg.roads.conflation.new_roads import NewRoads
from roadseg.roads.formats.osm_xml import (
    MOST_NODES,
    OSM_HEAD,
    OSM_TAIL,
    XML_HEAD,
    node_xml,
    way_xml,
)
from roadseg.roads.formats.pbf import osm_writer
from roadseg.roads.labels.osm_deletions import deleted_objects
from roadseg.roads.osm.osm_map import OsmMap
from roadseg.roads.osm.osm_objects import (
    UNITS_PER_DEGREE,
    ids_up_to_positive,
    nodes_with_ids,
    osm_file,
    osmium,
)
from roadseg.system.files import atomic_write

if TYPE_CHECKING:
    from osmium.osm import Node

_LATEST = 2**31 - 1  # The highest version that there can be.


@dataclass(frozen=True)
class OsmChange:
    """New roads as objects of OpenStreetMap.

    Attributes:
        roads: the new roads; their references to the map are places in `node_ids`.
        node_ids: shape (n,), ids of the nodes of the map by their number.
        first_id: id of the first new node, and of the first new way; others go down from it.
    """

    osm_map: OsmMap
    roads: NewRoads
    tags: list[dict[str, str]]
    node_ids: Ints
    first_id: int

    @cached_property
    def places(self) -> Ints:
        """Positions of the new nodes in units of 1e-7 degrees, shape (n, 2)."""
        to_degrees = transformer(self.roads.crs, DEGREES).transform
        places = np.column_stack(to_degrees(*self.roads.xy.T)) * UNITS_PER_DEGREE
        # On a way of the map a node lies on the line between its neighbours, in degrees as well.
        inserted, old = self.roads.insertions, self.osm_map.ways.vertices
        before, after = old[inserted.vertex], old[np.minimum(inserted.vertex + 1, len(old) - 1)]
        places[inserted.node] = before + inserted.part[:, np.newaxis] * (after - before)
        return places.round().astype(np.int64)

    @cached_property
    def nodes_of_roads(self) -> list[list[int]]:
        """The ids of the nodes of each road."""
        refs = self.roads.refs
        ids = np.where(refs < 0, self.first_id + 1 + refs, self.node_ids[np.maximum(refs, 0)])
        return [each.tolist() for each in np.split(ids, np.cumsum(self.roads.sizes)[:-1])]

    @cached_property
    def changed_ways(self) -> dict[int, list[int]]:
        """The ways of the map that get nodes: by row, the ids of all their nodes."""
        inserted, ways = self.roads.insertions, self.osm_map.ways
        refs = inserted.put_in(ways.refs, self.first_id - np.arange(len(self.roads.xy)))
        first = inserted.first_of(ways.first)
        changed = np.unique(inserted.way).tolist()
        return {way: refs[first[way] : first[way + 1]].tolist() for way in changed}

    @property
    def added_nodes(self) -> list[int]:
        """Ids of the new nodes that are added, from the first one down."""
        added = np.flatnonzero(self.roads.is_added).tolist()
        used = {node for row in added for node in self.nodes_of_roads[row]}
        used |= {node for nodes in self.changed_ways.values() for node in nodes}
        return sorted((node for node in used if node <= self.first_id), reverse=True)

    def way_id(self, road: int) -> int:
        """Return the id of a road."""
        return self.first_id - road

    def place(self, node: int) -> tuple[float, float]:
        """Return longitude and latitude of a new node in degrees."""
        x, y = self.places[self.first_id - node].tolist()
        return x / UNITS_PER_DEGREE, y / UNITS_PER_DEGREE


def osm_change(osm_map: OsmMap, roads: NewRoads, tags: list[dict[str, str]]) -> OsmChange:
    """Return new roads as objects of OpenStreetMap.

    Args:
        roads: the new roads; their references to the map number its ids in rising order.

    Raises:
        DataError: if a way that gets nodes has no version, or would have too many nodes, or the
            objects of the map are not sorted.
    """
    first_id = _lowest_id(osm_map.path) - 1
    change = OsmChange(osm_map, roads, tags, np.unique(osm_map.ways.refs), first_id)
    for row, nodes in change.changed_ways.items():
        way = int(osm_map.ways.way_id[row])
        if way > 0 and osm_map.ways.way_version[row] == 0:
            raise DataError(
                f"{osm_map.path}: way {way} has no version, which a change of OpenStreetMap needs; "
                "use a file with metadata, such as an extract that was not stripped, or Overpass' "
                "`out meta`"
            )
        if len(nodes) > MOST_NODES:
            raise DataError(
                f"{osm_map.path}: way {way} would have {len(nodes)} nodes, expected at most "
                f"{MOST_NODES}; split it first"
            )
    return change


def write_changes(path: Path, change: OsmChange) -> None:
    """Write the changes as osmChange: new nodes and ways, and ways that get nodes.

    New objects have negative ids and no version, changed ways the id, version and tags that they
    have. Roads to check are not in it.

    Source: https://wiki.openstreetmap.org/wiki/OsmChange.

    Raises:
        OutputError: if the file cannot be written.
    """
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{XML_HEAD}<osmChange version="0.6" generator="roadseg">\n<create>\n')
        file.writelines(node_xml(node, *change.place(node)) for node in change.added_nodes)
        added = np.flatnonzero(change.roads.is_added).tolist()
        file.writelines(_new_way(change, road) for road in added)
        file.write("</create>\n<modify>\n")
        file.writelines(_old_ways(change, change.changed_ways))
        file.write("</modify>\n</osmChange>\n")


def write_review(path: Path, change: OsmChange) -> None:
    """Write a file for JOSM: the new roads, those to check, and the ways that they touch.

    JOSM uploads no such file (`upload="never"`), because predicted roads have to be looked at
    first.

    Raises:
        DataError: if the map cannot be read.
        OutputError: if the file cannot be written.
    """
    # Ways that get nodes, or share one with a new road, are shown as well.
    ways, refs = change.osm_map.ways, change.roads.refs
    is_shared = np.isin(ways.refs, change.node_ids[refs[refs >= 0]])
    rows = np.repeat(np.arange(len(ways.sizes)), ways.sizes)[is_shared]
    touched = sorted({*rows.tolist(), *change.changed_ways})
    wanted = {node for nodes in change.nodes_of_roads for node in nodes if node > change.first_id}
    for way in touched:
        wanted.update(change.osm_map.ways.nodes_of(way))
    new = {node for nodes in change.nodes_of_roads for node in nodes if node <= change.first_id}
    new.update(change.added_nodes)
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(OSM_HEAD)
        file.writelines(node_xml(node, *change.place(node)) for node in sorted(new, reverse=True))
        file.writelines(map(_old_node, nodes_with_ids(change.osm_map.path, wanted)))
        file.writelines(_new_way(change, road) for road in range(len(change.roads.lines)))
        file.writelines(_old_ways(change, touched))
        file.write(OSM_TAIL)


def write_merged(path: Path, changes: Path, source: Path) -> None:
    """Write a map with changes applied as PBF; what is not changed is copied.

    Args:
        changes: that `write_changes` wrote for this map.
        source: the map, sorted by type and id.

    Raises:
        OutputError: if the file cannot be written.
    """
    module = osmium()
    merger = module.MergeInputReader()
    merger.add_file(str(changes))
    # Of each object the latest version counts, and that of what JOSM has deleted is made one.
    deleted = (
        f'<{kind} id="{number}" version="{_LATEST}"/>' for kind, number in deleted_objects(source)
    )
    deletions = f'<osmChange version="0.6"><delete>{"".join(deleted)}</delete></osmChange>'
    merger.add_buffer(deletions.encode(), "osc")
    # The suffix of a partial name is that of the file, by which osmium chooses the format.
    with (
        atomic_write(path) as partial,
        osm_writer(partial, module.io.Header(), module.io.Writer) as writer,
    ):
        merger.apply_to_reader(module.io.Reader(osm_file(source)), writer)


def _lowest_id(path: Path) -> int:
    """Return the lowest id of the nodes and ways of a file, at most 0.

    Raises:
        DataError: if its objects are not sorted by type and id.
    """
    lowest, last, osm = 0, (0, False, 0), osmium().osm
    # A PBF file is sorted, and each kind in it is read up to the first positive id.
    kinds = [osm.NODE, osm.WAY] if path.suffix.lower() == ".pbf" else [osm.ALL]
    for each in chain.from_iterable(ids_up_to_positive(path, kind) for kind in kinds):
        place = "nwr".index(each.type_str()), each.id > 0, abs(each.id)
        if place < last:
            raise DataError(
                f"{path}: contains objects that are not sorted by type and id; sort it with "
                "osmium sort"
            )
        last, lowest = place, min(lowest, 0 if each.is_relation() else each.id)
    return lowest


def _new_way(change: OsmChange, road: int) -> str:
    return way_xml(change.way_id(road), change.nodes_of_roads[road], change.tags[road])


def _old_ways(change: OsmChange, rows: Iterable[int]) -> Iterator[str]:
    """Yield ways of the map, with the nodes that they get."""
    ways = change.osm_map.ways
    for row in sorted(rows):
        nodes, version = change.changed_ways.get(row), int(ways.way_version[row])
        yield way_xml(
            int(ways.way_id[row]),
            nodes or ways.nodes_of(row),
            ways.way_tags[row],
            version=version,
            is_modified=bool(nodes and version),
        )


def _old_node(node: "Node") -> str:
    lon, lat = node.location.lon, node.location.lat
    return node_xml(node.id, lon, lat, version=node.version, tags=dict(node.tags))
