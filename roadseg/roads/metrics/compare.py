"""Comparison: all that is measured of predicted roads against the reference, and pooled."""

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import shapely

from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.apls import Apls, apls_by, pool_apls
from roadseg.roads.metrics.buffer import BufferMatch, match_lines
from roadseg.roads.metrics.sat2graph import (
    CITYSCALE_TILE,
    SPACENET_TILE,
    Sat2GraphApls,
    sat2graph_apls,
)
from roadseg.roads.metrics.topo import Topo, topo
from roadseg.roads.options import CompareOptions

Routes = Apls | Sat2GraphApls

TOPO_KM = 500.0  # of roads on either side up to which TOPO is measured; it takes 2 ms a start

_CHIP_M = 500.0  # roads that reach no further are on a chip of SpaceNet, 400 m wide
_CHIP_RADIUS_M, _CITY_RADIUS_M = 150.0, 300.0  # of TOPO, on such a chip and beyond

_Scores = TypeVar("_Scores", Topo, Sat2GraphApls)


@dataclass(frozen=True)
class Side:
    """Roads in a metric CRS, ready to be compared.

    Attributes:
        graph: joined wherever lines share a vertex, with the attribute `travel_time_s`.
        drawn: the same roads, each line as its file has it: what TOPO starts from.
        assumed_m: metres of road whose speed was assumed, as the file tells none.
    """

    graph: RoadGraph
    drawn: RoadGraph
    assumed_m: float = 0.0


@dataclass(frozen=True)
class SideFacts:
    """What there is of roads on one side.

    Attributes:
        road_km: length of all roads.
        components: connected parts.
        assumed_speed_km: length of those whose speed was assumed.
    """

    road_km: float = 0.0
    components: int = 0
    assumed_speed_km: float = 0.0

    def __add__(self, other: "SideFacts") -> "SideFacts":
        """Add up what there is in two places."""
        return SideFacts(
            self.road_km + other.road_km,
            self.components + other.components,
            self.assumed_speed_km + other.assumed_speed_km,
        )


@dataclass(frozen=True)
class Measures:
    """All that is measured of the roads of a pair, or of all pairs together.

    Attributes:
        length: APLS by length.
        time: APLS by travel time; None where the protocol has none.
        topo: None above `TOPO_KM`.
        topo_radius_m: its `radius_m`, the largest if pooled.
        buffer: correctness, completeness and quality.
        reference: what there is of roads in the reference.
        predicted: the same of the prediction.
    """

    length: Routes
    time: Apls | None
    topo: Topo | None
    topo_radius_m: float
    buffer: BufferMatch
    reference: SideFacts
    predicted: SideFacts


def compare(reference: Side, predicted: Side | None, parameters: CompareOptions) -> Measures:
    """Measure how alike the roads of two sides are.

    Roads that reach no further than 500 m in x and y are taken for a chip of SpaceNet: TOPO has a
    radius of 150 m, and protocol "sat2graph" its tile of 352 m. For others these are 300 m and
    2048 m, as in the sources for cities.

    Args:
        reference: the labels.
        predicted: what is scored, in the same metric CRS; None if there is none: all measures
            are 0.
        parameters: protocol and distances.

    Raises:
        ValueError: the CRSs differ, a distance is not above 0, a travel time is negative or not
            finite, or the roads reach further than the largest tile of the protocol.
    """
    found = predicted or _nothing(reference)
    facts = _facts(reference), _facts(found)
    reach_m = _reach_m(reference.drawn, found.drawn)
    radius_m = _CHIP_RADIUS_M if reach_m <= _CHIP_M else _CITY_RADIUS_M
    marbles: Topo | None = Topo(0.0, 0.0, 0.0, 0.0, 0, 0)
    if max(side.road_km for side in facts) > TOPO_KM:
        marbles = None
    elif predicted is not None:
        marbles = topo(reference.drawn, predicted.drawn, radius_m=radius_m)
    length, time = _routes(reference, predicted, parameters, reach_m)
    buffer = match_lines(reference.graph, found.graph, tolerance_m=parameters.tolerance_m)
    return Measures(length, time, marbles, radius_m, buffer, *facts)


def pool(measured: Sequence[Measures]) -> Measures:
    """Average APLS and TOPO over pairs, one at least; add up lengths, and what is near.

    F1 of TOPO is that of mean precision and mean recall.
    """
    topos = [found.topo for found in measured if found.topo is not None]
    times = [found.time for found in measured if found.time is not None]
    return Measures(
        length=_pooled_lengths([found.length for found in measured]),
        time=pool_apls(times) if times else None,
        topo=_pooled_topo(topos) if len(topos) == len(measured) else None,
        topo_radius_m=max(found.topo_radius_m for found in measured),
        buffer=functools.reduce(operator.add, (found.buffer for found in measured)),
        reference=functools.reduce(operator.add, (found.reference for found in measured)),
        predicted=functools.reduce(operator.add, (found.predicted for found in measured)),
    )


def _nothing(like: Side) -> Side:
    none = np.zeros(0, dtype=object)
    graph = RoadGraph(like.graph.crs, np.zeros((0, 2)), np.zeros((0, 2), dtype=np.int64), none)
    return Side(graph, graph)


def _facts(side: Side) -> SideFacts:
    part = components(side.graph)[side.graph.ends]
    road_km = float(side.graph.length_m.sum()) / 1000
    return SideFacts(road_km, len(np.unique(part)), min(side.assumed_m / 1000, road_km))


def _reach_m(here: RoadGraph, there: RoadGraph) -> float:
    """Return the longer side of the box around the roads of both graphs."""
    lines = np.concatenate([here.lines, there.lines])
    if len(lines) == 0:
        return 0.0
    west, south, east, north = shapely.total_bounds(lines)
    return float(max(east - west, north - south))


def _routes(
    reference: Side, predicted: Side | None, parameters: CompareOptions, reach_m: float
) -> tuple[Routes, Apls | None]:
    if parameters.protocol == "spacenet":
        length, time = apls_by(
            ("length_m", "travel_time_s"),
            reference.graph,
            None if predicted is None else predicted.graph,
            spacing_m=parameters.spacing_m,
            snap_m=parameters.snap_m,
        )
        return length, time
    if predicted is None:
        return Sat2GraphApls(0.0, 0.0, 0.0), None
    tile = SPACENET_TILE if reach_m <= _CHIP_M else CITYSCALE_TILE
    if reach_m > max(tile.side_m, _CHIP_M):
        raise ValueError(
            f"its roads reach over {reach_m:.0f} m, expected at most {tile.side_m:.0f} m, the "
            "larger tile of protocol sat2graph; cut them, or use protocol spacenet"
        )
    return sat2graph_apls(reference.drawn, predicted.drawn, tile=tile), None


def _pooled_lengths(scores: Sequence[Routes]) -> Routes:
    ours = [score for score in scores if isinstance(score, Apls)]
    theirs = [score for score in scores if isinstance(score, Sat2GraphApls)]
    return _mean(theirs) if theirs else pool_apls(ours)


def _pooled_topo(scores: Sequence[Topo]) -> Topo:
    starts = sum(score.starts for score in scores)
    return replace(_mean(scores), starts=starts, counted=sum(score.counted for score in scores))


def _mean(scores: Sequence[_Scores]) -> _Scores:
    """Return scores each of whose numbers is the mean of theirs."""
    names = [entry.name for entry in fields(scores[0])]
    total: dict[str, Any] = {
        name: math.fsum(getattr(score, name) for score in scores) for name in names
    }
    return replace(scores[0], **{name: value / len(scores) for name, value in total.items()})
