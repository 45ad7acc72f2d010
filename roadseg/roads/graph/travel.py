"""Travel: speed and travel time of every edge, from the speeds seen along its line."""

from dataclasses import replace

import numpy as np

from roadseg.arrays import Floats
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph
from roadseg.roads.speeds import KPH_PER_MPS

_LEAST_EVIDENCE = 0.05  # Mean probability of all speed bins along an edge that has a speed.


def vote_speeds(bin_probability: Floats, bin_speeds_kph: Floats) -> Floats:
    """Vote on the speed of each edge: the bin with the most probability along it wins.

    Of equal bins the slower one wins.

    Args:
        bin_probability: shape (m, bins), mean probability of each speed bin along each edge, 0 to
            1.
        bin_speeds_kph: shape (bins,), the speed that each bin stands for.

    Returns:
        Speed of each edge in km/h, shape (m,); NaN where the bins together have a mean probability
        below 0.05.
    """
    is_seen = bin_probability.sum(axis=1) >= _LEAST_EVIDENCE
    return np.where(is_seen, bin_speeds_kph[bin_probability.argmax(axis=1)], np.nan)


def travel_time_s(length_m: Floats, speed_kph: Floats) -> Floats:
    """Return the seconds it takes to drive lengths in metres at speeds in km/h.

    Raises:
        ValueError: if a speed is not above 0, or not finite.
    """
    if not np.all((np.asarray(speed_kph) > 0) & np.isfinite(speed_kph)):
        raise ValueError("every speed must be finite and above 0 km/h")
    return np.asarray(length_m * KPH_PER_MPS / speed_kph, dtype=np.float64)


def add_travel(graph: RoadGraph, speed_kph: Floats) -> RoadGraph:
    """Return the graph with the attributes `speed_kph` and `travel_time_s`.

    Args:
        speed_kph: shape (m,), speed of each edge.

    Raises:
        ValueError: if a speed is not above 0, or not finite.
    """
    seconds = travel_time_s(graph.length_m, speed_kph)
    added = {"speed_kph": np.asarray(speed_kph, dtype=np.float64), TRAVEL_TIME: seconds}
    return replace(graph, attributes={**graph.attributes, **added})
