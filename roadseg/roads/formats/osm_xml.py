"""OSM XML: a road graph as OpenStreetMap data that JOSM opens; values as text in XML.

Edges become ways of OpenStreetMap, also for PBF files.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import shapely

from roadseg.arrays import Array, Floats, Ints, Objects, Texts
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, is_local
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.highways import highway_of
from roadseg.system.files import atomic_write

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUOTES = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
# JOSM uploads no such file, because predicted roads have to be looked at first.
OSM_HEAD = f'{XML_HEAD}<osm version="0.6" generator="roadseg" upload="never">\n'
OSM_TAIL = "</osm>\n"
MOST_NODES = 2000  # OpenStreetMap's API takes no more nodes of a way.
MOST_LETTERS = 255  # Nor more letters of the value of a tag.

_GAP = "inferred across a gap"


def require_place(path: Path, graph: RoadGraph, name: str) -> None:
    """Refuse a graph without georeference, for a format whose coordinates are degrees.

    Args:
        name: of the format, such as "osm".

    Raises:
        DataError: if the graph has no place on earth.
    """
    if is_local(graph.crs):
        raise DataError(
            f"{path}: cannot be written: the graph has no georeference, but the format {name} "
            f"needs degrees; georeference the image, or omit the format {name}"
        )


def vertices(graph: RoadGraph) -> tuple[Floats, Ints, Ints]:
    """Return the positions of all nodes in degrees, and the nodes of each edge.

    Returns:
        Longitude and latitude, shape (k, 2): the nodes of the graph, then all vertices between;
        the rows of these along all edges, one edge after the other; and how many an edge has.
    """
    placed = to_crs(graph, DEGREES)
    xy, line = shapely.get_coordinates(placed.lines, return_index=True)
    is_first = np.diff(line, prepend=-1) != 0
    is_last = np.diff(line, append=-1) != 0
    is_inner = ~(is_first | is_last)
    # Inner vertices are numbered after the nodes; the ends of an edge are nodes.
    rows = len(placed.nodes) - 1 + np.cumsum(is_inner)
    rows[is_first], rows[is_last] = graph.ends.T
    sizes = np.bincount(line, minlength=len(graph.lines))
    return np.vstack([placed.nodes, xy[is_inner]]), rows, sizes


def ways_of(refs: Ints, sizes: Ints) -> Iterator[list[list[int]]]:
    """Yield the ways of each edge, each a list of its nodes.

    A long edge is several ways, which share the node where one ends and the next begins.
    """
    start = 0
    for size in sizes.tolist():
        nodes = refs[start : start + size].tolist()
        start += size
        yield [nodes[n : n + MOST_NODES] for n in range(0, size - 1, MOST_NODES - 1)]


def classes(attributes: Mapping[str, Array], count: int) -> Objects:
    """Return the `highway` of roads: their own, or the class by their speed; "road" if unknown.

    Args:
        attributes: of the roads, each of shape (count,).
    """
    nothing = np.full(count, np.nan)
    speed_kph = np.asarray(attributes.get("speed_kph", nothing), dtype=np.float64)
    is_assumed = attributes.get("speed_known", nothing) == 0
    by_speed = np.where(is_assumed, "road", highway_of(speed_kph).astype(object))
    own = attributes.get("highway", np.full(count, None))
    return np.where([is_text(name) for name in own.tolist()], own, by_speed)


def source_of(scene: object) -> str:
    """Return the tag `source` of roads of a scene."""
    return f"roadseg;{scene}" if is_text(scene) else "roadseg"


def is_text(value: object) -> bool:
    """Return whether a value is a text, neither empty nor missing."""
    return isinstance(value, str) and value != ""


def gap_notes(graph: RoadGraph) -> Texts:
    """Return the tag `fixme` of each edge: what nobody saw of a link, else ""."""
    return np.where(graph.column("inferred", 0.0) == 1, _GAP, "")


def write_osm(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as ways of OpenStreetMap, API 0.6, for JOSM.

    All ids are negative: these are new objects that no server knows. A node of the graph is one
    node of all its ways, and every vertex between has one of its own; so roads that cross without a
    node stay unconnected. A way has at most 2000 nodes; a longer edge is several ways. It is tagged

    - `highway`: the attribute `highway`, or the class by speed (`highways.highway_of`); "road",
      which is OpenStreetMap's word for an unknown class, where there was no evidence of a speed
      (`speed_known` 0) or there is none;
    - `source`: "roadseg", and the scene after a semicolon;
    - `fixme`: for a link across a gap that nobody saw; JOSM's validator lists these.

    Nothing else: a predicted speed is not a legal limit, and name and surface were not seen. JOSM
    uploads no such file (`upload="never"`), because predicted roads have to be looked at first.

    Source: https://wiki.openstreetmap.org/wiki/OSM_XML and JOSM_file_format.

    Raises:
        DataError: if the graph has no place on earth.
        OutputError: if the file cannot be written.
    """
    require_place(path, graph, "osm")
    positions, refs, sizes = vertices(graph)
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(OSM_HEAD)
        file.writelines(
            node_xml(-row, lon, lat) for row, (lon, lat) in enumerate(positions.tolist(), 1)
        )
        file.writelines(_ways(refs, sizes, _tags(graph)))
        file.write(OSM_TAIL)


def xml_text(value: object) -> str:
    """Return a value as text for an element or for an attribute in double quotes.

    Characters that XML cannot hold, such as those of control, are left out.
    """
    return escape(_FORBIDDEN.sub("", str(value)), _QUOTES)


def node_xml(
    number: int, lon: float, lat: float, *, version: int = 0, tags: Mapping[str, str] | None = None
) -> str:
    """Return a node as an element; one without a version is new, and its id is negative."""
    head = f'<node id="{number}"{_version(version)} lat="{lat:.7f}" lon="{lon:.7f}"'
    body = _tags_xml(tags or {})
    return f"{head}>{body}</node>\n" if body else f"{head}/>\n"


def way_xml(
    number: int,
    nodes: Iterable[int],
    tags: Mapping[str, str],
    *,
    version: int = 0,
    is_modified: bool = False,
) -> str:
    """Return a way as an element; JOSM takes a modified one for work that is not uploaded yet."""
    action = ' action="modify"' if is_modified else ""
    refs = "".join(f'<nd ref="{node}"/>' for node in nodes)
    return f'<way id="{number}"{_version(version)}{action}>{refs}{_tags_xml(tags)}</way>\n'


def _version(version: int) -> str:
    return f' version="{version}"' if version else ""


def _tags_xml(tags: Mapping[str, str]) -> str:
    return "".join(f'<tag k="{xml_text(k)}" v="{xml_text(v)}"/>' for k, v in tags.items())


def _tags(graph: RoadGraph) -> Iterator[dict[str, str]]:
    """Yield the tags of each edge."""
    columns = (
        classes(graph.attributes, len(graph.lines)).tolist(),
        graph.column("source", "").tolist(),
        gap_notes(graph).tolist(),
    )
    for highway, scene, fixme in zip(*columns, strict=True):
        tags = {"highway": highway, "source": source_of(scene), "fixme": fixme}
        yield {key: value[:MOST_LETTERS] for key, value in tags.items() if value}


def _ways(refs: Ints, sizes: Ints, tags: Iterable[dict[str, str]]) -> Iterator[str]:
    way = 0
    for parts, each in zip(ways_of(refs, sizes), tags, strict=True):
        for rows in parts:
            way += 1
            yield way_xml(-way, (-1 - row for row in rows), each)
