"""MissingParts: the parts of predicted roads that a map lacks, led back to where they leave it."""

from dataclasses import dataclass, replace

import numpy as np
import shapely
from shapely.ops import substring

from roadseg.arrays import Bools, Floats, Ints, Shapes
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.graph.road_graph import RoadGraph, end_points, take_edges
from roadseg.roads.metrics.differences import missing_roads

EDGE = "edge of the prediction"  # Column with the row of the edge that a part is of.
_ROUNDING_M = 0.002  # Metres; a part that begins this near to an end of its edge begins there.
_STEPS = 24  # Places, a metre apart, along a road that is led back to the map.
_MARGIN_M = 0.5  # Metres by which a road may end further on than the way of the map.
_CLOSEST_M = 0.5  # Metres; places whose distances from a way differ by less are as close.


@dataclass(frozen=True)
class MissingParts:
    """Parts of predicted roads that a map lacks.

    Attributes:
        graph: the parts as edges, with the attributes of the predicted edges, and the rows of these
            as `EDGE`.
        is_dead_end: shape (n,), nodes where the predicted road ends.
        missing_m: shape (m,), how much of each part is missing, without what leads back to the map.
    """

    graph: RoadGraph
    is_dead_end: Bools
    missing_m: Floats

    def take(self, chosen: Bools) -> "MissingParts":
        """Return the chosen parts."""
        used = np.unique(self.graph.ends[chosen])
        return MissingParts(
            take_edges(self.graph, chosen),
            self.is_dead_end[used],
            self.missing_m[chosen],
        )


def find_missing_parts(predicted: RoadGraph, ways: MapWays, *, tolerance_m: float) -> MissingParts:
    """Find the parts of predicted roads that a map lacks.

    1. Where a way of the map ends, and no other goes on, its last metres count for nothing, so that
       the road on from there is missing as from the end itself. Else a gap of up to twice the
       tolerance would be hidden by its ends.
    2. `missing_roads` cuts a road where it comes within the tolerance of the map, which can be far
       from where it meets the way. From there it is followed for some 24 m, no further than half
       way to the next part, to the first place that is as close to a way as it gets.

    Args:
        predicted: roads in metres.
        ways: of the map, in the same metres.
        tolerance_m: distance up to which roads are the same; above 0.

    Returns:
        The parts, in the order of their edges.
    """
    rows = np.arange(len(predicted.lines))
    numbered = replace(predicted, attributes={**predicted.attributes, EDGE: rows})
    lines = ways.without_dead_ends(tolerance_m - _MARGIN_M)
    mapped = RoadGraph(predicted.crs, np.zeros((0, 2)), np.zeros((0, 2), np.int64), lines)
    graph = missing_roads(numbered, mapped, tolerance_m=tolerance_m, min_length_m=0)
    spans = _spans(graph, predicted, graph.attributes[EDGE])
    room = _room(spans, predicted, graph.attributes[EDGE])
    edge = graph.attributes[EDGE]
    length = predicted.length_m[edge]
    is_cut_end = _are_cut(spans, length)
    led = _lead_back(spans, room, predicted, edge, ways)
    missing_m, lines = graph.length_m, graph.lines.copy()
    for row in np.flatnonzero((led != spans).any(axis=1)).tolist():
        lines[row] = substring(predicted.lines[edge[row]], *led[row])
    # Parts that are led back to a node of the prediction share it.
    ends = predicted.ends[edge]
    is_dead_end = (predicted.degree[ends] == 1) & ~is_cut_end
    is_between = _are_cut(led, length)
    ends[is_between] = len(predicted.nodes) + np.arange(np.sum(is_between))
    _, first, rows = np.unique(ends, return_index=True, return_inverse=True)
    graph = RoadGraph(
        graph.crs,
        end_points(lines).reshape(-1, 2)[first],
        rows.reshape(-1, 2),
        lines,
        graph.attributes,
    )
    return MissingParts(graph, is_dead_end.ravel()[first], missing_m)


def _are_cut(spans: Floats, length: Floats) -> Bools:
    """Return which ends of parts lie between those of their edges, shape (m, 2)."""
    return np.column_stack([spans[:, 0] > _ROUNDING_M, spans[:, 1] < length - _ROUNDING_M])


def _spans(graph: RoadGraph, predicted: RoadGraph, edge: Ints) -> Floats:
    """Return where on its edge each part begins and ends, shape (m, 2)."""
    start = shapely.get_point(graph.lines, 0)
    begin = np.asarray(shapely.line_locate_point(predicted.lines[edge], start))
    # A loop ends where it begins, but no part is longer than what is left of its edge.
    begin = np.minimum(begin, predicted.length_m[edge] - graph.length_m)
    begin = np.where(begin <= _ROUNDING_M, 0, begin)
    return np.column_stack([begin, begin + graph.length_m])


def _room(spans: Floats, predicted: RoadGraph, edge: Ints) -> Floats:
    """Return how far each part can go on along its edge at either end, shape (m, 2)."""
    # Half of what lies between two parts of one edge belongs to each.
    is_next = np.diff(edge) == 0
    between = (spans[1:, 0] - spans[:-1, 1]) / 2
    room = np.column_stack([spans[:, 0], predicted.length_m[edge] - spans[:, 1]])
    room[1:, 0][is_next] = room[:-1, 1][is_next] = between[is_next]
    return room


def _lead_back(
    spans: Floats, room: Floats, predicted: RoadGraph, edge: Ints, ways: MapWays
) -> Floats:
    """Return spans that go on to where the road comes closest to a way of the map."""
    length = predicted.length_m[edge]
    led = spans.copy()
    for side, sign in ((0, -1), (1, 1)):
        most, steps = np.maximum(room[:, side], 0)[:, np.newaxis], np.arange(_STEPS + 1)
        # The last step leads to the end itself, not to a place just before it.
        steps = np.where(steps > np.maximum(most - 1, 0), most, steps)
        places = np.clip(spans[:, side, np.newaxis] + sign * steps, 0, length[:, np.newaxis])
        lines = predicted.lines[edge][:, np.newaxis]
        points = np.asarray(shapely.line_interpolate_point(lines, places))
        distances = _distances(points, ways)
        closest = distances.min(axis=1, keepdims=True, initial=np.inf)
        chosen = np.argmax(distances <= closest + _CLOSEST_M, axis=1)
        moved = room[:, side] > _ROUNDING_M
        led[moved, side] = places[np.arange(len(places)), chosen][moved]
    return led


def _distances(points: Shapes, ways: MapWays) -> Floats:
    """Return the distance of each point from the nearest way for cars; of any way if none is."""
    target = ways.tree if not ways.is_open.any() else shapely.STRtree(ways.lines[ways.is_open])
    (row, _), distance = target.query_nearest(
        points.ravel(), return_distance=True, all_matches=False
    )
    distances = np.full(points.size, np.inf)
    distances[row] = distance
    return distances.reshape(points.shape)
