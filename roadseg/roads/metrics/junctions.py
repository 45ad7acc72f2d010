"""Junctions: how many are found, how many are right, and how far they lie off."""

import statistics
from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Floats
from roadseg.roads.graph.cleaning import nearest_pairs
from roadseg.roads.graph.road_graph import RoadGraph, without_duplicate_edges
from roadseg.roads.metrics.buffer import check_sides
from roadseg.roads.metrics.pooling import Pooled, share

TOLERANCE_M = 10.0  # Metres between junctions that are the same, at most; as in TOPO.
_MEETING = 3  # Ends of roads at a junction, at least.
_DECIMALS = 6  # Decimals of metres: distances that agree to 1 um are equal.


@dataclass(frozen=True)
class JunctionMatch(Pooled):
    """Junctions of two road networks; add those of all pairs to pool.

    A share of nothing (0 / 0) is 1 when there is no junction on either side, and 0 otherwise.

    Attributes:
        offsets_m: distance between both of each matched pair.
    """

    reference: int = 0
    predicted: int = 0
    offsets_m: tuple[float, ...] = ()

    @property
    def precision(self) -> float:
        """Share of the predicted junctions that are matched."""
        return share(len(self.offsets_m), self.predicted, other_side=self.reference)

    @property
    def recall(self) -> float:
        """Share of the junctions of the reference that are matched."""
        return share(len(self.offsets_m), self.reference, other_side=self.predicted)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        both = self.reference + self.predicted
        return 2 * len(self.offsets_m) / both if both else 1.0

    @property
    def offset_m(self) -> float | None:
        """Median distance of matched junctions in metres; None if none is matched."""
        return statistics.median(self.offsets_m) if self.offsets_m else None


def match_junctions(
    reference: RoadGraph, predicted: RoadGraph, *, tolerance_m: float = TOLERANCE_M
) -> JunctionMatch:
    """Match the junctions of two networks one to one.

    1. A junction is a node at which three or more ends of edges meet; a loop has two of them, and
       of edges drawn alike between the same nodes one counts. Where roads cross without a node,
       there is none.
    2. Junctions of both sides can match if they are at most `tolerance_m` apart.
    3. Pairs are matched from the nearest on; each junction is in one of them at most.

    Rule 3 does not always find the largest number of pairs, but it never gives the junction beside
    it away to one further off; and it needs no table of all junctions.

    Args:
        predicted: graph to be scored, in the same metric CRS.
        tolerance_m: greatest distance, that distance included; above 0.

    Raises:
        ValueError: the CRSs differ, or `tolerance_m` is not above 0.

    Source: the one-to-one match within 10 m is that of the places of TOPO (Biagioni and Eriksson,
    TRR 2291, 2012). The junction metric of RoadTracer (Bastani et al., CVPR 2018) instead counts
    the roads that leave matched junctions.
    """
    check_sides(reference, predicted, tolerance_m)
    ours, theirs = junctions(reference), junctions(predicted)
    places, side = np.concatenate([ours, theirs]), np.repeat([0, 1], [len(ours), len(theirs)])
    pairs = places[nearest_pairs(places, side, within=tolerance_m + 10.0**-_DECIMALS)]
    offsets = np.hypot(*(pairs[:, 0] - pairs[:, 1]).T)
    return JunctionMatch(len(ours), len(theirs), tuple(np.round(offsets, _DECIMALS).tolist()))


def junctions(graph: RoadGraph) -> Floats:
    """Return the positions of the nodes at which three or more ends of edges meet, shape (k, 2)."""
    once = without_duplicate_edges(graph)
    return once.nodes[once.degree >= _MEETING]
