"""Ways of OpenStreetMap out of the edges of a graph, for its XML and its PBF files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import shapely

from roadseg.arrays import Array, Floats, Ints, Objects, Texts
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, is_local
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.highways import highway_of

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
    inferred = graph.attributes.get("inferred", np.zeros(len(graph.lines)))
    return np.where(inferred == 1, _GAP, "")
