"""Noding: lines that were added to a road graph or changed, joined where they meet."""

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    graph_from_lines,
    lines_from,
    take_edges,
)

_LINES_AT_ONCE = 20_000  # whose coordinates are in memory
_ROW = "row"  # of an edge in the graph before


def is_off_grid(lines: Lines) -> Bools:
    """Tell which lines, in metres, have coordinates that are no whole millimetres."""
    is_off = np.zeros(len(lines), dtype=bool)
    for first in range(0, len(lines), _LINES_AT_ONCE):
        xy, line = shapely.get_coordinates(lines[first : first + _LINES_AT_ONCE], return_index=True)
        is_off[first + line[(xy != xy.round(DECIMALS)).any(axis=1)]] = True
    return is_off


def noded(
    graph: RoadGraph, lines: Lines, attributes: dict[str, NDArray[Any]], changes: Bools
) -> RoadGraph:
    """Make one graph of lines, those of `graph` first, of which some are new or have changed.

    These are joined where they share vertices; the others stay edges between the nodes they had.

    Args:
        graph: roads in metres.
        lines: shape (m,), its lines, some of them changed, and then others; all coordinates are
            whole millimetres.
        attributes: columns of shape (m,) for the edges.
        changes: shape (m,), which lines have changed, or share a vertex with one that has.
    """
    stay = np.flatnonzero(~changes)
    columns = attributes | {_ROW: np.arange(len(lines))}
    changed = {name: column[changes] for name, column in columns.items()}
    joined = graph_from_lines(lines[changes], graph.crs, changed)
    found = {name: np.append(columns[name][stay], joined.attributes[name]) for name in columns}
    order = np.argsort(found.pop(_ROW), kind="stable")
    places = np.concatenate([graph.nodes.round(DECIMALS) + 0.0, joined.nodes])
    _, first, node = np.unique(
        places[:, 0] + 1j * places[:, 1], return_index=True, return_inverse=True
    )
    ends = node.ravel()[np.concatenate([graph.ends[stay], joined.ends + len(graph.nodes)])]
    lines = np.concatenate([lines[stay], joined.lines])
    return take_edges(RoadGraph(graph.crs, places[first], ends, lines, found), order)


def with_vertices(lines: Lines, chosen: Ints, points: Floats) -> Lines:
    """Return lines, some with a further vertex at a point that lies on each.

    Args:
        lines: shape (m,), LineStrings.
        chosen: shape (k,), rows of lines; one may be chosen several times.
        points: shape (k, 2), x and y.
    """
    rows = np.unique(chosen)
    xy, line = shapely.get_coordinates(lines[rows], return_index=True)
    steps = np.hypot(*np.diff(xy, axis=0, prepend=0.0).T)
    steps[np.diff(line, prepend=-1) > 0] = 0
    travelled = np.cumsum(steps)
    along = travelled - travelled[np.searchsorted(line, line)]
    added = shapely.line_locate_point(lines[chosen], shapely.points(points))
    order = np.lexsort([np.append(along, added), np.append(line, np.searchsorted(rows, chosen))])
    sizes = np.bincount(line, minlength=len(rows)) + np.unique(chosen, return_counts=True)[1]
    changed = lines.copy()
    changed[rows] = lines_from(np.concatenate([xy, points])[order], sizes)
    return changed
