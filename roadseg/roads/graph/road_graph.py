"""RoadGraph: nodes and edges as tables; made of traced paths or of lines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.arrays import Bools, Floats, Ints, Lines

TRAVEL_TIME = "travel_time_s"  # the attribute that a part of an edge has a part of
DECIMALS = 3  # of metres: coordinates that agree to 1 mm are one vertex
_LINE = 1  # shapely type id of LineString


@dataclass(frozen=True)
class RoadGraph:
    """An undirected multigraph of roads in a metric CRS: loops and parallel edges are kept.

    Attributes:
        crs: metric CRS of all coordinates.
        nodes: shape (n, 2), x and y in metres.
        ends: shape (m, 2), the rows of `nodes` at which each edge starts and ends.
        lines: shape (m,), one shapely LineString an edge, from its first node to its last.
        attributes: further columns of the edges by name, each of shape (m,); `speed_kph` and
            `travel_time_s` are the ones that travel.py adds.
    """

    crs: CRS
    nodes: NDArray[np.float64]
    ends: NDArray[np.int64]
    lines: Lines
    attributes: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def length_m(self) -> NDArray[np.float64]:
        """Length of each edge in metres, shape (m,)."""
        return np.asarray(shapely.length(self.lines), dtype=np.float64)

    @property
    def degree(self) -> NDArray[np.int64]:
        """Number of edge ends at each node, shape (n,); a loop counts twice."""
        return np.bincount(self.ends.ravel(), minlength=len(self.nodes))


def graph_from_paths(
    nodes: Floats, ends: Ints, points: Floats, offsets: Ints, crs: CRS
) -> RoadGraph:
    """Make a graph of traced paths whose positions have been converted to metres.

    Args:
        nodes: shape (n, 2), x and y of each node in metres.
        ends: shape (m, 2), the rows of `nodes` at which each path starts and ends.
        points: shape (k, 2), x and y along all paths, one path after the other.
        offsets: shape (m + 1,), path i is `points[offsets[i] : offsets[i + 1]]`; its first and
            last point are put exactly on its nodes.
        crs: metric CRS of nodes and points.
    """
    xy = np.array(points, dtype=np.float64)
    xy[offsets[:-1]] = nodes[ends[:, 0]]
    xy[offsets[1:] - 1] = nodes[ends[:, 1]]
    return RoadGraph(crs, nodes, ends, lines_from(xy, np.diff(offsets)))


def graph_from_lines(
    lines: Lines, crs: CRS, attributes: Mapping[str, NDArray[Any]] | None = None
) -> RoadGraph:
    """Make a graph of road lines, joined wherever they share a vertex.

    Coordinates are rounded to 1 mm. Nodes are the ends of lines, vertices that lie on two lines
    or twice on one, and vertices at which a line turns back on itself. Lines that cross without
    a shared vertex stay unconnected: they may be bridges. Of equal lines, and of equal pieces of
    lines, in either direction, the first stays; lines without length are dropped.

    Args:
        lines: shape (n,), shapely LineStrings in metres.
        crs: metric CRS of the lines.
        attributes: columns of shape (n,); every piece gets the values of its line, and of
            `travel_time_s` its part by length.

    Raises:
        ValueError: if a geometry is no LineString, a coordinate is not finite, or an attribute
            has another length than `lines`.
    """
    columns = {name: np.asarray(column) for name, column in (attributes or {}).items()}
    _check_lines(lines, columns)
    xy, source = _distinct_vertices(lines)
    vertex = _vertex_ids(xy)
    breaks = np.flatnonzero(_is_node(vertex, source)[vertex])
    spans = np.column_stack([breaks[:-1], breaks[1:]])
    spans = spans[source[spans[:, 0]] == source[spans[:, 1]]]

    sizes = spans[:, 1] - spans[:, 0] + 1
    pieces = lines_from(xy[ranges(spans[:, 0], sizes)], sizes)
    once = _first_of_equal(pieces)
    pieces, spans = pieces[once], spans[once]
    owner = source[spans[:, 0]]
    part = shapely.length(pieces) / _line_lengths(xy, source, len(lines))[owner]
    _, first, rows = np.unique(vertex[spans], return_index=True, return_inverse=True)
    nodes = xy[spans.ravel()[first]]
    return RoadGraph(crs, nodes, rows.reshape(-1, 2), pieces, part_attributes(columns, owner, part))


def first_drawn(graph: RoadGraph, order: Iterable[int]) -> Ints:
    """Rows of the edges without those drawn again between the same nodes, in either direction.

    Args:
        graph: roads.
        order: rows of all edges; of edges alike the first of these stays.

    Returns:
        The rows that stay, in their order.
    """
    drawing = shapely.to_wkb(shapely.normalize(graph.lines))
    ends = np.sort(graph.ends, axis=1).tolist()
    rows: dict[tuple[int, int, bytes], int] = {}
    for row in order:
        rows.setdefault((*ends[row], drawing[row]), row)
    return np.array(list(rows.values()), dtype=np.int64)


def drawn_once(graph: RoadGraph) -> RoadGraph:
    """Return the graph with one of the edges that join the same nodes by the same line."""
    kept = first_drawn(graph, range(len(graph.lines)))
    columns = {name: column[kept] for name, column in graph.attributes.items()}
    return RoadGraph(graph.crs, graph.nodes, graph.ends[kept], graph.lines[kept], columns)


def take_edges(graph: RoadGraph, chosen: Ints | Bools) -> RoadGraph:
    """Return the graph of the chosen edges, by row or by a boolean for each, and their nodes."""
    used, rows = np.unique(graph.ends[chosen], return_inverse=True)
    attributes = {name: column[chosen] for name, column in graph.attributes.items()}
    return RoadGraph(
        graph.crs, graph.nodes[used], rows.reshape(-1, 2), graph.lines[chosen], attributes
    )


def lines_from(xy: Floats, sizes: Ints) -> Lines:
    """Make LineStrings of coordinates that follow each other, `sizes` of them for each line."""
    return np.asarray(shapely.linestrings(xy, indices=np.repeat(np.arange(len(sizes)), sizes)))


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return start, start + 1, ... for each start, `sizes` numbers for each, in one array."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(sizes.sum())


def in_parts(rows: Ints, at_once: int) -> list[Ints]:
    """Return rows in parts of so many; one empty part if there are none."""
    return np.split(rows, range(at_once, len(rows), at_once))


def part_attributes(
    attributes: Mapping[str, NDArray[Any]], source: Ints, part: Floats
) -> dict[str, NDArray[Any]]:
    """Return the attributes of pieces, each a part (0 to 1) of the length of its source edge."""
    return {
        name: column[source] * part if name == TRAVEL_TIME else column[source]
        for name, column in attributes.items()
    }


def _check_lines(lines: Lines, columns: dict[str, NDArray[Any]]) -> None:
    if np.any(shapely.get_type_id(lines) != _LINE):
        raise ValueError("a graph is made of LineStrings, found another geometry or none")
    if not np.isfinite(shapely.get_coordinates(lines)).all():
        raise ValueError("a line has a coordinate that is not finite")
    for name, column in columns.items():
        if len(column) != len(lines):
            raise ValueError(f"attribute {name} has {len(column)} values for {len(lines)} lines")


def _distinct_vertices(lines: Lines) -> tuple[Floats, Ints]:
    """Return the rounded vertices of distinct lines that have length, and the row of the line.

    Of vertices that repeat the one before them, the first stays.
    """
    xy, line = shapely.get_coordinates(lines, return_index=True)
    xy = np.round(xy, DECIMALS) + 0.0  # no -0.0, whose bytes differ
    moved = np.ones(len(xy), dtype=bool)
    moved[1:] = (np.diff(xy, axis=0) != 0).any(axis=1) | (np.diff(line) != 0)
    xy, line = xy[moved], line[moved]
    sizes = np.bincount(line, minlength=len(lines))
    rows = np.flatnonzero(sizes > 1)
    xy, line = xy[sizes[line] > 1], line[sizes[line] > 1]
    is_first = np.zeros(len(lines), dtype=bool)
    is_first[rows[_first_of_equal(lines_from(xy, sizes[rows]))]] = True
    return xy[is_first[line]], line[is_first[line]]


def _line_lengths(xy: Floats, line: Ints, lines: int) -> Floats:
    """Return the length of each line, of vertices that follow each other."""
    steps = np.hypot(*np.diff(xy, axis=0).T) * (np.diff(line) == 0)
    return np.bincount(line[1:], weights=steps, minlength=lines).astype(np.float64)


def _first_of_equal(lines: Lines) -> Ints:
    """Return the rows of the lines that do not repeat an earlier line in either direction."""
    rows: dict[bytes, int] = {}
    for row, drawing in enumerate(shapely.to_wkb(shapely.normalize(lines))):
        rows.setdefault(drawing, row)
    return np.array(list(rows.values()), dtype=np.int64)


def _vertex_ids(xy: Floats) -> Ints:
    """Number the positions: equal numbers for equal positions."""
    _, ids = np.unique(xy[:, 0] + 1j * xy[:, 1], return_inverse=True)
    return ids.ravel().astype(np.int64)


def _is_node(vertex: Ints, line: Ints) -> Bools:
    """Tell which positions are ends, shared, or turning points, shape (number of positions,)."""
    is_node: Bools = np.bincount(vertex) > 1
    is_node[vertex[np.diff(line, prepend=-1) != 0]] = True
    is_node[vertex[np.diff(line, append=-1) != 0]] = True
    turns = (vertex[2:] == vertex[:-2]) & (line[2:] == line[:-2])
    is_node[vertex[1:-1][turns]] = True
    return is_node
