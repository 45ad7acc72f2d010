"""train: learn roads from chips and masks. Reads chips.json, folds.json; writes checkpoints/."""

import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from roadseg.config import Config
from roadseg.dataset.chips import ChipRecord, read_chips
from roadseg.dataset.held_out import read_fold_chips
from roadseg.dataset.sets import find_scenes
from roadseg.errors import CheckpointError, ConfigError, DataError, MissingInputError
from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.hardware.distributed import Parallel, parallel
from roadseg.learn.network.checkpoints import checkpoint_path
from roadseg.learn.network.pretrained import first_weights
from roadseg.learn.options import BestBy, TrainOptions
from roadseg.learn.training.all_folds import (
    FoldTraining,
    as_long_as_folds,
    found_before,
    what_folds_found,
)
from roadseg.learn.training.forecast import forecast_scenes
from roadseg.learn.training.history import Row, best_row, read_last
from roadseg.learn.training.rehearsal import START_S, Pace, measure_pace
from roadseg.learn.training.samples import (
    Chip,
    ValidationWindows,
    held_out_windows,
    training_windows,
)
from roadseg.learn.training.timetable import fit_minutes, planned_before
from roadseg.learn.training.train import TrainingJob, train
from roadseg.learn.training.validation import IOU_OF, THRESHOLD
from roadseg.raster.images import RasterFacts, scene_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.scaling import read_scaling
from roadseg.report.cards import write_model_card
from roadseg.report.plots.curves import write_curves
from roadseg.system.dry_runs import Amount, Plan, files, plan_stage
from roadseg.system.fingerprints import GONE
from roadseg.system.stage_records import (
    StageRecord,
    lost_outputs,
    read_record,
    read_stage_key,
)
from roadseg.system.text import Summary, about_time
from roadseg.system.workspace import Fold, Workspace, require

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainSummary(Summary):
    """Figures of the training of one fold; on all of them, nothing is measured."""

    fold: Fold
    training_chips: int
    validation_chips: int
    epochs: int
    best_epoch: int
    val_loss: float | None
    val_iou: float | None
    val_f1: float | None
    seconds: float
    checkpoint: str
    val_iou_by_set: dict[str, float] = field(default_factory=dict)
    val_best_iou: float | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        """Return the figures as a sentence."""
        trained = f"{self.epochs} epochs on {self.training_chips} chips in {self.seconds:.0f} s"
        if self.fold == "all":
            return f"all folds: {trained}{self._threshold_text()}; {self.checkpoint}"
        return (
            f"fold {self.fold}: {trained}; best epoch {self.best_epoch} on "
            f"{self.validation_chips} held out: loss {self.val_loss:.4f}, "
            f"IoU {self.val_iou:.3f}{self._sets_text()}, F1 {self.val_f1:.3f}"
            f"{self._threshold_text()}; {self.checkpoint}"
        )

    def _threshold_text(self) -> str:
        if self.threshold is None:
            return ""
        if self.val_best_iou is None:
            return f"; threshold {self.threshold:g}, as the folds found"
        return f", IoU {self.val_best_iou:.3f} at threshold {self.threshold:g}"

    def _sets_text(self) -> str:
        sets = (f"{name} {iou:.3f}" for name, iou in self.val_iou_by_set.items())
        return f" ({', '.join(sets)})" if self.val_iou_by_set else ""


def run(
    config: Config, workspace: Workspace, *, fold: Fold, profile: int = 0, force: bool = False
) -> TrainSummary:
    """Train on the chips of all folds but one, and validate on that one.

    Fold "all" trains on all chips, for as long as the trainings of single folds found best. Each
    process writes a trace of as many steps as are to be profiled.
    """
    record = _record(config, workspace, fold)
    if not force and (done := record.summary()):
        if profile:
            logger.warning("--profile: this training is done; --force trains anew")
        write_model_card(config, workspace, fold=fold, epochs=done.epochs)
        return done
    if not force:
        _refuse_changed_weights(workspace.train_record(fold))
    job = _job(config, workspace, fold, anew=force)
    keep_freed_memory()
    folder = workspace.checkpoint(fold)
    patience = timedelta(minutes=config.compute.wait_minutes)
    with parallel(job.device, patience=patience) as processes:
        if force or not checkpoint_path(folder, "last").exists():
            job = _rehearsed(job, processes, workers=config.compute.workers)
        else:
            job = replace(job, options=planned_before(folder, job.options))
        history = train(
            job,
            folder,
            parallel=processes,
            workers=config.compute.workers,
            save_minutes=config.compute.save_minutes,
            profile=profile,
            anew=force,
            started=record.begin,
            after_epoch=partial(_draw_curves, folder, config.train.best_by),
        )
        summary = _summary(job, fold, history, folder, sets=[of.name for of in config.sets])
        if processes.first:
            write_model_card(config, workspace, fold=fold, epochs=len(history))
            record.finish(summary, _weights(folder))
    return summary


def _rehearsed(job: TrainingJob, processes: Parallel, *, workers: int) -> TrainingJob:
    """Log before the start how long it will take; plan it, where its time is limited."""
    job, pace = _rehearse(job, processes, workers=workers)
    if processes.first:
        epoch_s, epochs = _epoch_seconds(job, pace), job.options.epochs
        logger.info(
            "training takes %s: %s%d epochs of %s",
            about_time(START_S + epochs * epoch_s),
            "" if job.options.minutes else "at most ",
            *(epochs, about_time(epoch_s)),
        )
    return job


def _rehearse(job: TrainingJob, processes: Parallel, *, workers: int) -> tuple[TrainingJob, Pace]:
    """Return the training with what is planned for its time, and the pace of this machine."""
    pace = measure_pace(job, parallel=processes, workers=workers)
    if job.options.minutes is None or not job.validation:
        return job, pace
    weight = sum(chip.weight for chip in job.training)
    # All that is held out, whatever an earlier plan has left in the config.
    every = job.options.model_copy(update={"validation_windows": None})
    held_out = len(held_out_windows(job.validation, every))
    options = fit_minutes(job.options, pace, weight=weight, held_out=held_out)
    return replace(job, options=options), pace


def _epoch_seconds(job: TrainingJob, pace: Pace) -> float:
    """Return how long an epoch takes at this pace, with its validation."""
    windows = training_windows(job.training, job.options)
    return pace.epoch_seconds(len(windows), len(_held_out(job)))


def _held_out(job: TrainingJob) -> ValidationWindows | Sequence[Chip]:
    """Return the windows to validate on, none if no chip is held out."""
    return job.validation and held_out_windows(job.validation, job.options)


def _draw_curves(folder: Path, best_by: BestBy, history: list[Row]) -> None:
    best = best_row(history, best_by)
    write_curves(folder / "curves.png", history, best_epoch=int(best["epoch"]))


def plan(
    config: Config, workspace: Workspace, *, fold: Fold, after: str = "", force: bool = False
) -> Plan:
    """Return what `run` would do, if need be after an earlier stage."""
    record = after or _record(config, workspace, fold)
    planned = plan_stage(
        record,
        workspace.train_record(fold),
        TrainSummary,
        force=force,
        reads=[files("masks", workspace.masks.glob("*.tif"))],
        writes=[workspace.checkpoint(fold)],
        amount=Amount(
            None if fold == "all" else config.train.epochs, lambda done: done.epochs, "epochs"
        ),
    )
    folder = workspace.checkpoint(fold)
    if after and not force and checkpoint_path(folder, "last").exists():
        why = f"{planned.why}; refused without --force if that changes the chips"
        planned = replace(planned, why=why)
    if not planned.runs:
        return planned
    if after:
        return planned if planned.seconds is not None else _with_forecast(planned, config)
    job = _job(config, workspace, fold, anew=force)
    if not force and checkpoint_path(folder, "last").exists():
        job = replace(job, options=planned_before(folder, job.options))
    last = None if force else read_last(folder, job.settings)
    if last is not None and last["history"]:
        return _going_on(planned, last["history"], job.options.epochs)
    return planned if planned.seconds is not None else _with_rehearsal(planned, job, config)


def _with_rehearsal(plan: Plan, job: TrainingJob, config: Config) -> Plan:
    """Return the plan with the time that all epochs take, by a rehearsal."""
    job, pace = _rehearse(job, Parallel(), workers=config.compute.workers)
    return _with_epochs(plan, job.options, _epoch_seconds(job, pace), "by a rehearsal")


def _with_forecast(plan: Plan, config: Config) -> Plan:
    """Return the plan with the time that all epochs take, before there are chips."""
    scenes = [
        (scene_facts(image, of.imagery), of.weight)
        for of, images in find_scenes(config.sets)
        for image in images.values()
    ]
    seen = forecast_scenes(
        config.train,
        scenes,
        chip_px=config.imagery.chip_px,
        folds=config.folds,
        bins=config.labels.bins.count,
        device=chosen_device(config.compute),
    )
    return _with_epochs(plan, seen.options, seen.epoch_s, "by a rehearsal on random pixels")


def _with_epochs(plan: Plan, options: TrainOptions, epoch_s: float, how: str) -> Plan:
    based_on = f"{how}, {options.epochs} epochs of {about_time(epoch_s)}"
    return replace(plan, seconds=START_S + epoch_s * options.epochs, based_on=based_on)


def _going_on(plan: Plan, history: list[Row], epochs: int) -> Plan:
    """Return the plan with what is left of a training, by the epochs that are done."""
    done = f"{len(history)} of {epochs} epochs are done"
    each_s = statistics.fmean(row["seconds"] for row in history)
    return replace(
        plan,
        why=f"{plan.why}; {done}",
        seconds=each_s * max(epochs - len(history), 0),
        based_on=f"{done}, at {each_s:.1f} s each",
    )


def _weights(folder: Path) -> list[Path]:
    """Return the files of a checkpoint with which it predicts."""
    path = checkpoint_path(folder, "best")
    return [path, path.with_suffix(".json")]


def _refuse_changed_weights(path: Path) -> None:
    """Refuse to train over weights that somebody has changed since their training ended.

    Raises:
        CheckpointError: if so.
    """
    record = read_record(path)
    best = checkpoint_path(path.parent, "best")
    if record and best.exists() and best.name in lost_outputs(path, record):
        raise CheckpointError(
            f"{best}: was changed since its training ended; put back what it was, train anew with "
            "--force, or use its folder as --checkpoint of predict"
        )


def _record(config: Config, workspace: Workspace, fold: Fold) -> StageRecord[TrainSummary]:
    dealt = require(workspace.record("split"), made_by="split")
    earlier = read_record(workspace.train_record(fold))
    first = {
        # Weights that a training began with may go: what they were is then taken from its record.
        name: earlier.inputs.get(name, weights) if earlier and weights == GONE else weights
        for name, weights in first_weights(config.train).items()
    }
    return StageRecord(
        workspace.train_record(fold),
        TrainSummary,
        settings=config.train.model_dump(mode="json", exclude=set(first))
        | {"fold": fold}
        | {f"weight of {of.name}": of.weight for of in config.sets if of.name},
        inputs={"what split made": read_stage_key(dealt), **first},
    )


def _read_sides(
    workspace: Workspace, chips: Sequence[ChipRecord], fold: Fold
) -> tuple[list[ChipRecord], list[ChipRecord]]:
    """Return the chips to train on, and those to validate on."""
    require(workspace.folds, made_by="split")
    parted = read_fold_chips(workspace, chips, fold)
    training, validation = parted.training, parted.held_out
    if not validation and fold != "all":
        raise ConfigError(f"--fold {fold}: there are folds 0 to {parted.last_fold} (split.folds)")
    if not training:
        raise ConfigError(f"--fold {fold}: it holds all {len(validation)} chips; see split.folds")
    if not any(chip.road_share for chip in training):
        raise DataError(
            f"--fold {fold}: there is no road on any of the {len(training)} chips to train on; "
            "label more chips with roads, or deal them otherwise (split.block_m, split.seed)"
        )
    if validation and not any(chip.road_share for chip in validation):
        logger.warning(
            "fold %d: there is no road on any of the %d chips held out, so its scores say nothing",
            *(fold, len(validation)),
        )
    return training, validation


def _trained_folds(config: Config, workspace: Workspace) -> dict[int, FoldTraining]:
    """Return the trainings that held a fold out, are done, and hold for this config.

    Raises:
        MissingInputError: if there is none.
    """
    listed = read_chips(require(workspace.chips, made_by="prepare"))
    weights = {of.name: of.weight for of in config.sets}
    set_of, trained = listed.set_of, {}
    last_fold = read_fold_chips(workspace, listed.chips, "all").last_fold
    for fold in range(last_fold + 1):
        if _record(config, workspace, fold).reason() is None:
            chips = read_fold_chips(workspace, listed.chips, fold).training
            weight = sum(weights.get(set_of[chip.scene], 1.0) for chip in chips)
            trained[fold] = FoldTraining(workspace.checkpoint(fold), weight)
    if not trained:
        raise MissingInputError(
            f"{workspace.checkpoint(0)}: no fold is trained with this config, so nothing says for "
            "how long to train on all of them; run `roadseg train --fold 0` first"
        )
    return trained


def _as_folds_found(
    config: Config, workspace: Workspace, job: TrainingJob, *, anew: bool
) -> TrainingJob:
    """Return the training on all chips, as long as folds found best when it began."""
    folder = workspace.checkpoint("all")
    if not anew and checkpoint_path(folder, "last").exists():
        found, trained = found_before(folder), None
    else:
        folds = _trained_folds(config, workspace)
        found, trained = what_folds_found(folds), next(iter(folds.values()))
    weight = sum(chip.weight for chip in job.training)
    options = as_long_as_folds(job.options, found, trained, weight=weight)
    return replace(job, options=options, facts={**job.facts, **found})


def _job(config: Config, workspace: Workspace, fold: Fold, *, anew: bool = False) -> TrainingJob:
    """Return what decides about the weights: the chips of both sides, and how to learn."""
    job = _job_as_configured(config, workspace, fold)
    return _as_folds_found(config, workspace, job, anew=anew) if fold == "all" else job


def _job_as_configured(config: Config, workspace: Workspace, fold: Fold) -> TrainingJob:
    """Return it with the options of the config."""
    listed = read_chips(require(workspace.chips, made_by="prepare"))
    sides = _read_sides(workspace, listed.chips, fold)
    scaling = read_scaling(workspace.scaling)
    imagery = {name: config.of_set(name).imagery for name in set(listed.set_of.values())}
    scenes = {scene.name: scene_facts(scene.image, imagery[scene.set]) for scene in listed.scenes}
    sizes_m = [sum(scene.gsd_m) / 2 for scene in listed.scenes]
    set_of, weights = listed.set_of, {of.name: of.weight for of in config.sets}
    training, validation = (
        [
            Chip(
                scenes[chip.scene],
                workspace.mask(chip.scene),
                chip.window,
                scaling,
                set=set_of[chip.scene],
                weight=weights.get(set_of[chip.scene], 1.0),
            )
            for chip in side
        ]
        for side in sides
    )
    return TrainingJob(
        training,
        validation,
        config.train,
        facts={
            **_read_as([imagery[scene.set] for scene in listed.scenes], list(scenes.values())),
            "gsd_m": statistics.median(sizes_m),
            "gsd_range_m": [min(sizes_m), max(sizes_m)],
            "band_names": _band_names(list(scenes.values())),
            "fold": fold,
            "prepared_data": read_stage_key(workspace.record("split")),
        },
        bins=listed.bins,
        device=chosen_device(config.compute),
    )


def _summary(
    job: TrainingJob, fold: Fold, history: list[Row], folder: Path, *, sets: Sequence[str]
) -> TrainSummary:
    best = best_row(history, job.options.best_by)
    return TrainSummary(
        fold=fold,
        training_chips=len(job.training),
        validation_chips=len(job.validation),
        epochs=len(history),
        best_epoch=int(best["epoch"]),
        val_loss=best.get("val_loss"),
        val_iou=best.get("val_iou"),
        val_f1=best.get("val_f1"),
        seconds=sum(row["seconds"] for row in history),
        checkpoint=str(folder),
        val_iou_by_set={name: iou for name in sets if (iou := best.get(IOU_OF + name)) is not None},
        val_best_iou=best.get("val_best_iou"),
        threshold=best.get(THRESHOLD, job.facts.get("threshold")),
    )


def _read_as(imagery: Sequence[ImageryOptions], scenes: Sequence[RasterFacts]) -> dict[str, Any]:
    """Return how scenes are read, as far as it is one for all; None says that each has its own.

    Args:
        imagery: options with which each scene was read.
        scenes: the facts of each.
    """
    sizes, nodata = ({getattr(each, key) for each in imagery} for key in ("gsd_m", "nodata"))
    # Where a set names its bands, those count; others take the bands that stand here.
    both = zip(imagery, scenes, strict=True)
    unnamed = (facts.bands for own, facts in both if own.bands is None)
    return {
        "bands": next(unnamed, imagery[0].bands),
        "resample_m": sizes.pop() if len(sizes) == 1 else None,
        "nodata": nodata.pop() if len(nodata) == 1 else None,
    }


def _band_names(scenes: list[RasterFacts]) -> tuple[str, ...]:
    """Return the descriptions of the bands if all scenes have the same, else none."""
    names = {scene.names for scene in scenes}
    return names.pop() if len(names) == 1 else ()
