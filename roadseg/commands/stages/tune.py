"""tune: search for the graph settings that score best on the held-out fold.

Reads probabilities/, labels, chips.json, folds.json; writes tune.json, tune.png, tuned.json.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from roadseg.arrays import Floats
from roadseg.commands.stages.made_from import compare_options, made_by
from roadseg.config import Config, with_relative_paths
from roadseg.dataset.chips import ChipRecord, SceneRecord, read_chips
from roadseg.dataset.held_out import Predicted, held_out_chips, read_predicted
from roadseg.dataset.reference_graphs import Area, read_reference
from roadseg.errors import DataError
from roadseg.raster.windows import Window, cut_blocks
from roadseg.report.plots.charts import write_tuning_plot
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import Probability, open_probability
from roadseg.roads.metrics.compare import score_by
from roadseg.roads.options import Goal, TraceOptions
from roadseg.roads.tracing.blocks import join_blocks
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.trace import BLOCK_PX, find_paths, postprocess
from roadseg.roads.tracing.tuning import PARAMETERS, Settings, Trial, best_of, gain, search
from roadseg.system.dry_runs import Plan
from roadseg.system.parallel import in_order
from roadseg.system.progress import Progress, counted
from roadseg.system.records import write_json
from roadseg.system.stage_records import MadeFrom, Stage
from roadseg.system.text import Summary, count
from roadseg.system.workspace import FoldOrEach, Workspace, require

GOALS: dict[Goal, str] = {  # As people read them.
    "apls": "APLS",
    "topo": "TOPO F1",
    "quality": "quality",
    "breaks": "quality / (1 + breaks per km)",
}


@dataclass(frozen=True)
class TuneSummary(Summary):
    """The best settings, and how much better they are than those given.

    Attributes:
        fold: the held-out fold, whose chips chose the settings; "each" if those of all folds did.
        chips: how many these are.
        goal: what the settings were chosen by, `tune.goal`.
        before: mean score of the chips with the settings given, by this goal.
        margin: how far the gain may be off by chance (95 %); None for a single chip.
        is_better: whether the gain is larger than that; if not, the settings stay.
        settings: the best ones, or else those given; thresholds as numbers.
        config: file with all settings of the run and these values.
        tried: settings of each trial and its score, by the name of the goal.
    """

    fold: FoldOrEach
    chips: int
    goal: Goal
    before: float
    after: float
    margin: float | None
    is_better: bool
    settings: Settings
    config: str
    plot: str
    tried: list[Settings]

    def __str__(self) -> str:
        """Return the gain and the settings in a sentence."""
        chance = "unknown" if self.margin is None else f"up to {self.margin:.3f}"
        on = f"{count(self.chips, 'chip')} of {_name(self.fold)}"
        outcome = (
            f"{GOALS[self.goal]} {self.before:.3f} -> {self.after:.3f} on the {on}, best of "
            f"{len(self.tried)} trials (difference by chance: {chance})"
        )
        if not self.is_better:
            return (
                f"{outcome}; the gain may be chance, so the settings are unchanged; "
                f"{self.config}; {self.plot}"
            )
        values = " ".join(f"graph.{name}={value:g}" for name, value in self.settings.items())
        note = "measured on the chips that chose the settings, so expect less on others"
        return f"{outcome}, with {values}; {note}; {self.config}; {self.plot}"


@dataclass(frozen=True)
class HeldOut:
    """A scene with held-out chips.

    Attributes:
        threshold: probability from which on it has roads with the settings given.
        gsd_m: ground size of its pixels, where the raster has no place on the ground.
        areas: each chip on the ground, in the metric CRS of the scene.
        references: the labelled roads in each of them.
    """

    probability: Path
    threshold: float
    gsd_m: float | None
    areas: list[Area]
    references: list[RoadGraph]


def run(
    config: Config, workspace: Workspace, *, write: Path | None = None, force: bool = False
) -> TuneSummary:
    """Search for thresholds and gap settings on the held-out fold, by `tune.goal`.

    Args:
        config: settings; the first trial is its section graph.
        write: config file to write; None for tuned.json in the run folder.
    """
    predicted, stage = read_predicted(workspace), _stage(config, workspace)
    target = write or workspace.tuned_config
    done = stage.summary(TuneSummary, force=force)
    if done:
        summary = replace(done, config=str(target))
    else:
        stage.begin()
        summary = _search(config, workspace, predicted, target)
    _write_config(target, config, workspace, summary.settings if summary.is_better else {})
    stage.finish(summary, [workspace.tuning_plot])
    return summary


def plan(
    config: Config, workspace: Workspace, *, write: Path | None = None, force: bool = False
) -> Plan:
    """Return what `run` would do."""
    stage = _stage(config, workspace)
    writes = [workspace.tuning_plot, write or workspace.tuned_config]
    return stage.plan(stage.reason(force=force), writes=writes, now=config.tune.trials)


def _stage(config: Config, workspace: Workspace) -> Stage:
    settings, defaults = _key_settings(config), _key_settings(Config())
    return Stage(
        workspace.record("tune"),
        lambda: MadeFrom(settings, made_by("predict", workspace), defaults),
        reads=("probabilities", "labels"),
        unit="trials",
        counted="tried",
    )


def read_held_out(
    config: Config, workspace: Workspace, given: tuple[SceneRecord, list[ChipRecord]]
) -> HeldOut:
    """Read the labels of a scene and cut them to its chips that are held out."""
    scene, chips = given
    own = config.of_set(scene.set)
    mask = require(workspace.mask(scene.name), made_by="prepare")
    path = require(workspace.probability(scene.name), made_by="predict")
    raster = open_probability(path, gsd_m=own.imagery.gsd_m)
    threshold = config.graph.threshold_for(raster.threshold)
    reference = read_reference(
        scene, mask, raster.grid, labels=own.labels, imagery=own.imagery, tracing=own.graph
    )
    areas = [reference.area_in(chip.window) for chip in chips]
    references = [clip_graph(reference.roads, area) for area in areas]
    return HeldOut(path, threshold, own.imagery.gsd_m, areas, references)


def score_scene(config: Config, trials: Sequence[Settings], scene: HeldOut) -> Floats:
    """Score the roads that each of these settings finds in a scene, by `tune.goal`.

    The roads are thinned once for every threshold, and the rest is done for every trial.

    Returns:
        Scores from 0 to 1, shape (trial, chip); NaN where there are no roads on either side.
    """
    raster = open_probability(scene.probability, gsd_m=scene.gsd_m)
    window = Window(0, 0, raster.grid.height, raster.grid.width)
    pixels = Probability(raster.grid, raster.read_road(window))  # Without the speed bins.
    comparing = compare_options(config)
    scores = np.full((len(trials), len(scene.areas)), np.nan)
    traced: dict[float, tuple[RoadGraph, CoarseMask]] = {}
    shown = counted(trials, scene.probability.stem, total=len(trials), unit="trials")
    for row, settings in enumerate(shown):
        options = _with_graph(config, settings).graph
        # Thinning depends on the threshold only, among the settings that are searched.
        threshold = settings["threshold"]
        if threshold not in traced:
            traced[threshold] = _trace(pixels, options)
        paths, mask = traced[threshold]
        graph = postprocess(paths, pixels, options, mask=mask)
        for col, (area, reference) in enumerate(zip(scene.areas, scene.references, strict=True)):
            inside = clip_graph(graph, area)
            if len(reference.lines) or len(inside.lines):
                scores[row, col] = score_by(config.tune.goal, reference, inside, comparing)
    return scores


def _search(
    config: Config, workspace: Workspace, predicted: Predicted, target: Path
) -> TuneSummary:
    fold, workers = predicted.fold, config.compute.workers
    listed = _held_out_chips(workspace, predicted)
    read = partial(read_held_out, config, workspace)
    scenes = in_order(read, listed, what="read labels", workers=workers)
    if not any(len(graph.lines) for scene in scenes for graph in scene.references):
        raise DataError(
            f"{_name(fold)}: the held-out chips have no labelled roads, so settings cannot be "
            "compared; train and predict with another fold (--fold) before you tune"
        )
    with Progress("tune", total=config.tune.trials, unit="trials") as progress:

        def score(trials: Sequence[Settings]) -> Sequence[Floats]:
            work = partial(score_scene, config, trials)
            scores = in_order(work, scenes, what="this round", workers=workers)
            progress.add(len(trials))
            return list(np.concatenate(scores, axis=1))

        tune = config.tune
        start = _start(config, scenes)
        tried = search(score, start, trials=tune.trials)
    plot = workspace.tuning_plot
    summary = _summary(tried, fold=fold, goal=config.tune.goal, config=target, plot=plot)
    write_tuning_plot(
        plot,
        [trial.settings for trial in tried],
        [trial.score for trial in tried],
        goal=GOALS[summary.goal],
        parameters=PARAMETERS,
        is_better=summary.is_better,
    )
    return summary


def _name(fold: FoldOrEach) -> str:
    return "all folds" if fold == "each" else f"fold {fold}"


def _held_out_chips(
    workspace: Workspace, predicted: Predicted
) -> list[tuple[SceneRecord, list[ChipRecord]]]:
    """List the predicted scenes with held-out chips, and these chips."""
    listed = read_chips(workspace.chips)
    chips = held_out_chips(workspace, listed, predicted)
    if not chips:
        raise DataError(
            f"{workspace.folds}: no chip of {_name(predicted.fold)} lies in a predicted scene; "
            f"run `roadseg predict --fold {predicted.fold}` again"
        )
    return [(listed.scene(name), chips[name]) for name in chips]


def _trace(pixels: Probability, options: TraceOptions) -> tuple[RoadGraph, CoarseMask]:
    """Trace the roads of a scene, without anything that comes after."""
    grid = pixels.grid
    blocks = cut_blocks(grid.height, grid.width, block_px=BLOCK_PX)
    return join_blocks((find_paths(pixels, options, block) for block in blocks), grid)


def _with_graph(config: Config, settings: Settings) -> Config:
    return config.model_copy(update={"graph": config.graph.model_copy(update=settings)})


def _start(config: Config, scenes: Sequence[HeldOut]) -> Settings:
    """Return the settings given; if scenes have several thresholds, with the mean of these."""
    given = config.graph.model_dump()
    given["threshold"] = round(statistics.fmean(scene.threshold for scene in scenes), 6)
    given["max_gap_m"] = config.graph.gap_for(is_mask=False)
    return {parameter.name: given[parameter.name] for parameter in PARAMETERS}


def _summary(
    tried: Sequence[Trial], *, fold: FoldOrEach, goal: Goal, config: Path, plot: Path
) -> TuneSummary:
    first, best = tried[0], best_of(tried)
    growth, margin = gain(first, best)
    is_better = growth > margin
    return TuneSummary(
        fold=fold,
        chips=len(first.scores),
        goal=goal,
        before=first.score,
        after=best.score,
        margin=margin if math.isfinite(margin) else None,
        is_better=is_better,
        settings=(best if is_better else first).settings,
        config=str(config),
        plot=str(plot),
        tried=[{**trial.settings, goal: round(trial.score, 6)} for trial in tried],
    )


def _write_config(path: Path, config: Config, workspace: Workspace, settings: Settings) -> None:
    """Write all settings; paths in the project are relative, so that it can move as a whole."""
    root = workspace.root.absolute()
    tuned = _with_graph(config, settings).model_copy(update={"run": root})
    tuned = with_relative_paths(tuned, path.absolute().parent, project=root.parent)
    write_json(path, tuned.model_dump(mode="json"))


def _key_settings(config: Config) -> dict[str, Any]:
    """Return the settings on which the outcome of the search depends."""
    chosen = config.model_dump(mode="json", include={"tune", "graph", "evaluate"})
    for section, key in (("graph", "formats"), ("evaluate", "pictures")):
        del chosen[section][key]
    return chosen
