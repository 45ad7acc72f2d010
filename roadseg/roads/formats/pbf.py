"""PBF: a road graph as OpenStreetMap data for routers."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from roadseg.arrays import Floats, Ints, Objects, Texts
from roadseg.roads.formats.osm_xml import (
    MOST_LETTERS,
    classes,
    gap_notes,
    require_place,
    source_of,
    vertices,
    ways_of,
)
from roadseg.roads.formats.tables import edge_table
from roadseg.roads.graph.road_graph import ONE_WAY, TRAVEL_TIME, RoadGraph
from roadseg.roads.labels.highways import UNKNOWN_CLASS, highway_of
from roadseg.roads.labels.traffic import SPEED_KNOWN, SPEED_SOURCE, assumed_speeds
from roadseg.roads.speeds import KPH_PER_MPS, in_stated_unit
from roadseg.system.files import atomic_write, write_error

if TYPE_CHECKING:
    from osmium import SimpleWriter
    from osmium.io import Header

# OpenStreetMap has about 13.5 billion nodes and 1.5 billion ways. Identifiers begin far above
# these, and below 2**34 and 2**32, up to which OSRM stores those of nodes and older Valhallas
# those of ways.
FIRST_NODE = 16_000_000_000
FIRST_WAY = 4_000_000_000

_GENERATOR = "roadseg (not for upload to OpenStreetMap)"
_PLAIN_CLASS = "unclassified"
_NEAR = 0.005  # Share by which a speed may differ from length by travel time.
_DIRECTIONS = {1: "yes", -1: "-1"}
# Columns that have tags of their own, or say what a reader finds out again.
_NO_TAGS = ("osmid", "u", "v", "key", "length", "geometry", "travel_time", "speed_kph", "source")
_TAGGED = ("highway", "inferred", ONE_WAY, SPEED_KNOWN, SPEED_SOURCE)


def write_pbf(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as ways of OpenStreetMap in a PBF file, for routers.

    Identifiers are positive, because routers take no others, and lie above those of OpenStreetMap:
    from `FIRST_NODE` and from `FIRST_WAY`. Nodes and then ways are sorted by them, and the header
    holds the bounding box. A node of the graph is one node of all its ways, so roads that cross
    without one stay unconnected. An edge of more than 2000 vertices is several ways. Its tags are

    - `highway`: the attribute, or the class by speed (`highways.highway_of`) where that is missing
      or "road", which some routers leave out; "unclassified" without a speed;
    - `maxspeed`: its speed, in mph if that is the whole number. Routers drive at it, though
      it is not a legal limit, and `source:maxspeed` says so: "predicted" or "assumed" in a graph of
      ours; "assumed" in another where its file states none;
    - `oneway`: where it is one-way, and "no" where the class (motorway) would say otherwise;
    - `source` and `fixme` as in OSM XML, and all further attributes that have a value.

    It is not for upload: the generator in its header says so.

    Source: https://wiki.openstreetmap.org/wiki/PBF_Format.

    It needs osmium, see `by_suffix.check_formats`.

    Raises:
        DataError: if the graph has no place on earth.
        OutputError: if the file cannot be written.
    """
    require_place(path, graph, "pbf")
    positions, refs, sizes = vertices(graph)
    with atomic_write(path) as partial, osm_writer(partial, _header(positions)) as writer:
        _add_nodes(writer, positions)
        _add_ways(writer, refs, sizes, _tags(graph))


@contextmanager
def osm_writer(
    path: Path, header: "Header", make: Callable[..., Any] | None = None
) -> Iterator[Any]:
    """Yield osmium's writer of a file, which is closed when the block ends.

    Args:
        path: PBF or XML by its suffix.
        make: osmium's class of the writer; None for the `SimpleWriter` of single objects.

    Raises:
        OSError: if the file cannot be written.
    """
    import osmium

    writer = None
    try:
        writer = (make or osmium.SimpleWriter)(str(path), header=header)
        yield writer
        writer.close()
    except RuntimeError as error:  # That is what osmium raises whatever is wrong with a disk.
        # To free a writer that has failed ends the whole process (osmium 4.3), so it is kept.
        if writer is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
        raise write_error(path, str(error)) from error


def _header(positions: Floats) -> "Header":
    from osmium.io import Header
    from osmium.osm import Box

    header = Header()
    header.set("generator", _GENERATOR)
    header.set("sorting", "Type_then_ID")
    if len(positions):
        header.add_box(Box(*positions.min(axis=0).tolist(), *positions.max(axis=0).tolist()))
    return header


def _add_nodes(writer: "SimpleWriter", positions: Floats) -> None:
    from osmium.osm.mutable import Node

    for row, (lon, lat) in enumerate(positions.tolist(), FIRST_NODE):
        writer.add_node(Node(id=row, location=(lon, lat), version=1))


def _add_ways(
    writer: "SimpleWriter", refs: Ints, sizes: Ints, tags: Iterator[dict[str, str]]
) -> None:
    from osmium.osm.mutable import Way

    way = FIRST_WAY
    for parts, facts in zip(ways_of(FIRST_NODE + refs, sizes), tags, strict=True):
        for nodes in parts:
            writer.add_way(Way(id=way, nodes=nodes, tags=facts, version=1))
            way += 1


def _tags(graph: RoadGraph) -> Iterator[dict[str, str]]:
    """Yield the tags of each edge."""
    speeds = [_maxspeed(kph) for kph in driven_kph(graph).tolist()]
    columns = {
        "highway": _classes(graph).tolist(),
        "maxspeed": speeds,
        "source:maxspeed": np.where(np.array(speeds) == "", "", _speed_sources(graph)).tolist(),
        SPEED_KNOWN: _known_speeds(graph).tolist(),
        ONE_WAY: _directions(graph),
        "source": [source_of(scene) for scene in graph.column("source", "").tolist()],
        "fixme": gap_notes(graph).tolist(),
    }
    further = _further_tags(graph)
    for values in zip(*further.values(), *columns.values(), strict=True):
        facts = zip((*further, *columns), values, strict=True)
        yield {key: value[:MOST_LETTERS] for key, value in facts if value}


def _classes(graph: RoadGraph) -> Objects:
    """Return the `highway` of each edge, of those that all routers know where it says nothing."""
    own = classes(graph.attributes, len(graph.lines))
    by_speed = highway_of(driven_kph(graph)).astype(object)
    by_speed[by_speed == UNKNOWN_CLASS] = _PLAIN_CLASS
    return np.where(own == UNKNOWN_CLASS, by_speed, own)


def driven_kph(graph: RoadGraph) -> Floats:
    """Return the speed at which each edge takes its travel time, km/h; NaN if it has neither.

    It is `speed_kph` unless a file states another time, which counts for routes.
    """
    speed_kph, seconds = (
        np.asarray(graph.column(name, np.nan), dtype=np.float64)
        for name in ("speed_kph", TRAVEL_TIME)
    )
    by_time = graph.length_m / np.where(seconds > 0, seconds, np.nan) * KPH_PER_MPS
    is_alike = np.isnan(by_time) | np.isclose(by_time, speed_kph, rtol=_NEAR)
    return np.where(is_alike, speed_kph, by_time)


def _maxspeed(kph: float) -> str:
    """Return a speed as OpenStreetMap writes it: "50", "25 mph", "37.5"; "" for NaN."""
    if not kph > 0:
        return ""
    value, unit = in_stated_unit(kph)
    return f"{value:.0f} mph" if unit == "mph" else f"{value:.1f}".removesuffix(".0")


def _speed_sources(graph: RoadGraph) -> Texts:
    """Return where each speed comes from, "" where the file of the roads stated it."""
    is_assumed = assumed_speeds(graph.attributes, len(graph.lines))
    return np.where(is_assumed, "assumed", "predicted" if SPEED_KNOWN in graph.attributes else "")


def _known_speeds(graph: RoadGraph) -> Texts:
    """Return "0" for edges whose speed is assumed, by which roadseg knows them again, else "1"."""
    sources = _speed_sources(graph)
    return np.where(sources == "assumed", "0", "1" if np.any(sources != "") else "")


def _directions(graph: RoadGraph) -> list[str]:
    one_way = graph.column(ONE_WAY, 0.0).tolist()
    own = classes(graph.attributes, len(graph.lines)).tolist()
    both = ["no" if name.startswith("motorway") else "" for name in own]
    return [_DIRECTIONS.get(way, other) for way, other in zip(one_way, both, strict=True)]


def _further_tags(graph: RoadGraph) -> dict[str, list[str]]:
    """Return all attributes that have no tags of their own, as texts; "" for no value."""
    table = edge_table(graph).drop(columns=[*_NO_TAGS, *_TAGGED], errors="ignore")
    return {str(key): [_text(value) for value in table[key].tolist()] for key in table.columns}


def _text(value: Any) -> str:  # noqa: ANN401 - of any column
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
