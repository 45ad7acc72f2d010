"""Travel: speed and travel time of every edge, from the speeds seen along its line."""

from dataclasses import replace

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.core.graphs import TRAVEL_TIME, Floats, Ints, RoadGraph

_KPH_PER_MPS = 3.6
_POINTS_AT_ONCE = 100_000  # as geometries they take ten times the room


def sample_points(graph: RoadGraph, *, spacing_m: float) -> tuple[Floats, Ints]:
    """Spread points evenly along the whole line of every edge.

    Each edge is taken as the fewest equal parts no longer than `spacing_m`, with a point in the
    middle of each part.

    Args:
        graph: roads in metres.
        spacing_m: greatest distance between points of an edge, above 0.

    Returns:
        Positions x, y in metres, shape (k, 2), and the row of the edge of each, shape (k,).

    Raises:
        ValueError: if `spacing_m` is not above 0.
    """
    if not spacing_m > 0:
        raise ValueError(f"spacing_m must be above 0, got {spacing_m}")
    counts = np.maximum(np.ceil(graph.length_m / spacing_m), 1).astype(np.int64)
    edge = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    middles = (nth + 0.5) / counts[edge]
    points = np.empty((len(edge), 2))
    for first in range(0, len(edge), _POINTS_AT_ONCE):
        some = slice(first, first + _POINTS_AT_ONCE)
        found = shapely.line_interpolate_point(
            graph.lines[edge[some]], middles[some], normalized=True
        )
        points[some] = shapely.get_coordinates(found)
    return points, edge


def vote_speeds(
    samples: NDArray[np.floating],
    edge: Ints,
    n_edges: int,
    bin_speeds_kph: Floats,
    *,
    default_kph: float,
    min_evidence: float = 0.05,
) -> Floats:
    """Let the samples along each edge vote on its speed: the bin with the most probability wins.

    Of equal bins the slower one wins.

    Args:
        samples: shape (k, bins), probability of each speed bin at each sample, 0 to 1.
        edge: shape (k,), the row of the edge of each sample.
        n_edges: number of edges.
        bin_speeds_kph: shape (bins,), the speed that each bin stands for.
        default_kph: speed of an edge without evidence; may be NaN.
        min_evidence: an edge whose bins together have a mean probability below this, or that has
            no sample, gets `default_kph`; just this is evidence. Above 0.

    Returns:
        Speed of each edge in km/h, shape (n_edges,).

    Raises:
        ValueError: if there is not one probability for each speed bin, or `min_evidence` is not
            above 0.
    """
    speeds = np.asarray(bin_speeds_kph, dtype=np.float64)
    if samples.shape != (len(edge), len(speeds)):
        raise ValueError(
            f"expected samples of shape {(len(edge), len(speeds))}, got {samples.shape}"
        )
    if not min_evidence > 0:
        raise ValueError(f"min_evidence must be above 0, got {min_evidence}")
    counts = np.maximum(np.bincount(edge, minlength=n_edges), 1)
    sums = [np.bincount(edge, weights=column, minlength=n_edges) for column in samples.T]
    mean = np.column_stack(sums) / counts[:, None]
    evidence = mean.sum(axis=1)
    return np.where(evidence >= min_evidence, speeds[mean.argmax(axis=1)], default_kph)


def travel_time_s(length_m: Floats, speed_kph: Floats) -> Floats:
    """Return the seconds it takes to drive lengths in metres at speeds in km/h.

    Raises:
        ValueError: if a speed is not above 0, or not finite.
    """
    if not np.all((np.asarray(speed_kph) > 0) & np.isfinite(speed_kph)):
        raise ValueError("every speed must be finite and above 0 km/h")
    return np.asarray(length_m * _KPH_PER_MPS / speed_kph, dtype=np.float64)


def add_travel(graph: RoadGraph, speed_kph: Floats) -> RoadGraph:
    """Return the graph with the attributes `speed_kph` and `travel_time_s`.

    Args:
        graph: roads in metres.
        speed_kph: shape (m,), speed of each edge.

    Raises:
        ValueError: if there is not one speed, finite and above 0, for each edge.
    """
    if np.shape(speed_kph) != (len(graph.lines),):
        raise ValueError(f"expected {len(graph.lines)} speeds, got shape {np.shape(speed_kph)}")
    seconds = travel_time_s(graph.length_m, speed_kph)
    added = {"speed_kph": np.asarray(speed_kph, dtype=np.float64), TRAVEL_TIME: seconds}
    return replace(graph, attributes={**graph.attributes, **added})
