"""Edge confidence: the probability that each edge is a road; drop unlikely edges."""

from dataclasses import replace
from functools import cache

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats
from roadseg.roads.graph.road_graph import RoadGraph, take_edges
from roadseg.roads.logistic import (
    DEAD_ENDS,
    IS_LINK,
    LENGTH,
    LOWEST,
    MEAN,
    MET,
    STRAIGHTNESS,
    WIDTH,
    LogisticModel,
    Terms,
    log_odds,
    read_packaged,
)
from roadseg.roads.tracing.dead_ends import BORDER_M, find_dead_ends
from roadseg.roads.tracing.linking import CONFIDENCE, INFERRED

# Metres; shorter lengths and widths count as this, so that their logarithm is finite.
_LEAST_M = 1.0


@cache
def general_edge_model() -> LogisticModel:
    """Return the model that comes with the package; `scripts/fit_confidence.py` fits it."""
    return read_packaged("edge_model.json")


def mean_confidence(graph: RoadGraph) -> float | None:
    """Return the mean confidence of edges by their length; None without edges or confidence."""
    if CONFIDENCE not in graph.attributes or not graph.length_m.sum():
        return None
    return float(np.average(graph.attributes[CONFIDENCE], weights=graph.length_m))


def edge_terms(graph: RoadGraph, border: shapely.Geometry) -> Terms:
    """Return the features of edges for `LogisticModel`: columns of shape (edges,) by name.

    Args:
        graph: roads as `trace.measure_edges` returns them.
        border: of the scene; roads that end here go on outside and are not dead ends.
    """
    attributes = graph.attributes
    ends = find_dead_ends(graph, border)
    width_m = np.nan_to_num(attributes["width_m"], nan=0.0)
    start, end = graph.nodes[graph.ends].transpose(1, 0, 2)
    chord_m = np.hypot(*(end - start).T)
    return {
        MEAN: log_odds(attributes["probability"]),
        LOWEST: log_odds(attributes["min_probability"]),
        MET: log_odds(_neighbour_probability(graph)),
        LENGTH: np.log(np.maximum(graph.length_m, _LEAST_M)),
        WIDTH: np.log(np.maximum(width_m, _LEAST_M)),
        STRAIGHTNESS: chord_m / np.maximum(graph.length_m, _LEAST_M),
        DEAD_ENDS: np.bincount(ends.edge, minlength=len(graph.lines)).astype(np.float64),
        IS_LINK: attributes[INFERRED].astype(np.float64),
    }


def with_confidence(graph: RoadGraph, model: LogisticModel, border: shapely.Geometry) -> RoadGraph:
    """Return a measured graph with the attribute `confidence`, predicted from `edge_terms`."""
    confidence = model.probability(edge_terms(graph, border))
    return replace(graph, attributes={**graph.attributes, CONFIDENCE: confidence})


def keep_likely(graph: RoadGraph, border: shapely.Geometry, *, min_confidence: float) -> RoadGraph:
    """Drop links and dead ends below a confidence, and links that then have a loose end.

    Other edges stay, since a way through a doubtful road is better than none. What becomes a dead
    end is one, so that a doubtful road of several edges goes as a whole.

    Args:
        border: of the scene; roads that end here go on outside and are not dead ends.
        min_confidence: 0 to 1; an edge that just reaches it stays.
    """
    is_link = graph.attributes[INFERRED] == 1
    is_unlikely = graph.attributes[CONFIDENCE] < min_confidence
    goes_on = np.asarray(shapely.dwithin(shapely.points(graph.nodes), border, BORDER_M))
    return _without_loose_edges(graph, ~(is_link & is_unlikely), is_link | is_unlikely, goes_on)


def _without_loose_edges(graph: RoadGraph, kept: Bools, may_go: Bools, goes_on: Bools) -> RoadGraph:
    """Return the kept edges, less those that may go and that no longer join anything at one end.

    Args:
        goes_on: the nodes at which a road goes on outside.
    """
    while True:
        degree = np.bincount(graph.ends[kept].ravel(), minlength=len(graph.nodes))
        is_loose = kept & may_go & ((degree == 1) & ~goes_on)[graph.ends].any(axis=1)
        if not is_loose.any():
            return take_edges(graph, kept)
        kept = kept & ~is_loose


def _neighbour_probability(graph: RoadGraph) -> Floats:
    """Return the mean probability, by length, of the neighbours of each edge; 0 without any."""
    length_m = graph.length_m
    metres = _sum_of_neighbours(graph, length_m)
    road = _sum_of_neighbours(graph, length_m * graph.attributes["probability"])
    is_alone = metres < _LEAST_M
    return np.asarray(np.clip(np.where(is_alone, 0, road / np.where(is_alone, 1, metres)), 0, 1))


def _sum_of_neighbours(graph: RoadGraph, values: Floats) -> Floats:
    """Sum for each edge the values of the other edges at both of its ends."""
    weights = np.repeat(values, 2)
    at_node = np.bincount(graph.ends.ravel(), weights=weights, minlength=len(graph.nodes))
    return np.asarray(at_node[graph.ends].sum(axis=1) - 2 * values)
