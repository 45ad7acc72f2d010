"""OSM XML: a road graph as OpenStreetMap data that JOSM opens."""

from collections.abc import Iterator
from pathlib import Path

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
from roadseg.roads.xml import xml_text
from roadseg.system.files import whole

_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<osm version="0.6" generator="roadseg" upload="never">\n'
)
_TAIL = "</osm>\n"


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
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_HEAD)
        file.writelines(
            f'<node id="{-row}" lat="{lat:.7f}" lon="{lon:.7f}"/>\n'
            for row, (lon, lat) in enumerate(positions.tolist(), 1)
        )
        file.writelines(_ways(refs, sizes, _tags(graph)))
        file.write(_TAIL)


def _tags(graph: RoadGraph) -> list[str]:
    """Return the tags of each edge."""
    nothing = np.full(len(graph.lines), "", dtype=object)
    columns = (
        classes(graph.attributes, len(graph.lines)).tolist(),
        graph.attributes.get("source", nothing).tolist(),
        gap_notes(graph).tolist(),
    )
    return [
        _tag("highway", highway) + _tag("source", source_of(scene)) + _tag("fixme", fixme)
        for highway, scene, fixme in zip(*columns, strict=True)
    ]


def _tag(key: str, value: str) -> str:
    return f'<tag k="{key}" v="{xml_text(value[:MOST_LETTERS])}"/>' if value else ""


def _ways(refs: Ints, sizes: Ints, tags: list[str]) -> Iterator[str]:
    way = 0
    for parts, tag in zip(ways_of(refs, sizes), tags, strict=True):
        for rows in parts:
            way += 1
            nodes = "".join(f'<nd ref="{-1 - row}"/>' for row in rows)
            yield f'<way id="{-way}">{nodes}{tag}</way>\n'
