#!/usr/bin/env python
r"""Fit the general model of the confidence of edges, or that of the starter.

Takes finished runs with labels, each as CONFIG=RUN_FOLDER. The roads of their scenes held out are
traced and compared with the labels, and a logistic regression says which are real. How often roads
are real differs from set to set, so each set has an intercept of its own. All cities count alike.
The mean of the intercepts is kept, without those of sets whose labels are selective, which leave
out roads that are there. Each set is also measured with the model of all other cities: as it is,
and as the prior of a fit to the set itself, at places that were left out.

    python scripts/fit_confidence.py two/roadseg.json=two/run nyc/roadseg.json=nyc/run \
        --selective tianjin --write

The general model is `roadseg/roads/tracing/edge_model.json`. With `--starter`, the runs are not
trained: `roadseg prepare` made their chips, and the starter predicted their images; it has learned
none of them, so all chips count. Its model is `confidence.json` beside its weights. The error that
is written with it is that of the models of all other cities.

    roadseg prepare --config dubai.json --set run=run/dubai
    roadseg predict dubai/images --checkpoint starter --output run/dubai/probabilities \
        --set predict.gsd=auto --set predict.scaling=auto
    python scripts/fit_confidence.py --starter dubai.json=run/dubai boston.json=run/boston --write
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np

from roadseg.commands.stages.calibrate_edges import measure_run
from roadseg.commands.stages.graph import SceneToTrace, find_roads
from roadseg.config import load_config
from roadseg.dataset.chips import ChipRecord, read_chips
from roadseg.dataset.edge_calibration import (
    Calibration,
    MeasuredEdges,
    cross_fit,
    write_calibration,
)
from roadseg.dataset.fold_files import held_out_chips, read_predicted
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.roads.logistic import LogisticModel, fit_near
from roadseg.roads.metrics.reliability import measure_reliability
from roadseg.roads.tracing import edge_confidence
from roadseg.system.workspace import Workspace

MODEL = Path(__file__).parent.parent / "roadseg" / "roads" / "tracing" / "edge_model.json"
SOURCE = "scripts/fit_confidence.py on scenes held out"
EDGES = 200.0  # that all runs of a city together count for


def measured_sets(
    config_file: Path, run: Path, *, is_of_starter: bool
) -> Iterator[tuple[str, MeasuredEdges]]:
    """Yield the edges of a run on chips that its network has not learned, by set."""
    config = load_config(config_file, [f"run={run}"])
    workspace = Workspace(run)
    listed = read_chips(workspace.chips)
    if is_of_starter:
        chips_of: dict[str, list[ChipRecord]] = defaultdict(list)
        for chip in listed.chips:
            chips_of[chip.scene].append(chip)
    else:
        chips_of = held_out_chips(workspace, listed, read_predicted(workspace))
    set_of = listed.set_of
    scenes = [SceneToTrace(n, workspace.probability(n), set_of[n]) for n in chips_of]
    graphs = {scene.name: find_roads(config, scene) for scene in scenes}
    measured = measure_run(config, workspace, listed, chips_of, graphs)
    if measured is not None:
        for name in sorted(set(measured.sets)):
            yield f"{run.name} {name}".strip(), measured.take(measured.is_of_set(name))


def fit(sets: dict[str, MeasuredEdges], selective: Collection[str]) -> LogisticModel:
    """Fit one model to all sets, each with an intercept of its own; keep the mean of these.

    Sets that are selective count for it only if all are.
    """
    edges = list(sets.values())
    number = np.repeat(np.arange(len(edges)), [len(each.share) for each in edges])
    terms = {name: np.concatenate([e.terms[name] for e in edges]) for name in edges[0].terms}
    own = {f"set {k}": (number == k).astype(float) for k in range(len(edges))}
    runs = Counter(city(name) for name in sets)
    counts = {name: 1 / runs[city(name)] for name in sets}
    weights = [
        each.weight * EDGES * counts[name] / each.weight.sum() for name, each in sets.items()
    ]
    share = np.concatenate([each.share for each in edges])
    nothing = LogisticModel(0.0, {})
    found = fit_near(nothing, terms | own, share, np.concatenate(weights), strength=1.0)
    complete = {name: counts[name] * (city(name) not in selective) for name in sets}
    kept = list((complete if any(complete.values()) else counts).values())
    offset = float(np.average([found.coefficients[name] for name in own], weights=kept))
    return LogisticModel(
        found.intercept + offset, {name: found.coefficients[name] for name in terms}
    )


def city(name: str) -> str:
    """Return the place of a set of a run: the name of the set, or of the run if that has none."""
    return name.rsplit(maxsplit=1)[-1]


def calibration_of(sets: dict[str, MeasuredEdges]) -> Calibration:
    """Fit the model of the starter, and measure each city with the model of all others."""
    confidence = [
        fit({key: one for key, one in sets.items() if city(key) != city(name)}, ()).probability(
            each.terms
        )
        for name, each in sets.items()
    ]
    length_m = np.concatenate([each.length_m for each in sets.values()])
    share = np.concatenate([each.share for each in sets.values()])
    return Calibration(
        weights="",
        chips=sum(len(each.places) for each in sets.values()),
        places=sum(len(set(each.places)) for each in sets.values()),
        km=float(length_m.sum()) / 1000,
        model=fit(sets, ()),
        reliability=measure_reliability(np.concatenate(confidence), share, length_m),
    )


def report(name: str, edges: MeasuredEdges, others: LogisticModel) -> None:
    """Print how far confidences of a set are off by the model of other sets, and fitted near it."""
    with patch.object(edge_confidence, "general_edge_model", lambda: others):
        fitted = cross_fit(edges)
    said = {"as it is": others.probability(edges.terms), "fitted near it": fitted}
    errors = [
        f"{how} {measure_reliability(confidence, edges.share, edges.length_m).error:.3f}"
        for how, confidence in said.items()
        if confidence is not None
    ]
    real = float(edges.share @ edges.length_m / edges.length_m.sum())
    km = edges.length_m.sum() / 1000
    print(f"{name}: {km:.1f} km, {real:.3f} real; expected calibration error: {', '.join(errors)}")


def main() -> None:
    """Read the options, fit and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="CONFIG=RUN_FOLDER")
    parser.add_argument("--selective", action="append", default=[], metavar="SET")
    parser.add_argument("--starter", action="store_true", help="fit the model of the starter")
    parser.add_argument("--write", action="store_true", help="write the model into the package")
    options = parser.parse_args()
    sets: dict[str, MeasuredEdges] = {}
    for each in options.runs:
        config_file, _, run = each.partition("=")
        sets |= measured_sets(Path(config_file), Path(run), is_of_starter=options.starter)
    for name, measured in sets.items():
        others = {key: one for key, one in sets.items() if city(key) != city(name)}
        if others:
            report(name, measured, fit(others, options.selective))
    text = json.dumps({"source": SOURCE} | fit(sets, options.selective).as_json(), indent=2)
    print(text)
    if options.write and options.starter:
        write_calibration(starter_folder(), calibration_of(sets))
    elif options.write:
        MODEL.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
