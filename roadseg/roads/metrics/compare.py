"""Comparison: all measures of predicted roads against the reference, and their pooling."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Any

import numpy as np
import shapely

from roadseg.roads.graph.cleaning import part_lengths
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.metrics.apls import Apls, apls, apls_by, pool_apls
from roadseg.roads.metrics.breaks import Breaks, count_breaks
from roadseg.roads.metrics.buffer import BufferMatch, match_lines
from roadseg.roads.metrics.pooling import Pooled
from roadseg.roads.metrics.topo import Topo, topo
from roadseg.roads.options import CompareOptions

TOPO_KM = 500.0  # Kilometres of roads on a side up to which TOPO, 2 ms a start, is measured.

_CHIP_M = 500.0  # Metres; roads that reach no further are on a chip of SpaceNet, 400 m wide.
_CHIP_RADIUS_M, _CITY_RADIUS_M = 150.0, 300.0  # Radius of TOPO on such a chip, and beyond.


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
class SideFacts(Pooled):
    """Roads of one side in figures.

    Attributes:
        assumed_speed_km: length of roads whose speed was assumed.
        largest_km: length of the largest connected part; of several places, of that of each.
    """

    road_km: float = 0.0
    components: int = 0
    assumed_speed_km: float = 0.0
    largest_km: float = 0.0

    @property
    def largest_share(self) -> float | None:
        """Share of the length that is in the largest connected part; None without roads."""
        return self.largest_km / self.road_km if self.road_km else None


@dataclass(frozen=True)
class Measures:
    """All measures of the roads of a pair, or of all pairs together.

    Attributes:
        length: APLS by length.
        time: APLS by travel time.
        topo: None above `TOPO_KM`.
        topo_radius_m: its `radius_m`, the largest if pooled.
        buffer: correctness, completeness and quality.
        breaks: interruptions of the roads of the reference.
    """

    length: Apls
    time: Apls
    topo: Topo | None
    topo_radius_m: float
    buffer: BufferMatch
    breaks: Breaks
    reference: SideFacts
    predicted: SideFacts

    @property
    def connectivity(self) -> float:
        """How connected the prediction is, compared with the reference: 1 if it is as much.

        The share of the length in the largest connected part of the prediction, divided by the
        same share of the reference. 1 if there are no roads on either side, 0 if they are on one
        side only. Above 1, the prediction has connections that the reference lacks, or only roads
        of its largest part.
        """
        here, there = self.reference.largest_share, self.predicted.largest_share
        if here is None or there is None:
            return float(here == there)
        return there / here

    @property
    def figures(self) -> dict[str, float | None]:
        """The figures by name, as tables have them; None was not measured."""
        topo = self.topo
        return {
            "apls_length": self.length.score,
            "apls_time": self.time.score,
            "topo_precision": None if topo is None else topo.precision,
            "topo_recall": None if topo is None else topo.recall,
            "topo_f1": None if topo is None else topo.f1,
            "correctness": self.buffer.correctness,
            "completeness": self.buffer.completeness,
            "quality": self.buffer.quality,
            "breaks": self.breaks.count,
            "breaks_per_km": self.breaks.per_km,
            "connectivity": self.connectivity,
            "reference_km": self.reference.road_km,
            "predicted_km": self.predicted.road_km,
        }


def compare(reference: Side, predicted: Side | None, options: CompareOptions) -> Measures:
    """Measure how alike the roads of two sides are.

    Roads that reach no further than 500 m in x and y are taken for a chip of SpaceNet: TOPO has a
    radius of 150 m. For others it is 300 m, as in its source for cities.

    Args:
        predicted: what is scored, in the same metric CRS; None if there is none: all measures
            are 0.

    Raises:
        ValueError: the CRSs differ, a distance is not above 0, or a travel time is negative or not
            finite.
    """
    nothing = graph_from_lines(np.zeros(0, dtype=object), reference.graph.crs)
    other = predicted or Side(nothing, nothing)
    facts = _facts(reference), _facts(other)
    is_chip = _reach_m(reference.drawn, other.drawn) <= _CHIP_M
    radius_m = _CHIP_RADIUS_M if is_chip else _CITY_RADIUS_M
    marbles: Topo | None = Topo(0.0, 0.0, 0.0, 0.0, 0, 0)
    if max(side.road_km for side in facts) > TOPO_KM:
        marbles = None
    elif predicted is not None:
        marbles = topo(reference.drawn, predicted.drawn, radius_m=radius_m)
    length, time = apls_by(
        ("length_m", "travel_time_s"),
        reference.graph,
        None if predicted is None else predicted.graph,
        spacing_m=options.spacing_m,
        snap_m=options.snap_m,
    )
    graphs, tolerance_m = (reference.graph, other.graph), options.tolerance_m
    return Measures(
        length,
        time,
        marbles,
        radius_m,
        match_lines(*graphs, tolerance_m=tolerance_m),
        count_breaks(*graphs, tolerance_m=tolerance_m),
        *facts,
    )


def score_apls(reference: RoadGraph, predicted: RoadGraph, options: CompareOptions) -> float:
    """Return the APLS by length of two graphs in one metric CRS, as `compare` measures it."""
    sides, spacing_m = (reference, predicted), options.spacing_m
    return apls(*sides, spacing_m=spacing_m, snap_m=options.snap_m).score


def pool(pairs: Sequence[Measures]) -> Measures:
    """Average APLS and TOPO over pairs, one at least; add up lengths, counts, and what is near.

    F1 of TOPO is that of mean precision and mean recall.
    """
    topos = [pair.topo for pair in pairs if pair.topo is not None]
    return Measures(
        length=pool_apls([pair.length for pair in pairs]),
        time=pool_apls([pair.time for pair in pairs]),
        topo=_pool_topo(topos) if len(topos) == len(pairs) else None,
        topo_radius_m=max(pair.topo_radius_m for pair in pairs),
        buffer=sum((pair.buffer for pair in pairs), BufferMatch()),
        breaks=sum((pair.breaks for pair in pairs), Breaks()),
        reference=sum((pair.reference for pair in pairs), SideFacts()),
        predicted=sum((pair.predicted for pair in pairs), SideFacts()),
    )


def _facts(side: Side) -> SideFacts:
    parts_km = part_lengths(side.graph) / 1000
    road_km = float(side.graph.length_m.sum()) / 1000
    largest_km = float(parts_km.max(initial=0.0))
    return SideFacts(road_km, len(parts_km), min(side.assumed_m / 1000, road_km), largest_km)


def _reach_m(here: RoadGraph, there: RoadGraph) -> float:
    """Return the longer side of the box around the roads of both graphs."""
    lines = np.concatenate([here.lines, there.lines])
    if len(lines) == 0:
        return 0.0
    west, south, east, north = shapely.total_bounds(lines)
    return float(max(east - west, north - south))


def _pool_topo(scores: Sequence[Topo]) -> Topo:
    def pooled(name: str) -> Any:  # noqa: ANN401 - a number of the type of the field
        values = [getattr(score, name) for score in scores]
        return sum(values) if name in ("starts", "counted") else fmean(values)

    return Topo(**{each.name: pooled(each.name) for each in fields(Topo)})
