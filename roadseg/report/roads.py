"""ReportRoads: road graphs as short columns of whole numbers, for a page that draws them."""

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.arrays import Lines
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.metrics.differences import missing_roads

_SHORTEST_M = 5.0  # of what is shown as missed or false
_DECIMALS = {"length_m": 4, TRAVEL_TIME: 5}  # others have 3


def encode_graph(
    graph: RoadGraph, origin: tuple[float, float], *, step_m: float, tolerance_m: float
) -> dict[str, Any]:
    """Return a graph with all attributes of its edges; lengths and times are exact.

    Args:
        graph: roads in metres.
        origin: x and y from which coordinates count.
        step_m: size of a unit of the coordinates.
        tolerance_m: how far a line may move when simplified; 0 keeps every vertex.
    """
    if TRAVEL_TIME not in graph.attributes and "speed_kph" in graph.attributes:
        graph = add_travel(graph, graph.attributes["speed_kph"])
    columns = {"length_m": graph.length_m, **graph.attributes}
    return {
        "nodes": len(graph.nodes),
        "ends": graph.ends.ravel().tolist(),
        "lines": encode_lines(graph.lines, origin, step_m=step_m, tolerance_m=tolerance_m),
        "columns": {name: _encode(name, column) for name, column in columns.items()},
    }


def encode_lines(
    lines: Lines, origin: tuple[float, float], *, step_m: float, tolerance_m: float
) -> dict[str, Any]:
    """Return lines as differences from vertex to vertex, across all of them, in whole steps.

    Arguments are those of `encode_graph`.
    """
    if tolerance_m:
        lines = shapely.simplify(lines, tolerance_m, preserve_topology=False)
    xy, line = shapely.get_coordinates(lines, return_index=True)
    steps = np.rint((xy - origin) / step_m).astype(np.int64)
    return {
        "step": step_m,
        "sizes": np.bincount(line, minlength=len(lines)).tolist(),
        "xy": np.diff(steps, axis=0, prepend=np.zeros((1, 2), dtype=np.int64)).ravel().tolist(),
    }


def missed_and_false(
    reference: RoadGraph, predicted: RoadGraph, *, tolerance_m: float
) -> tuple[RoadGraph, RoadGraph]:
    """Return the labelled roads that were not found, and the roads found that are not labelled.

    Args:
        reference: roads of the labels in metres.
        predicted: roads found, in the same CRS.
        tolerance_m: how far apart a road may lie in both.
    """
    options = {"tolerance_m": tolerance_m, "min_length_m": _SHORTEST_M}
    missed = missing_roads(reference, predicted, **options)
    return missed, missing_roads(predicted, reference, **options)


def _encode(name: str, column: NDArray[Any]) -> dict[str, Any]:
    """Return numbers rounded, None where there is none; texts as numbers of a list of texts."""
    if column.dtype.kind in "fiub":
        values = np.round(column.astype(np.float64), _DECIMALS.get(name, 3)).tolist()
        return {"values": [None if v != v else _short(v) for v in values]}  # noqa: PLR0124 - NaN
    texts, codes = np.unique(["" if v is None else str(v) for v in column], return_inverse=True)
    return {"texts": texts.tolist(), "codes": codes.tolist()}


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else value
