"""evaluate: measure held-out chips. Reads probabilities/, graphs/ and labels; writes metrics."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from roadseg.commands.stages.calibrate_edges import open_with_reference
from roadseg.commands.stages.declared_stages import declared_stage
from roadseg.config import Config
from roadseg.dataset.chips import ChipRecord, SceneRecord, read_chips
from roadseg.dataset.edge_calibration import Calibration
from roadseg.dataset.fold_files import (
    held_out_chips,
    metres_from_training,
    read_folds,
    read_predicted,
)
from roadseg.dataset.reference_graphs import Reference, count_roads, mean_apls
from roadseg.errors import DataError
from roadseg.raster.images import read_facts
from roadseg.raster.pixels import read_preview
from roadseg.raster.scaling import read_scaling
from roadseg.report.cards import write_model_card
from roadseg.report.plots.charts import write_reliability
from roadseg.report.run_facts import METRIC_TITLES
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.metrics.compare import Measures, Side, compare, pool
from roadseg.roads.metrics.pixels import Counts
from roadseg.roads.metrics.pooling import Spread, spread_of
from roadseg.roads.metrics.reliability import Reliability
from roadseg.roads.options import CompareOptions
from roadseg.system.parallel import in_order
from roadseg.system.progress import counted
from roadseg.system.records import write_csv
from roadseg.system.stage_records import read_summary
from roadseg.system.text import Summary, count
from roadseg.system.units import per_road_unit, road_text, road_unit, short_unit, to_short_unit
from roadseg.system.workspace import FoldOrEach, Workspace, require

Figures = dict[str, int | float | None]  # Some metrics by name; None was not measured.

_OF_A_SET = (  # Metrics of a set that the summary names.
    *("iou", "f1", "apls_length", "correctness", "completeness", "quality"),
    *("breaks_per_km", "calibration_error"),
)
# Classes of distance from the training ground, each from a limit to just below the next; and the
# metrics that each has.
_DISTANCES_M = (0, 100, 250, 500, 1000, math.inf)
_AT_A_DISTANCE = ("chips", "reference_km", "iou", "apls_length", "quality")
_SPREAD = (  # Metrics whose spread over folds is told.
    *("iou", "precision", "recall", "f1", "apls_length", "apls_time"),
    *("pooled_apls_length", "pooled_apls_time", "correctness", "completeness", "quality"),
    *("topo_precision", "topo_recall", "topo_f1"),
    *("breaks_per_km", "connectivity"),
)
_OF_PIXELS = ("iou", "precision", "recall", "f1")
_PICTURES = 12  # Scenes that are drawn at most.
_PICTURE_PX = 1500  # Pixels; the picture of a larger scene is reduced to this side.


@dataclass(frozen=True)
class EvaluateSummary(Summary):
    """Metrics on the held-out chips.

    Pixels are pooled over all chips. `apls_length` and `apls_time` are means over the chips with
    roads on either side, because correctly empty chips would only raise them. All others are
    pooled over all chips as in `roadseg score`: means of APLS and TOPO, sums of lengths. TOPO is
    None if it was not measured because there are too many roads. `threshold` is the probability
    from which pixels counted as road; None if scenes had several, as the scenes of sets may.
    `by_set` has the same metrics for the chips of each set; it is empty without sets.

    `by_distance` has some of the metrics for classes of chips by their distance from the nearest
    training chip of their network, between footprints: `from_m` up to, but not including, `to_m`
    (None: no limit). Chips without georeference are left out.

    Figures of breaks and connectivity are None if there was nothing to measure.

    If each fold was predicted by the network that held it out, `fold` is "each", and all chips are
    held out. Then `by_fold` has the metrics for the chips of each fold, `spread` the mean and the
    standard deviation of each metric over the folds, and `set_of_fold` the set of each fold if
    sets are folds; otherwise they are empty.

    `calibration_error` is the expected calibration error of the confidence of edges, at places that
    were left out when it was fitted; None if it could not be measured. `reliability` has the
    reliability of all edges (under an empty name) and of each set by name. Both were measured by
    `graph` before it left out any edge.
    """

    fold: FoldOrEach
    chips: int
    threshold: float | None
    iou: float
    precision: float
    recall: float
    f1: float
    apls_length: float
    apls_time: float
    reference_km: float
    predicted_km: float
    pooled_apls_length: float
    pooled_apls_time: float | None
    correctness: float
    completeness: float
    quality: float
    topo_precision: float | None
    topo_recall: float | None
    topo_f1: float | None
    by_set: dict[str, Figures] = field(default_factory=dict)
    by_fold: dict[str, Figures] = field(default_factory=dict)
    by_distance: list[Figures] = field(default_factory=list)
    spread: dict[str, Spread] = field(default_factory=dict)
    set_of_fold: dict[str, str] = field(default_factory=dict)
    calibration_error: float | None = None
    reliability: dict[str, Reliability] = field(default_factory=dict)
    breaks: int | None = None
    breaks_per_km: float | None = None
    connectivity: float | None = None
    reference_parts: int | None = None
    predicted_parts: int | None = None

    def __str__(self) -> str:
        """Return the metrics as a table."""
        several = "by fold" if self.by_fold else "by set"
        trained = f"{count(len(self.by_fold), 'fold')}, each with its own network"
        rows = {
            "held-out chips": f"{self.chips} ({trained if self.by_fold else f'fold {self.fold}'})",
            "threshold": several if self.threshold is None else f"{self.threshold:g}",
            **{_titled(title): self._metric_text(name) for title, name in METRIC_TITLES.items()},
            "labelled roads": road_text(self.reference_km),
            "predicted roads": road_text(self.predicted_km),
        }
        set_of = {fold: f", {name}" for fold, name in self.set_of_fold.items()}
        for fold, metrics in self.by_fold.items():
            rows[f"fold {fold}{set_of.get(fold, '')}"] = _metrics_line(metrics)
        if not self.set_of_fold:  # Else the folds are the sets.
            rows |= {f"of {name}": _metrics_line(metrics) for name, metrics in self.by_set.items()}
        if len(self.by_distance) > 1:
            rows |= dict(map(_class_row, self.by_distance))
        width = max(17, *map(len, rows))
        return "\n".join(f"{name:<{width}} {value}" for name, value in rows.items())

    def _metric_text(self, name: str) -> str:
        value, factor = getattr(self, name), _factor(name)
        beside = " (1: as connected as the labels)" if name == "connectivity" else ""
        text = "-" if value is None else f"{factor * value:.3f}{beside}"
        spread = self.spread.get(name)
        return text if spread is None else f"{text}, over folds {spread.times(factor)}"


def _metrics_line(metrics: Figures) -> str:
    """Return the metrics of a set in one line."""
    threshold = metrics["threshold"]
    at = "" if threshold is None else f", threshold {threshold:g}"
    return f"{count(int(metrics['chips'] or 0), 'chip')}{at}: {_metrics_text(metrics, _OF_A_SET)}"


def _metrics_text(metrics: Figures, names: Sequence[str]) -> str:
    return ", ".join(
        f"{_titled(title).removeprefix('pixel ')} {_factor(name) * value:.3f}"
        for title, name in METRIC_TITLES.items()
        if name in names and (value := metrics.get(name)) is not None
    )


def _class_row(metrics: Figures) -> tuple[str, str]:
    """Return the distances of a class of chips, and its metrics in one line."""
    low, high = (f"{to_short_unit(metrics[key] or 0):,.0f}" for key in ("from_m", "to_m"))
    limits = f"over {low}" if metrics["to_m"] is None else f"{low} to {high}"
    chips, km = int(metrics["chips"] or 0), road_text(metrics["reference_km"] or 0)
    text = f"{count(chips, 'chip')}, {km}: {_metrics_text(metrics, _AT_A_DISTANCE)}"
    return f"{limits} {short_unit()} away", text


def _titled(title: str) -> str:
    """Return the title of a metric in the chosen units."""
    return title.replace("per km", f"per {road_unit()}")


def _factor(metric: str) -> float:
    """Return the factor that converts a metric to the chosen units."""
    return per_road_unit(1.0) if metric == "breaks_per_km" else 1.0


@dataclass(frozen=True)
class _Calibrated:
    """The part of the summary of graph with the calibration of edges."""

    calibration: Calibration | None = None


@dataclass(frozen=True)
class ChipScore:
    """Metrics of the pixels and of the roads of a chip.

    Attributes:
        set: name of the set of its scene; empty if there is none.
        threshold: probability from which a pixel counts as road.
    """

    chip: str
    set: str
    fold: int
    threshold: float
    pixels: Counts
    roads: Measures

    @property
    def has_roads(self) -> bool:
        """Whether there are roads on either side."""
        return self.roads.reference.road_km + self.roads.predicted.road_km > 0


def run(config: Config, workspace: Workspace, *, force: bool = False) -> EvaluateSummary:
    """Compare masks and graphs with the labels on the held-out chips, chip by chip."""
    stage = declared_stage("evaluate", config, workspace)
    if done := stage.summary(EvaluateSummary, force=force):
        _write_cards(config, workspace, done)
        return done
    listed, predicted = read_chips(workspace.chips), read_predicted(workspace)
    chips_of = held_out_chips(workspace, listed, predicted)
    folds = read_folds(workspace.folds, listed.chips)
    stage.begin()
    drawn = list(chips_of)[:_PICTURES]
    tasks = [
        (listed.scene(name), [(chip, folds[chip.name]) for chip in chips], name in drawn)
        for name, chips in chips_of.items()
    ]
    work = partial(_score_scene, config, workspace)
    of_scenes = in_order(work, tasks, what="evaluate", workers=config.compute.workers)
    scores = [score for of_scene in of_scenes for score in of_scene]
    calibration = read_summary(workspace.record("graph"), _Calibrated).calibration
    metres = metres_from_training(workspace, listed.chips, {score.fold for score in scores})
    summary = _summary(config, scores, predicted.fold, metres, calibration)
    write_csv(workspace.evaluation, list(map(_row, scores)))
    outputs = [workspace.evaluation, *map(workspace.picture, drawn)]
    if summary.reliability:
        write_reliability(workspace.reliability, summary.reliability[""])
        outputs.append(workspace.reliability)
    stage.finish(summary, outputs)
    _write_cards(config, workspace, summary)
    return summary


def _write_cards(config: Config, workspace: Workspace, summary: EvaluateSummary) -> None:
    """Write the model cards of the networks that were measured."""
    for fold in map(int, summary.by_fold or [summary.fold]):
        write_model_card(config, workspace, fold=fold)


def _score_scene(
    config: Config,
    workspace: Workspace,
    task: tuple[SceneRecord, Sequence[tuple[ChipRecord, int]], bool],
) -> list[ChipScore]:
    """Score the chips of a scene, and draw the scene if asked."""
    record, chips, is_drawn = task
    own = config.of_set(record.set)
    pixels, reference = open_with_reference(own, workspace, record)
    predicted = read_gpkg(require(workspace.graph(record.name), made_by="graph"))
    touched = [chip for chip in chips if pixels.touches(chip[0].window)]
    shown = counted(touched, record.name, total=len(touched), unit="chips")
    with pixels.opened() as opened:
        scene = _Scene(record.set, workspace.mask(record.name), opened, reference, predicted)
        scores = [_score_chip(config, scene, chip, fold=fold) for chip, fold in shown]
        if is_drawn:
            _draw(own, workspace, record, scene)
    return scores


@dataclass(frozen=True)
class _Scene:
    set: str
    mask: Path
    pixels: ProbabilityFile
    reference: Reference
    predicted: RoadGraph


def _score_chip(config: Config, scene: _Scene, chip: ChipRecord, *, fold: int) -> ChipScore:
    area = scene.reference.area_in(chip.window)
    reference = clip_graph(scene.reference.roads, area)
    predicted = clip_graph(scene.predicted, area)
    threshold = config.graph.threshold_for(scene.pixels.threshold)
    mask = read_mask(scene.mask, chip.window)
    if scene.pixels.extent is not None:
        mask[~scene.pixels.extent.inside(chip.window)] = IGNORE
    return ChipScore(
        chip=chip.name,
        set=scene.set,
        fold=fold,
        threshold=threshold,
        pixels=count_roads(mask, scene.pixels.read_road(chip.window), threshold=threshold),
        roads=compare(Side(reference, reference), Side(predicted, predicted), CompareOptions()),
    )


def _draw(config: Config, workspace: Workspace, record: SceneRecord, scene: _Scene) -> None:
    """Draw the labels, probabilities and graph of a scene side by side."""
    from roadseg.report.plots.comparisons import SceneImage, draw_comparison
    from roadseg.report.plots.figures import rgb

    facts = read_facts(record.image, config.imagery, part=record.part)
    pixels, _ = read_preview(facts, side=_PICTURE_PX)
    image = np.moveaxis(rgb(read_scaling(workspace.scaling).apply(pixels)), 0, -1)
    below = SceneImage(record.name, scene.pixels.grid, image)
    labels = clip_graph(scene.reference.roads, below.grid.footprint_m)
    path = workspace.picture(record.name)
    draw_comparison(path, below, scene.pixels, labels, scene.predicted)


def _row(score: ChipScore) -> dict[str, str]:
    """Return the row of a chip in the table; metrics that were not measured are empty."""
    figures = {name: getattr(score.pixels, name) for name in _OF_PIXELS} | score.roads.figures
    cells = {name: "" if value is None else f"{value:.4f}" for name, value in figures.items()}
    return {"chip": score.chip, **cells}


def _summary(
    config: Config,
    scores: Sequence[ChipScore],
    predicted: FoldOrEach,
    metres: Mapping[str, float],
    calibration: Calibration | None,
) -> EvaluateSummary:
    """Return the metrics of all chips, and of the chips of each set, fold and distance."""
    if not scores:
        of_fold = "" if predicted == "each" else f" of fold {predicted}"
        raise DataError(
            f"no chip{of_fold} lies in a predicted scene, or in imagery.area if that is set; check "
            "which scenes failed, and run `roadseg predict` again"
        )
    of_all = EvaluateSummary(
        fold=predicted,
        **_pool(scores),
        by_set=_by_name(
            [(score.set, score) for score in scores], [each.name for each in config.sets]
        ),
        by_distance=_by_distance(scores, metres),
    )
    if calibration and calibration.reliability:
        of_sets = calibration.reliability_by_set
        for name in of_all.by_set.keys() & of_sets.keys():
            of_all.by_set[name]["calibration_error"] = of_sets[name].error
        of_all = replace(
            of_all,
            calibration_error=calibration.reliability.error,
            reliability={"": calibration.reliability, **of_sets},
        )
    if predicted != "each":
        return of_all
    folds = sorted({score.fold for score in scores})
    by_fold = _by_name([(str(score.fold), score) for score in scores], list(map(str, folds)))
    spread = {name: spread_of(metrics[name] for metrics in by_fold.values()) for name in _SPREAD}
    is_set = config.split.method == "sets"
    return replace(
        of_all,
        by_fold=by_fold,
        spread={name: found for name, found in spread.items() if found is not None},
        set_of_fold={str(score.fold): score.set for score in scores} if is_set else {},
    )


def _by_name(scores: Sequence[tuple[str, ChipScore]], names: Sequence[str]) -> dict[str, Figures]:
    """Return the metrics of the chips of each name; names without chips are left out."""
    groups = {name: [score for own, score in scores if own == name] for name in names if name}
    return {name: _pool(group) for name, group in groups.items() if group}


def _by_distance(scores: Sequence[ChipScore], metres: Mapping[str, float]) -> list[Figures]:
    """Return some metrics for each class of distance that has chips.

    Args:
        metres: distance of chips from the training chips, by name; other chips are left out.
    """
    classes: list[Figures] = []
    for low, high in itertools.pairwise(_DISTANCES_M):
        here = [score for score in scores if low <= metres.get(score.chip, -1) < high]
        if here:
            pooled = _pool(here)
            limits = {"from_m": low, "to_m": None if math.isinf(high) else high}
            classes.append(limits | {name: pooled[name] for name in _AT_A_DISTANCE})
    return classes


def _pool(scores: Sequence[ChipScore]) -> dict[str, Any]:
    """Return the pooled metrics of chips, by their names in `EvaluateSummary`."""
    pixels = sum((score.pixels for score in scores), Counts())
    roads = pool([score.roads for score in scores])
    # Chips that are rightly empty would only flatter the means over chips.
    routed = [score.roads for score in scores if score.has_roads]
    thresholds = {score.threshold for score in scores}
    return {
        "chips": len(scores),
        "threshold": thresholds.pop() if len(thresholds) == 1 else None,
        **{name: getattr(pixels, name) for name in _OF_PIXELS},
        **roads.figures,
        "apls_length": mean_apls(each.length.score for each in routed),
        "apls_time": mean_apls(each.time.score for each in routed),
        "pooled_apls_length": roads.length.score,
        "pooled_apls_time": roads.time.score,
        "reference_parts": roads.reference.components,
        "predicted_parts": roads.predicted.components,
    }
