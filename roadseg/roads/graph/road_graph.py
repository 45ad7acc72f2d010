"""RoadGraph: nodes and edges as tables, made of lines that are joined where they meet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS
from shapely.ops import substring

from roadseg.arrays import Array, Bools, Floats, Ints, Lines
from roadseg.roads.graph.groups import begin_runs, first_of_equal

TRAVEL_TIME = "travel_time_s"  # A part of an edge has a part of this attribute.
ONE_WAY = "oneway"  # 1 where cars drive an edge along its line only, -1 against it, 0 both ways.
DECIMALS = 3  # Decimals of metres: coordinates that agree to 1 mm are one vertex.
_WHOLE_M = 0.001  # Metres; a line stays whole if less than this would be cut off.
_LINES_AT_ONCE = 20_000  # The coordinates of this many lines are in memory together.
_POINTS_AT_ONCE = 100_000  # This many points become geometries together, because these are large.
_ROW = "row"  # Column with the row of an edge in the graph before.

EdgeKey = tuple[int, int, bytes]  # both nodes of an edge, and its line in one of its directions


@dataclass(frozen=True)
class RoadGraph:
    """A multigraph of roads in a metric CRS: loops and parallel edges are kept.

    Every edge is driven both ways, but for routes of cars where the attribute `oneway` is not 0.

    Attributes:
        crs: metric CRS of all coordinates.
        nodes: shape (n, 2), x and y in metres.
        ends: shape (m, 2), the rows of `nodes` at which each edge starts and ends.
        lines: shape (m,), one shapely LineString an edge, from its first node to its last.
        attributes: further columns of the edges by name, each of shape (m,); `speed_kph` and
            `travel_time_s` are the ones that travel.py adds.
    """

    crs: CRS
    nodes: Floats
    ends: Ints
    lines: Lines
    attributes: dict[str, Array] = field(default_factory=dict)

    @property
    def length_m(self) -> Floats:
        """Length of each edge in metres, shape (m,)."""
        return np.asarray(shapely.length(self.lines), dtype=np.float64)

    @property
    def degree(self) -> Ints:
        """Number of edge ends at each node, shape (n,); a loop counts twice."""
        return np.bincount(self.ends.ravel(), minlength=len(self.nodes))

    def column(self, name: str, missing: float | str | None) -> Array:
        """Return an attribute of all edges, shape (m,); one that is missing has one value."""
        known = self.attributes.get(name)
        return np.full(len(self.lines), missing) if known is None else known

    def share_of_length(self, chosen: Bools) -> float:
        """Return the share of the length of all edges that some have; 0 without any length."""
        length_m = self.length_m
        total_m = float(length_m.sum())
        return float(length_m[chosen].sum()) / total_m if total_m else 0.0


def graph_from_lines(
    lines: Lines, crs: CRS, attributes: Mapping[str, Array] | None = None
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
    _, vertex = unique_pairs(xy)
    # Lines are cut at their nodes: each two that follow each other on a line bound a piece.
    breaks = np.flatnonzero(_is_node(vertex, source)[vertex])
    spans = np.column_stack([breaks[:-1], breaks[1:]])
    spans = spans[source[spans[:, 0]] == source[spans[:, 1]]]

    sizes = spans[:, 1] - spans[:, 0] + 1
    pieces = lines_from(xy[ranges(spans[:, 0], sizes)], sizes)
    # Lines that share a part have this piece several times.
    once = first_of_equal(_line_keys(pieces))
    pieces, spans = pieces[once], spans[once]
    owner = source[spans[:, 0]]
    steps = np.hypot(*np.diff(xy, axis=0).T) * (np.diff(source) == 0)
    length = np.bincount(source[1:], weights=steps, minlength=len(lines))
    part = shapely.length(pieces) / length[owner]
    _, first, rows = np.unique(vertex[spans], return_index=True, return_inverse=True)
    nodes = xy[spans.ravel()[first]]
    return RoadGraph(crs, nodes, rows.reshape(-1, 2), pieces, part_attributes(columns, owner, part))


def separate_edges(lines: Lines, crs: CRS, attributes: dict[str, Array]) -> RoadGraph:
    """Return a graph of lines, each an edge between two nodes of its own."""
    ends = np.arange(2 * len(lines)).reshape(-1, 2)
    return RoadGraph(crs, end_points(lines).reshape(-1, 2), ends, lines, attributes)


def require_one_crs(graph: RoadGraph, other: RoadGraph) -> None:
    """Refuse graphs of which coordinates cannot be compared.

    Raises:
        ValueError: the CRSs differ.
    """
    if graph.crs != other.crs:
        raise ValueError(f"the CRSs differ: {graph.crs.name} and {other.crs.name}")


def end_points(lines: Lines) -> Floats:
    """Return the first and the last vertex of each line, shape (m, 2, 2)."""
    ends = shapely.get_coordinates(shapely.get_point(lines[:, np.newaxis], [0, -1]))
    return np.asarray(ends.reshape(-1, 2, 2))


def vertices_along(lines: Lines | shapely.LineString) -> tuple[Floats, Ints, Floats]:
    """Return the vertices of lines: x and y, shape (k, 2), row of the line, metres from its start.

    They follow each other as along the lines, one line after the other.
    """
    xy, line = shapely.get_coordinates(lines, return_index=True)
    steps = np.hypot(*np.diff(xy, axis=0, prepend=0.0).T)
    steps[np.diff(line, prepend=-1) > 0] = 0
    travelled = np.cumsum(steps)
    return xy, line, travelled - travelled[np.searchsorted(line, line)]


def cut_lines(lines: Lines, begin: Floats, end: Floats) -> Lines:
    """Return each line from one distance along it to another; the line itself if that is all."""
    parts = lines.copy()
    is_cut = (begin > _WHOLE_M) | (end < shapely.length(lines) - _WHOLE_M)
    for row in np.flatnonzero(is_cut).tolist():
        parts[row] = substring(lines[row], begin[row], end[row])
    return parts


def is_off_grid(lines: Lines) -> Bools:
    """Return which lines, in metres, have coordinates that are not whole millimetres."""
    is_off = np.zeros(len(lines), dtype=bool)
    for first in range(0, len(lines), _LINES_AT_ONCE):
        xy, line = shapely.get_coordinates(lines[first : first + _LINES_AT_ONCE], return_index=True)
        is_off[first + line[(xy != xy.round(DECIMALS)).any(axis=1)]] = True
    return is_off


def node_lines(
    graph: RoadGraph, lines: Lines, attributes: dict[str, Array], changes: Bools
) -> RoadGraph:
    """Make one graph of lines, those of `graph` first, of which some are new or have changed.

    These are joined where they share vertices; the others stay edges between the nodes they had.

    Args:
        lines: shape (m,), its lines, some of them changed, and then others; all coordinates are
            whole millimetres.
        attributes: columns of shape (m,) for the edges.
        changes: shape (m,), which lines have changed, or share a vertex with one that has.
    """
    # Only lines that have changed are noded; the others keep their edges and nodes.
    stay = np.flatnonzero(~changes)
    columns = attributes | {_ROW: np.arange(len(lines))}
    changed = {name: column[changes] for name, column in columns.items()}
    joined = graph_from_lines(lines[changes], graph.crs, changed)
    together = {name: np.append(columns[name][stay], joined.attributes[name]) for name in columns}
    order = np.argsort(together.pop(_ROW), kind="stable")
    # Nodes of both that agree to 1 mm become one.
    places = np.concatenate([graph.nodes.round(DECIMALS), joined.nodes])
    first, node = unique_pairs(places)
    ends = node[np.concatenate([graph.ends[stay], joined.ends + len(graph.nodes)])]
    lines = np.concatenate([lines[stay], joined.lines])
    return take_edges(RoadGraph(graph.crs, places[first] + 0.0, ends, lines, together), order)


def with_vertices(lines: Lines, chosen: Ints, points: Floats) -> Lines:
    """Return lines, some with a further vertex at a point that lies on each.

    Args:
        lines: shape (m,), LineStrings.
        chosen: shape (k,), rows of lines; one may be chosen several times.
        points: shape (k, 2), x and y.
    """
    rows = np.unique(chosen)
    xy, line, along = vertices_along(lines[rows])
    # Sorted by their distance along the line, new vertices fall between the old ones.
    added = shapely.line_locate_point(lines[chosen], shapely.points(points))
    order = np.lexsort([np.append(along, added), np.append(line, np.searchsorted(rows, chosen))])
    sizes = np.bincount(line, minlength=len(rows)) + np.unique(chosen, return_counts=True)[1]
    changed = lines.copy()
    changed[rows] = lines_from(np.concatenate([xy, points])[order], sizes)
    return changed


def edge_keys(graph: RoadGraph) -> list[EdgeKey]:
    """Return a key for each edge; equal edges join the same nodes by the same line, either way."""
    low, high = np.sort(graph.ends, axis=1).T.tolist()
    return list(zip(low, high, _line_keys(graph.lines), strict=True))


def find_lines(lines: Lines, others: Lines) -> tuple[Ints, Bools]:
    """Find each line among others that are drawn alike, point by point, in either direction.

    Returns:
        The row of the other line, -1 where there is none, and whether it runs the other way.
    """
    there, back = (
        {drawing: row for row, drawing in enumerate(shapely.to_wkb(way))}
        for way in (others, shapely.reverse(others))
    )
    keys = shapely.to_wkb(lines)
    row = np.array([there.get(key, back.get(key, -1)) for key in keys], dtype=np.int64)
    return row, np.array([key not in there for key in keys], dtype=bool)


def without_duplicate_edges(graph: RoadGraph) -> RoadGraph:
    """Return a graph without edges that join the same nodes by the same line as another one."""
    kept = first_of_equal(edge_keys(graph))
    columns = {name: column[kept] for name, column in graph.attributes.items()}
    return RoadGraph(graph.crs, graph.nodes, graph.ends[kept], graph.lines[kept], columns)


def sample_points(lines: Lines, *, spacing_m: float) -> tuple[Floats, NDArray[np.int32]]:
    """Spread points evenly along the whole of every line.

    Each line is taken as the fewest equal parts no longer than `spacing_m`, with a point in the
    middle of each part.

    Args:
        spacing_m: greatest distance between points of a line, above 0.

    Returns:
        Positions x, y in metres, shape (k, 2), and the row of the line of each, shape (k,).
    """
    counts = np.maximum(np.ceil(shapely.length(lines) / spacing_m), 1).astype(np.int64)
    before = np.cumsum(counts) - counts
    line = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    points = np.empty((len(line), 2))
    for first in range(0, len(line), _POINTS_AT_ONCE):
        rows = line[first : first + _POINTS_AT_ONCE]
        nth = np.arange(first, first + len(rows)) - before[rows]
        along = (nth + 0.5) / counts[rows]
        spread = shapely.line_interpolate_point(lines[rows], along, normalized=True)
        points[first : first + len(rows)] = shapely.get_coordinates(spread)
    return points, line


def take_edges(graph: RoadGraph, chosen: Ints | Bools) -> RoadGraph:
    """Return the graph of the chosen edges, by row or by a boolean for each, and their nodes."""
    used, rows = np.unique(graph.ends[chosen], return_inverse=True)
    attributes = {name: column[chosen] for name, column in graph.attributes.items()}
    return RoadGraph(
        graph.crs, graph.nodes[used], rows.reshape(-1, 2), graph.lines[chosen], attributes
    )


def unique_pairs(pairs: NDArray[np.number]) -> tuple[Ints, Ints]:
    """Number pairs of numbers, such as positions: equal numbers for equal pairs.

    Numbers rise with the first of a pair and then with the second.

    Args:
        pairs: shape (k, 2); 0.0 and -0.0 are equal.

    Returns:
        The row at which each number is first, and the number of each pair, shape (k,).
    """
    # Complex numbers sort as pairs do, and in a fraction of the time of np.unique over rows.
    keys = pairs[:, 0] + 1j * pairs[:, 1]
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first, number.ravel().astype(np.int64)


def lines_from(xy: Floats, sizes: Ints) -> Lines:
    """Make LineStrings of coordinates that follow each other, `sizes` of them for each line."""
    return np.asarray(shapely.linestrings(xy, indices=np.repeat(np.arange(len(sizes)), sizes)))


def are_reversed(lines: Lines, starts: Floats) -> Bools:
    """Return which lines end nearer than they begin to where they should start, shape (m, 2)."""
    points = shapely.points(starts)
    begin, end = (shapely.distance(shapely.get_point(lines, side), points) for side in (0, -1))
    return np.asarray(end < begin)


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return start, start + 1, ... for each start, `sizes` numbers for each, in one array."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(sizes.sum())


def in_parts(rows: Ints, at_once: int) -> list[Ints]:
    """Return rows in parts of this many; one empty part if there are none."""
    return np.split(rows, range(at_once, len(rows), at_once))


def part_attributes(
    attributes: Mapping[str, Array], source: Ints, part: Floats
) -> dict[str, Array]:
    """Return the attributes of pieces, each a part (0 to 1) of the length of its source edge."""
    return {
        name: column[source] * part if name == TRAVEL_TIME else column[source]
        for name, column in attributes.items()
    }


def _check_lines(lines: Lines, columns: dict[str, Array]) -> None:
    if np.any(shapely.get_type_id(lines) != shapely.GeometryType.LINESTRING):
        raise ValueError("a graph consists of LineStrings, found another geometry or none")
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
    # Adding 0.0 makes 0.0 of -0.0, which is equal but has other bytes.
    xy = np.round(xy, DECIMALS) + 0.0
    moved = begin_runs(*xy.T, line)
    xy, line = xy[moved], line[moved]
    sizes = np.bincount(line, minlength=len(lines))
    rows = np.flatnonzero(sizes > 1)
    xy, line = xy[sizes[line] > 1], line[sizes[line] > 1]
    is_first = np.zeros(len(lines), dtype=bool)
    is_first[rows[first_of_equal(_line_keys(lines_from(xy, sizes[rows])))]] = True
    return xy[is_first[line]], line[is_first[line]]


def _line_keys(lines: Lines) -> list[bytes]:
    """Return a key for each line, which equal lines share in either direction."""
    return list(shapely.to_wkb(shapely.normalize(lines)))


def _is_node(vertex: Ints, line: Ints) -> Bools:
    """Return which positions are ends, shared, or turning points, shape (number of positions,)."""
    is_node: Bools = np.bincount(vertex) > 1
    is_node[vertex[np.diff(line, prepend=-1) != 0]] = True
    is_node[vertex[np.diff(line, append=-1) != 0]] = True
    # A line that comes back to the vertex before the last has turned there.
    turns = (vertex[2:] == vertex[:-2]) & (line[2:] == line[:-2])
    is_node[vertex[1:-1][turns]] = True
    return is_node
