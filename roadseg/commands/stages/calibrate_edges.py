"""Calibration of graphs by the labels of held-out chips: threshold, and confidence of edges.

This is not a stage: `graph` calibrates with it, and `evaluate` opens scenes with it.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from roadseg.arrays import Floats
from roadseg.commands.stages.declared_stages import fold_numbers
from roadseg.config import Config
from roadseg.dataset.chips import ChipList, ChipRecord, SceneRecord
from roadseg.dataset.edge_calibration import (
    WEIGHTS,
    Calibration,
    ChipEdges,
    MeasuredEdges,
    measure_chips,
    places_of,
    write_calibration,
)
from roadseg.dataset.fold_files import Predicted
from roadseg.dataset.reference_graphs import Reference, read_reference
from roadseg.dataset.scene_parts import open_scene_probability
from roadseg.raster.extents import border_of
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.metrics.compare import score_apls
from roadseg.roads.options import CompareOptions
from roadseg.roads.tracing.blocks import with_halo
from roadseg.roads.tracing.edge_confidence import edge_terms
from roadseg.roads.tracing.trace import trace_graph
from roadseg.system.parallel import each
from roadseg.system.progress import counted
from roadseg.system.workspace import Workspace, require

_CANDIDATES = (0.3, 0.5, 0.7, 0.8, 0.9)  # Least thresholds that are tried.
_MOST_CHIPS = 32  # On which they are tried.


def open_with_reference(
    config: Config, workspace: Workspace, scene: SceneRecord
) -> tuple[ProbabilityFile, Reference]:
    """Open the probabilities of a scene with held-out chips, and read its labelled roads.

    Args:
        config: config of the set of the scene.

    Raises:
        MissingInputError: if its mask, its probabilities or its label file are gone.
        DataError: if one of them cannot be used.
    """
    imagery, path = config.imagery, require(workspace.probability(scene.name), made_by="predict")
    pixels = open_scene_probability(path, imagery)
    mask = require(workspace.mask(scene.name), made_by="prepare")
    reference = read_reference(
        scene, mask, pixels.grid, labels=config.labels, imagery=imagery, tracing=config.graph
    )
    return pixels, reference


def least_threshold(
    config: Config,
    workspace: Workspace,
    listed: ChipList,
    chips_of: Mapping[str, Sequence[ChipRecord]],
) -> float | None:
    """Return the least threshold with which graphs have the highest mean APLS on held-out chips.

    The threshold of the network has the highest IoU of pixels. Many graphs need a higher one,
    because only almost certain pixels keep streets and lanes apart. Lower ones are not tried: they
    improved the APLS on held-out ground, but lowered it in other cities.

    Args:
        chips_of: held-out chips, by the name of their scene.

    Returns:
        The least threshold, see `EdgeModel`; None if none is better than that of the network.
    """
    with_roads = [chip for chips in chips_of.values() for chip in chips if chip.road_share]
    step = math.ceil(len(with_roads) / _MOST_CHIPS) or 1
    tried: dict[str, list[ChipRecord]] = {}
    for chip in with_roads[::step]:
        tried.setdefault(chip.scene, []).append(chip)
    work = partial(_score_thresholds, config, workspace)
    tasks = [(listed.scene(name), chips) for name, chips in tried.items()]
    outcomes = each(work, tasks, workers=config.compute.workers)
    shown = counted(outcomes, "try thresholds", total=len(tasks), unit="scenes")
    # Errors of scenes that cannot be read are reported where their roads are traced and measured.
    scores = [cast("Floats", outcome.result) for outcome in shown if outcome.error is None]
    if not scores:
        return None
    best = int(np.argmax(np.concatenate(scores).mean(axis=0)))
    return (None, *_CANDIDATES)[best]


def _score_thresholds(
    config: Config, workspace: Workspace, given: tuple[SceneRecord, Sequence[ChipRecord]]
) -> Floats:
    """Return the APLS of chips at the threshold of the network, and with each candidate."""
    scene, chips = given
    pixels, reference = open_with_reference(config.of_set(scene.set), workspace, scene)
    grid, comparing = pixels.grid, CompareOptions()
    own = config.graph.threshold_for(pixels.threshold)
    thresholds = [max(own, least) for least in (0.0, *_CANDIDATES)]
    scores = []
    with pixels.opened() as source:
        for chip in chips:
            area = reference.area_in(chip.window)
            roads = clip_graph(reference.roads, area)
            around = with_halo(chip.window, height=grid.height, width=grid.width)
            score_at = {}
            for threshold in set(thresholds):
                options = config.graph.model_copy(update={"threshold": threshold})
                found = clip_graph(trace_graph(source, options, window=around), area)
                score_at[threshold] = score_apls(roads, found, comparing)
            scores.append([score_at[threshold] for threshold in thresholds])
    return np.array(scores)


def measure_run(
    config: Config,
    workspace: Workspace,
    listed: ChipList,
    chips_of: Mapping[str, Sequence[ChipRecord]],
    graphs: Mapping[str, RoadGraph],
) -> MeasuredEdges | None:
    """Compare the graphs of scenes with their labels, on held-out chips.

    Args:
        chips_of: held-out chips, by the name of their scene.
        graphs: graphs of `trace_and_measure`, by the name of their scene.

    Returns:
        The edges on these chips, and the share of each that is real; None if there is no edge.

    Raises:
        RoadsegError: if labels cannot be read.
    """
    chips: list[ChipRecord] = []
    edges: list[ChipEdges] = []
    for name, graph in graphs.items():
        chips += chips_of[name]
        scene = listed.scene(name)
        pixels, reference = open_with_reference(config.of_set(scene.set), workspace, scene)
        areas = [reference.area_in(chip.window) for chip in chips_of[name]]
        terms = edge_terms(graph, border_of(pixels.grid, pixels.extent))
        edges += measure_chips(graph, terms, reference.roads, areas)
    if not any(len(each.share) for each in edges):
        return None
    set_of = listed.set_of
    sets = [set_of[chip.scene] for chip in chips]
    labels = {scene.name: scene.labels for scene in listed.scenes}
    return MeasuredEdges.of_chips(edges, places_of(chips, labels), sets)


def write_calibrations(
    workspace: Workspace, predicted: Predicted, calibration: Calibration | None
) -> list[Path]:
    """Write a calibration beside the weights of the networks that predicted; return the files.

    The network of all folds, which cannot be measured, gets it as well. Its file is not returned,
    because a training on all folds writes it, too.
    """
    if calibration is None:
        return []
    if (workspace.checkpoint("all") / WEIGHTS).is_file():
        write_calibration(workspace.checkpoint("all"), calibration)
    folds = fold_numbers(workspace) if predicted.fold == "each" else [predicted.fold]
    folders = map(workspace.checkpoint, folds)
    return [
        write_calibration(folder, calibration) for folder in folders if (folder / WEIGHTS).is_file()
    ]
