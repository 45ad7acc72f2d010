"""Extracts of OpenStreetMap: the ways of an area out of a file of any size."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import shapely

from roadseg.errors import DataError
from roadseg.raster.strips import require_room
from roadseg.roads.osm.osm_objects import (
    OsmObjects,
    is_time,
    nodes_with_ids,
    objects_in,
    osm_errors,
    osmium,
    ways_near,
)
from roadseg.system.files import partial_path
from roadseg.system.text import count, first

if TYPE_CHECKING:
    from osmium.osm import Box

_log = logging.getLogger(__name__)

# An index keeps 16 bytes for each node, of which a PBF file needs at least 8, and grows in steps.
_INDEX_SHARE, _INDEX_STEP = 2, 2**28


def read_extract(
    path: Path,
    area: shapely.MultiPolygon,
    keys: tuple[str, ...],
    *,
    scratch: Path,
    every_node: bool = False,
) -> tuple[OsmObjects, str | None]:
    """Read the ways that touch an area, each as a whole, out of a file of OpenStreetMap data.

    The positions of all nodes of the file go to a temporary file without a name, 16 bytes for each,
    so that memory does not grow with the file but only with the ways of the area.

    Args:
        area: in degrees.
        keys: ways with one of these keys are read.
        scratch: folder for the temporary file.
        every_node: read versions and tags of nodes, too. This takes up to 1.7 GB of memory,
            because osmium keeps a bit for each id that a node may have.

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
        header = objects_in(path, module.osm.ALL).header
        _check_cover(path, header.box(), area)
        # A disk that becomes full would end the process without a word.
        places = scratch / "places"
        require_room(places, _INDEX_SHARE * path.stat().st_size + _INDEX_STEP)
        near, incomplete = ways_near(path, area.bounds, keys, partial_path(places))
        if incomplete:
            _log.warning(
                "%s: left out %s, because nodes are not in the file: %s",
                *(path, count(len(incomplete), "way"), first(incomplete)),
            )
        objects = near.touching(area)
        objects = _with_nodes(path, objects) if every_node else objects
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


def _with_nodes(path: Path, objects: OsmObjects) -> OsmObjects:
    """Return objects with the versions and tags of their nodes."""
    versions, tags = objects.node_version.copy(), {}
    for node in nodes_with_ids(path, set(objects.node_id.tolist())):
        versions[np.searchsorted(objects.node_id, node.id)] = node.version
        if len(node.tags):
            tags[node.id] = dict(node.tags)
    return replace(objects, node_version=versions, node_tags=tags)
