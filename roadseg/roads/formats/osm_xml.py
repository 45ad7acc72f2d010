"""OSM XML: a road graph as OpenStreetMap data that JOSM opens."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.arrays import Floats, Ints
from roadseg.errors import DataError
from roadseg.raster.grid import is_local
from roadseg.roads.formats.tables import in_degrees
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.highways import highway_of
from roadseg.roads.xml import xml_text
from roadseg.system.files import whole

_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<osm version="0.6" generator="roadseg" upload="never">\n'
)
_TAIL = "</osm>\n"
_MOST_NODES = 2000  # OpenStreetMap's API takes no more nodes of a way.
_MOST_LETTERS = 255  # Nor more letters of the value of a tag.
_GAP = "inferred across a gap"


def write_osm(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as ways of OpenStreetMap, API 0.6, for JOSM.

    All ids are negative: these are new objects that no server knows. A node of the graph is one
    node of all its ways, and every vertex between has one of its own; so roads that cross without a
    node stay unconnected. A way has at most 2000 nodes; a longer edge is several ways. It is tagged

    - `highway`: the attribute `highway`, or the class by speed (`highways.highway_of`); "road",
      which is OpenStreetMap's word for a class not known, where there was no evidence of a speed
      (`speed_known` 0) or there is none;
    - `source`: "roadseg", and the scene after a semicolon;
    - `fixme`: for a link across a gap that nobody saw; JOSM's validator lists these.

    Nothing else: a predicted speed is no legal limit, and neither name nor surface was seen. JOSM
    uploads no such file (`upload="never"`), because predicted roads have to be looked at first.

    Source: https://wiki.openstreetmap.org/wiki/OSM_XML and JOSM_file_format.

    Raises:
        DataError: if the graph has no place on earth.
        OutputError: if the file cannot be written.
    """
    if is_local(graph.crs):
        raise DataError(
            f"{path}: cannot be written: the graph has no georeference, but OSM XML needs "
            "degrees; georeference the image, or omit the format osm"
        )
    positions, refs, sizes = _vertices(graph)
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_HEAD)
        file.writelines(
            f'<node id="{-row}" lat="{lat:.7f}" lon="{lon:.7f}"/>\n'
            for row, (lon, lat) in enumerate(positions.tolist(), 1)
        )
        file.writelines(_ways(refs, sizes, _tags(graph)))
        file.write(_TAIL)


def _vertices(graph: RoadGraph) -> tuple[Floats, Ints, Ints]:
    """Return the positions of all nodes in degrees, and the nodes of each edge.

    Returns:
        Longitude and latitude, shape (k, 2): the nodes of the graph, then all vertices between;
        the rows of these along all edges, one edge after the other; and how many an edge has.
    """
    lines, nodes = in_degrees(graph)
    xy, line = shapely.get_coordinates(lines, return_index=True)
    is_first = np.diff(line, prepend=-1) != 0
    is_last = np.diff(line, append=-1) != 0
    is_inner = ~(is_first | is_last)
    # Inner vertices are numbered after the nodes; the ends of an edge are nodes.
    rows = len(nodes) - 1 + np.cumsum(is_inner)
    rows[is_first], rows[is_last] = graph.ends.T
    return np.vstack([nodes, xy[is_inner]]), rows, np.bincount(line, minlength=len(lines))


def _tags(graph: RoadGraph) -> list[str]:
    """Return the tags of each edge."""
    nothing = np.full(len(graph.lines), "", dtype=object)
    inferred = graph.attributes.get("inferred", np.zeros(len(graph.lines)))
    columns = (
        _classes(graph).tolist(),
        graph.attributes.get("source", nothing).tolist(),
        np.where(inferred == 1, _GAP, "").tolist(),
    )
    return [
        _tag("highway", highway) + _tag("source", _source(scene)) + _tag("fixme", fixme)
        for highway, scene, fixme in zip(*columns, strict=True)
    ]


def _classes(graph: RoadGraph) -> NDArray[np.object_]:
    """Return the `highway` of each edge."""
    count = len(graph.lines)
    speed_kph = graph.attributes.get("speed_kph", np.full(count, np.nan))
    by_speed = highway_of(speed_kph).astype(object)
    classes = graph.attributes.get("highway", by_speed)
    has_class = np.array([_is_text(name) for name in classes.tolist()], dtype=bool)
    known = graph.attributes.get("speed_known", np.ones(count))
    return np.where(known == 0, "road", np.where(has_class, classes, by_speed))


def _source(scene: object) -> str:
    return f"roadseg;{scene}" if _is_text(scene) else "roadseg"


def _is_text(value: object) -> bool:
    """Return whether a value is a text, neither empty nor missing."""
    return isinstance(value, str) and value != ""


def _tag(key: str, value: str) -> str:
    return f'<tag k="{key}" v="{xml_text(value[:_MOST_LETTERS])}"/>' if value else ""


def _ways(refs: Ints, sizes: Ints, tags: list[str]) -> Iterator[str]:
    way, start = 0, 0
    for size, tag in zip(sizes.tolist(), tags, strict=True):
        nodes = [f'<nd ref="{-1 - row}"/>' for row in refs[start : start + size].tolist()]
        start += size
        # A long edge is several ways, which share the node where one ends and the next begins.
        for first in range(0, size - 1, _MOST_NODES - 1):
            way += 1
            yield f'<way id="{-way}">{"".join(nodes[first : first + _MOST_NODES])}{tag}</way>\n'
