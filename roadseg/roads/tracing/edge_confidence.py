"""Edge confidence: how probable it is that each edge is a road, and the surest edges."""

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

_LEAST_M = 1.0  # Metres below which lengths and widths are not told apart.
_ROUNDING = 1e-9  # Share by which a mean may be lower than it should be by rounding.


@cache
def general_edge_model() -> LogisticModel:
    """Return the model that comes with the package; `scripts/fit_confidence.py` fits it."""
    return read_packaged("edge_model.json")


def edge_terms(graph: RoadGraph, border: shapely.Geometry) -> Terms:
    """Return what a model of edges goes by: columns of shape (edges,) by the names of its terms.

    Args:
        graph: roads as `trace.measure_edges` returns them.
        border: dead ends here are none, as their roads go on outside of the scene.
    """
    attributes = graph.attributes
    ends = find_dead_ends(graph, border, BORDER_M)
    width_m = np.nan_to_num(attributes["width_m"], nan=0.0)
    return {
        MEAN: log_odds(attributes["probability"]),
        LOWEST: log_odds(attributes["min_probability"]),
        MET: log_odds(_probability_met(graph)),
        LENGTH: np.log(np.maximum(graph.length_m, _LEAST_M)),
        WIDTH: np.log(np.maximum(width_m, _LEAST_M)),
        STRAIGHTNESS: _chord_m(graph) / np.maximum(graph.length_m, _LEAST_M),
        DEAD_ENDS: np.bincount(ends.edge, minlength=len(graph.lines)).astype(np.float64),
        IS_LINK: attributes[INFERRED].astype(np.float64),
    }


def with_confidence(graph: RoadGraph, model: LogisticModel, border: shapely.Geometry) -> RoadGraph:
    """Return the graph with the probability that each edge is a road as its `confidence`.

    Args:
        graph: roads as `trace.measure_edges` returns them.
        model: says how probable it is, by the terms of `edge_terms`.
        border: of the scene.
    """
    confidence = model.probability(edge_terms(graph, border))
    return replace(graph, attributes={**graph.attributes, CONFIDENCE: confidence})


def surest(confidence: Floats, length_m: Floats, *, precision: float) -> Bools:
    """Return the longest set of edges of whose length such a share is expected to be real.

    Args:
        confidence: shape (k,), how probable it is that each edge is real, 0 to 1.
        length_m: shape (k,), metres.
        precision: the share, 0 to 1; a set that just reaches it is good enough.

    Returns:
        Shape (k,), whether each edge is among them: all down to some confidence.
    """
    order = np.argsort(-confidence, kind="stable")
    metres = np.cumsum(length_m[order])
    expected = np.cumsum((confidence * length_m)[order])
    # The mean only falls as less sure edges join, so that those which reach it come first.
    is_sure = np.zeros(len(confidence), dtype=bool)
    is_sure[order] = expected >= (precision - _ROUNDING) * metres
    return is_sure


def keep_surest(graph: RoadGraph, *, precision: float) -> RoadGraph:
    """Return the graph of its surest edges, see `surest`, without links that they leave loose."""
    return _keep(graph, surest(graph.attributes[CONFIDENCE], graph.length_m, precision=precision))


def keep_likely_links(graph: RoadGraph, *, min_confidence: float) -> RoadGraph:
    """Return the graph without links that are less sure, and without those that they leave loose.

    Args:
        graph: edges with their confidence.
        min_confidence: 0 to 1; a link that just reaches it stays.
    """
    is_unlikely = graph.attributes[CONFIDENCE] < min_confidence
    is_unlikely &= graph.attributes[INFERRED] == 1
    return _keep(graph, ~is_unlikely)


def _keep(graph: RoadGraph, chosen: Bools) -> RoadGraph:
    """Return the chosen edges, without links that no longer join anything at one end."""
    graph = take_edges(graph, chosen)
    while (is_loose := _are_loose(graph)).any():
        graph = take_edges(graph, ~is_loose)
    return graph


def _probability_met(graph: RoadGraph) -> Floats:
    """Return the mean probability of the edges that begin where each edge ends, 0 without any."""
    length_m = graph.length_m
    metres = _of_those_met(graph, length_m)
    road = _of_those_met(graph, length_m * graph.attributes["probability"])
    is_alone = metres < _LEAST_M
    return np.asarray(np.clip(np.where(is_alone, 0, road / np.where(is_alone, 1, metres)), 0, 1))


def _of_those_met(graph: RoadGraph, values: Floats) -> Floats:
    """Return for each edge the sum of the values of all others at both of its ends."""
    weights = np.repeat(values, 2)
    at_node = np.bincount(graph.ends.ravel(), weights=weights, minlength=len(graph.nodes))
    return np.asarray(at_node[graph.ends].sum(axis=1) - 2 * values)


def _chord_m(graph: RoadGraph) -> Floats:
    """Return how far the ends of each edge lie apart."""
    start, end = graph.nodes[graph.ends].transpose(1, 0, 2)
    return np.asarray(np.hypot(*(end - start).T))


def _are_loose(graph: RoadGraph) -> Bools:
    """Return which links no longer join anything at one of their ends."""
    is_end = graph.degree == 1
    return np.asarray((graph.attributes[INFERRED] == 1) & is_end[graph.ends].any(axis=1))
