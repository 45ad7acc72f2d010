"""OSM XML: a road graph as OpenStreetMap data that JOSM opens; values as text in XML."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from roadseg.arrays import Ints
from roadseg.roads.formats.osm_ways import (
    MOST_LETTERS,
    classes,
    gap_notes,
    require_place,
    source_of,
    vertices,
    ways_of,
)
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.system.files import atomic_write

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUOTES = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
# JOSM uploads no such file, because predicted roads have to be looked at first.
OSM_HEAD = f'{XML_HEAD}<osm version="0.6" generator="roadseg" upload="never">\n'
OSM_TAIL = "</osm>\n"


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
    nothing = np.full(len(graph.lines), "", dtype=object)
    columns = (
        classes(graph.attributes, len(graph.lines)).tolist(),
        graph.attributes.get("source", nothing).tolist(),
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
