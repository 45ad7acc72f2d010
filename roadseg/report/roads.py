"""Roads of a report: graphs as compact columns of JSON for the page."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.arrays import Lines
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.metrics.differences import missing_roads

_SHORTEST_M = 5.0  # Metres; shorter roads are not shown as missed or false.
_DECIMALS = {"length_m": 4, TRAVEL_TIME: 5}  # Decimals of attributes; others have 3.


@dataclass(frozen=True)
class Precision:
    """Precision of drawn lines.

    Attributes:
        step_m: size of a unit of the coordinates.
        tolerance_m: how far a line may move when simplified; 0 keeps every vertex.
    """

    step_m: float
    tolerance_m: float


def encode_graph(
    graph: RoadGraph, origin: tuple[float, float], precision: Precision
) -> dict[str, Any]:
    """Return a graph with all attributes of its edges; lengths and times are exact.

    Args:
        graph: roads in metres.
        origin: x and y of the origin of coordinates.
    """
    if TRAVEL_TIME not in graph.attributes and "speed_kph" in graph.attributes:
        graph = add_travel(graph, graph.attributes["speed_kph"])
    columns = {"length_m": graph.length_m, **graph.attributes}
    return {
        "nodes": len(graph.nodes),
        "ends": graph.ends.ravel().tolist(),
        "lines": encode_lines(graph.lines, origin, precision),
        "columns": {name: encode_column(name, column) for name, column in columns.items()},
    }


def encode_lines(lines: Lines, origin: tuple[float, float], precision: Precision) -> dict[str, Any]:
    """Return lines in integer steps, each vertex relative to the previous one, also across lines.

    Arguments are those of `encode_graph`.
    """
    if precision.tolerance_m:
        lines = shapely.simplify(lines, precision.tolerance_m, preserve_topology=False)
    xy, line = shapely.get_coordinates(lines, return_index=True)
    # Differences have few digits, and errors of integers do not add up.
    steps = np.rint((xy - origin) / precision.step_m).astype(np.int64)
    return {
        "step": precision.step_m,
        "sizes": np.bincount(line, minlength=len(lines)).tolist(),
        "xy": np.diff(steps, axis=0, prepend=np.zeros((1, 2), dtype=np.int64)).ravel().tolist(),
    }


def missed_and_false(
    reference: RoadGraph, predicted: RoadGraph, *, tolerance_m: float
) -> tuple[RoadGraph, RoadGraph]:
    """Return missed roads (labelled, not predicted) and false roads (predicted, not labelled).

    Args:
        reference: labelled roads in metres.
        predicted: predicted roads, in the same CRS.
        tolerance_m: largest distance between a labelled and a predicted road.
    """
    missed, false = (
        missing_roads(roads, others, tolerance_m=tolerance_m, min_length_m=_SHORTEST_M)
        for roads, others in ((reference, predicted), (predicted, reference))
    )
    return missed, false


def encode_column(name: str, column: NDArray[Any]) -> dict[str, Any]:
    """Return rounded numbers, None for NaN; texts as a list of distinct texts and their codes."""
    if column.dtype.kind in "fiub":
        values = np.round(column.astype(np.float64), _DECIMALS.get(name, 3)).tolist()
        return {"values": [None if v != v else _whole_if_exact(v) for v in values]}  # noqa: PLR0124 - NaN
    texts, codes = np.unique(["" if v is None else str(v) for v in column], return_inverse=True)
    return {"texts": texts.tolist(), "codes": codes.tolist()}


def _whole_if_exact(value: float) -> float | int:
    return int(value) if value == int(value) else value
