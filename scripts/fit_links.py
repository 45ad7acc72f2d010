#!/usr/bin/env python
"""Fit the general model of links across gaps, `roadseg/roads/tracing/link_model.json`.

Roads of OpenStreetMap are drawn as probabilities with noise (`bench_noise.py`). All links that may
be are looked at: one is true if most of it lies on a road and that road joins its ends. A logistic
regression tells the true from the false; its coefficients are kept as numbers. Fit on one city,
look at another:

    python scripts/fit_links.py monaco.geojson --held-out rhein_neckar.geojson.gz --write
"""

import argparse
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import shapely
from bench_noise import NOISE, THRESHOLD, Scene, dense_windows, draw, read_city
from sklearn.metrics import roc_auc_score

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.graph.shortest_paths import Routes, snap_to_edges
from roadseg.roads.logistic import LogisticModel, Terms, fit_near
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.metrics.reliability import measure_reliability
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.link_paths import TracedLinks
from roadseg.roads.tracing.linking import link_terms
from roadseg.roads.tracing.trace import find_graph

USED = "roadseg.roads.tracing.trace.general_link_model"
TERMS = "roadseg.roads.tracing.linking.link_terms"
MODEL = Path(__file__).parent.parent / "roadseg" / "roads" / "tracing" / "link_model.json"
SOURCE = "scripts/fit_links.py on drawn probabilities"
NEAR_M, SHARE, PLACES = 5.0, 0.7, 11  # most of a true link, so many places on it, is this near
SNAP_M, LEAST_M, APART = 12.0, 4.0, 2.0  # and the road is not longer by this factor
# until there is a better
FIRST = LogisticModel(2.0, {"length": -0.08, "log odds of the mean": 0.5})


def are_true(lines: np.ndarray, truth: RoadGraph) -> np.ndarray:
    """Return which lines lie on a road of the reference that joins their ends."""
    at = np.tile(np.linspace(0, 1, PLACES), len(lines))
    places = shapely.line_interpolate_point(np.repeat(lines, PLACES), at, normalized=True)
    near = np.zeros(len(places), dtype=bool)
    tree = shapely.STRtree(truth.lines)
    near[np.unique(tree.query(places, predicate="dwithin", distance=NEAR_M)[0])] = True
    is_on = near.reshape(-1, PLACES).mean(axis=1) >= SHARE
    ends = [shapely.get_coordinates(shapely.get_point(lines, side)) for side in (0, -1)]
    (starts, has_start), (goals, has_goal) = (
        snap_to_edges(xy, truth, snap_m=SNAP_M) for xy in ends
    )
    routes = Routes.through(truth, "length_m")
    metres = np.array(
        [routes.costs_to(goals.take([i]))(starts.take([i]))[0, 0] for i in range(len(lines))]
    )
    is_joined = metres <= APART * np.maximum(shapely.length(lines), LEAST_M)
    return is_on & has_start & has_goal & is_joined


def candidates(scenes: list[Scene], seeds: range, model: LogisticModel) -> tuple[Terms, np.ndarray]:
    """Return the terms of all links that may be, columns of shape (links,), and which are true."""
    found: list[tuple[Terms, np.ndarray]] = []
    truths: list[np.ndarray] = []

    def keep(links: Any, paths: TracedLinks, *others: Any) -> Terms:
        terms = link_terms(links, paths, *others)
        found.append((terms, paths.lines))
        return terms

    options = TraceOptions(threshold=THRESHOLD, min_confidence=0)
    for seed in seeds:
        for number, scene in enumerate(scenes):
            for noise in NOISE.values():
                road = draw(scene, noise, np.random.default_rng([seed, number]))
                with patch(USED, return_value=model), patch(TERMS, keep):
                    find_graph(Probability(scene.grid, road), options)
                truths += [are_true(lines, scene.truth) for _, lines in found[len(truths) :]]
    columns = {name: np.concatenate([terms[name] for terms, _ in found]) for name in found[0][0]}
    return columns, np.concatenate(truths)


def fit(terms: Terms, truth: np.ndarray) -> LogisticModel:
    """Fit a logistic regression; each coefficient is held near 0 as if by one more link."""
    nothing = LogisticModel(0.0, {})
    return fit_near(nothing, terms, truth * 1.0, np.ones(len(truth)), strength=1.0)


def report(name: str, terms: Terms, truth: np.ndarray, model: LogisticModel) -> None:
    """Print how well the model tells true links, and how far its probabilities are off."""
    said = model.probability(terms)
    apart = measure_reliability(said, truth * 1.0, np.ones(len(truth))).error
    print(
        f"{name}: {len(truth)} links, {truth.mean():.3f} true, "
        f"area under the ROC curve {roc_auc_score(truth, said):.3f}, "
        f"expected calibration error {apart:.3f}"
    )


def main() -> None:
    """Read the options, fit and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("roads", type=Path, metavar="OSM.geojson")
    parser.add_argument("--held-out", type=Path, metavar="OSM.geojson")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--side-m", type=float, default=1000.0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--write", action="store_true", help=f"write {MODEL.name}")
    options = parser.parse_args()
    scenes = dense_windows(read_city(options.roads), options.windows, options.side_m)
    model = FIRST
    for _ in range(2):  # what is asked for depends on what was chosen before
        terms, truth = candidates(scenes, range(100, 100 + options.seeds), model)
        model = fit(terms, truth)
    report("fitted on", terms, truth, model)
    if options.held_out:
        others = dense_windows(read_city(options.held_out), options.windows, options.side_m)
        terms, truth = candidates(others, range(1), model)
        report("held out", terms, truth, model)
    text = json.dumps({"source": SOURCE} | model.as_json(), indent=2)
    print(text)
    if options.write:
        MODEL.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
