"""Extracts of OpenStreetMap: the ways of an area out of a file of any size."""

import itertools
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import shapely

from roadseg.errors import DataError, OutputError
from roadseg.roads.osm.osm_map import osm_errors, osmium
from roadseg.roads.osm.osm_objects import CollectedObjects, OsmObjects, is_time
from roadseg.system.files import partial_path
from roadseg.system.text import count, first, one_line, size_text

if TYPE_CHECKING:
    from osmium import FileProcessor
    from osmium.osm import Box

_log = logging.getLogger(__name__)

_AT_ONCE = 20_000  # Ways whose lines are in memory together.
# An index keeps 16 bytes for each node, of which a PBF file needs at least 8, and grows in steps.
_INDEX_SHARE, _INDEX_STEP = 2, 2**28


def read_extract(
    path: Path, area: shapely.MultiPolygon, keys: tuple[str, ...], *, scratch: Path
) -> tuple[OsmObjects, str | None]:
    """Read the ways that touch an area, each as a whole, out of a file of OpenStreetMap data.

    The positions of all nodes of the file go to a temporary file without a name, 16 bytes for each,
    so that memory does not grow with the file but only with the ways of the area.

    Args:
        path: PBF or XML.
        area: in degrees.
        keys: ways with one of these keys are read.
        scratch: folder for the temporary file.

    Returns:
        The ways and their nodes; and the time of the data that the header states, None if none.

    Raises:
        DataError: if the file cannot be read, or covers another place.
        OutputError: if there is no room for the temporary file.
        ConfigError: if osmium is not installed.
    """
    module = osmium()
    if not path.is_file():
        raise DataError(f"{path} does not exist; expected OpenStreetMap data as PBF or XML")
    with osm_errors(path):
        header = module.FileProcessor(str(path)).header
        _check_cover(path, header.box(), area)
        ways = _touching(path, area, keys, scratch)
        objects = _objects(path, ways)
    date = header.get("osmosis_replication_timestamp", "")
    return objects, date if is_time(date) else None


def _check_cover(path: Path, box: "Box", area: shapely.MultiPolygon) -> None:
    """Compare an area with the box that a header states, if it does."""
    if not box.valid():
        return
    low, high = box.bottom_left, box.top_right
    covered = shapely.box(low.lon, low.lat, high.lon, high.lat)
    text = f"{low.lon:g},{low.lat:g},{high.lon:g},{high.lat:g}"
    if not shapely.intersects(covered, area):
        sides = ",".join(f"{side:g}" for side in area.bounds)
        raise DataError(
            f"{path}: covers {text} degrees, but the area is {sides}; use the extract of that place"
        )
    if not shapely.covers(covered, area):
        _log.warning(
            "%s: covers %s degrees, which is only a part of the area; there are no roads elsewhere",
            path,
            text,
        )


def _touching(
    path: Path, area: shapely.MultiPolygon, keys: tuple[str, ...], scratch: Path
) -> list[int]:
    """Return the ids of the ways with these keys that touch an area."""
    module = osmium()
    shapely.prepare(area)
    found: list[int] = []
    lines = _lines(path, _located(path, scratch).with_filter(module.filter.KeyFilter(*keys)))
    while batch := list(itertools.islice(lines, _AT_ONCE)):
        ids, shapes = zip(*batch, strict=True)
        touches = shapely.intersects(area, shapely.from_wkb(np.array(shapes, dtype=object)))
        found += np.array(ids)[touches].tolist()
    return found


def _located(path: Path, scratch: Path) -> "FileProcessor":
    """Return all ways of a file with the positions of their nodes."""
    module = osmium()
    index = partial_path(scratch / "places")
    ways: FileProcessor = module.FileProcessor(str(path), module.osm.NODE | module.osm.WAY)
    try:
        _require_room(scratch, _INDEX_SHARE * path.stat().st_size + _INDEX_STEP)
        ways.with_locations(f"sparse_file_array,{index}")
        index.unlink()  # It is kept as long as it is open.
    except OutputError:
        raise
    except (RuntimeError, OSError) as error:
        raise OutputError(f"{scratch}: cannot be written: {one_line(error)}") from error
    ways.with_filter(module.filter.EntityFilter(module.osm.WAY))
    return ways


def _require_room(folder: Path, needed: int) -> None:
    """Refuse a disk that may become full: that would end the process without a word."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OutputError(
            f"{folder}: cannot be written: the positions of nodes may need "
            f"{size_text(needed / 1e6)} for a while, and {size_text(free / 1e6)} are free; write "
            "to another disk, or use the extract of a smaller region"
        )


def _lines(path: Path, ways: "FileProcessor") -> Iterator[tuple[int, str]]:
    """Yield id and line of each way; warn of ways that have none."""
    module = osmium()
    line = module.geom.WKBFactory().create_linestring
    incomplete: list[int] = []
    for way in ways:
        if way.id == 0:
            raise DataError(
                f"{path}: contains ways without ids, expected OpenStreetMap data with ids; use "
                "the file as it is, or convert it with `roadseg convert`"
            )
        try:
            yield way.id, line(way)
        except module.InvalidLocationError:
            incomplete.append(way.id)
        except RuntimeError:  # That is what osmium raises for ways of fewer than two places.
            continue
    if incomplete:
        _log.warning(
            "%s: left out %s, because nodes are not in the file or have no positive id: %s",
            path,
            count(len(incomplete), "way"),
            first([str(way) for way in incomplete]),
        )


def _objects(path: Path, way_ids: list[int]) -> OsmObjects:
    """Read ways and their nodes by the ids of the ways."""
    module = osmium()
    collected = CollectedObjects()
    ways = module.FileProcessor(str(path), module.osm.WAY)
    for way in ways.with_filter(module.filter.IdFilter(way_ids)):
        refs = [node.ref for node in way.nodes]
        collected.add_way(way.id, way.version, refs, dict(way.tags))
    nodes = module.FileProcessor(str(path), module.osm.NODE)
    for node in nodes.with_filter(module.filter.IdFilter(collected.needed_nodes)):
        place = node.location.x, node.location.y
        collected.add_node(node.id, node.version, place, dict(node.tags))
    return collected.objects()
