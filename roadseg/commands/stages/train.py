"""train: learn roads from chips and masks. Reads chips.json, folds.json; writes checkpoints/."""

import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from roadseg.config import Config
from roadseg.dataset.chips import ChipRecord, read_chips
from roadseg.dataset.held_out import read_fold_chips
from roadseg.errors import CheckpointError, ConfigError, DataError
from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.hardware.distributed import parallel
from roadseg.learn.network.checkpoints import checkpoint_path
from roadseg.learn.network.pretrained import first_weights
from roadseg.learn.options import BestBy
from roadseg.learn.training.history import Row, best_row, read_last
from roadseg.learn.training.rehearsal import epoch_seconds
from roadseg.learn.training.samples import Chip
from roadseg.learn.training.train import TrainingJob, train
from roadseg.raster.images import RasterFacts, scene_facts
from roadseg.raster.scaling import Scaling, read_scaling
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
from roadseg.system.workspace import Workspace, require

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainSummary(Summary):
    """Figures of the training of one fold."""

    fold: int
    training_chips: int
    validation_chips: int
    epochs: int
    best_epoch: int
    val_loss: float
    val_iou: float
    val_f1: float
    seconds: float
    checkpoint: str

    def __str__(self) -> str:
        """Return the figures as a sentence."""
        return (
            f"fold {self.fold}: {self.epochs} epochs on {self.training_chips} chips in "
            f"{self.seconds:.0f} s; best epoch {self.best_epoch} on {self.validation_chips} held "
            f"out: loss {self.val_loss:.4f}, IoU {self.val_iou:.3f}, F1 {self.val_f1:.3f}; "
            f"{self.checkpoint}"
        )


def run(
    config: Config, workspace: Workspace, *, fold: int, profile: int = 0, force: bool = False
) -> TrainSummary:
    """Train on the chips of all folds but one, and validate on that one.

    Each process writes a trace of as many steps as are to be profiled.
    """
    record = _record(config, workspace, fold)
    if not force and (done := record.summary()):
        if profile:
            logger.warning("--profile: this training is done; --force trains anew")
        write_model_card(config, workspace, fold=fold, epochs=done.epochs)
        return done
    if not force:
        _refuse_changed_weights(workspace.train_record(fold))
    job = _job(config, workspace, fold)
    keep_freed_memory()
    folder = workspace.checkpoint(fold)
    patience = timedelta(minutes=config.compute.wait_minutes)
    with parallel(job.device, patience=patience) as processes:
        if processes.size == 1 and (force or not checkpoint_path(folder, "last").exists()):
            _announce(job, config)
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
        summary = _summary(job, fold, history, folder)
        if processes.first:
            write_model_card(config, workspace, fold=fold, epochs=len(history))
            record.finish(summary, _weights(folder))
    return summary


def _announce(job: TrainingJob, config: Config) -> None:
    """Log before the start how long it will take."""
    epoch_s, epochs = epoch_seconds(job, workers=config.compute.workers), config.train.epochs
    logger.info(
        "training takes %s: at most %d epochs of %s",
        *(about_time(epochs * epoch_s), epochs, about_time(epoch_s)),
    )


def _draw_curves(folder: Path, best_by: BestBy, history: list[Row]) -> None:
    best = best_row(history, best_by)
    write_curves(folder / "curves.png", history, best_epoch=int(best["epoch"]))


def plan(
    config: Config, workspace: Workspace, *, fold: int, after: str = "", force: bool = False
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
        amount=Amount(config.train.epochs, lambda done: done.epochs, "epochs"),
    )
    if after and not force and checkpoint_path(workspace.checkpoint(fold), "last").exists():
        why = f"{planned.why}; refused without --force if that changes the chips"
        return replace(planned, why=why)
    if after or not planned.runs:
        return planned
    job = _job(config, workspace, fold)
    last = None if force else read_last(workspace.checkpoint(fold), job.settings)
    if last is not None and last["history"]:
        return _going_on(planned, last["history"], config.train.epochs)
    return planned if planned.seconds is not None else _rehearsed(planned, job, config)


def _rehearsed(plan: Plan, job: TrainingJob, config: Config) -> Plan:
    """Return the plan with the time that all epochs take, by a rehearsal of a few windows."""
    epoch_s = epoch_seconds(job, workers=config.compute.workers)
    return replace(
        plan,
        seconds=epoch_s * config.train.epochs,
        based_on=f"by a rehearsal, {config.train.epochs} epochs of {about_time(epoch_s)}",
    )


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


def _record(config: Config, workspace: Workspace, fold: int) -> StageRecord[TrainSummary]:
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
        settings=config.train.model_dump(mode="json", exclude=set(first)) | {"fold": fold},
        inputs={"what split made": read_stage_key(dealt), **first},
    )


def _read_sides(
    workspace: Workspace, chips: Sequence[ChipRecord], fold: int
) -> tuple[list[ChipRecord], list[ChipRecord]]:
    """Return the chips to train on, and those to validate on."""
    require(workspace.folds, made_by="split")
    parted = read_fold_chips(workspace, chips, fold)
    training, validation = parted.training, parted.held_out
    if not validation:
        raise ConfigError(f"--fold {fold}: there are folds 0 to {parted.last_fold} (split.folds)")
    if not training:
        raise ConfigError(f"--fold {fold}: it holds all {len(validation)} chips; see split.folds")
    if not any(chip.road_share for chip in training):
        raise DataError(
            f"--fold {fold}: there is no road on any of the {len(training)} chips to train on; "
            "label more chips with roads, or deal them otherwise (split.block_m, split.seed)"
        )
    if not any(chip.road_share for chip in validation):
        logger.warning(
            "fold %d: there is no road on any of the %d chips held out, so its scores say nothing",
            *(fold, len(validation)),
        )
    return training, validation


def _job(config: Config, workspace: Workspace, fold: int) -> TrainingJob:
    """Return what decides about the weights: the chips of both sides, and how to learn."""
    listed = read_chips(require(workspace.chips, made_by="prepare"))
    sides = _read_sides(workspace, listed.chips, fold)
    scaling = read_scaling(workspace.scaling)
    scenes = {scene.name: scene_facts(scene.image, config.imagery) for scene in listed.scenes}
    sizes_m = [sum(scene.gsd_m) / 2 for scene in listed.scenes]
    training, validation = (
        [_chip(chip, scenes, workspace, scaling) for chip in side] for side in sides
    )
    return TrainingJob(
        training,
        validation,
        config.train,
        facts={
            "bands": config.imagery.bands or next(iter(scenes.values())).bands,
            "gsd_m": statistics.median(sizes_m),
            "gsd_range_m": [min(sizes_m), max(sizes_m)],
            "band_names": _band_names(list(scenes.values())),
            "resample_m": config.imagery.gsd_m,
            "nodata": config.imagery.nodata,
            "fold": fold,
            "prepared_data": read_stage_key(workspace.record("split")),
        },
        bins=listed.bins,
        device=chosen_device(config.compute),
    )


def _summary(job: TrainingJob, fold: int, history: list[Row], folder: Path) -> TrainSummary:
    best = best_row(history, job.options.best_by)
    return TrainSummary(
        fold=fold,
        training_chips=len(job.training),
        validation_chips=len(job.validation),
        epochs=len(history),
        best_epoch=int(best["epoch"]),
        val_loss=best["val_loss"],
        val_iou=best["val_iou"],
        val_f1=best["val_f1"],
        seconds=sum(row["seconds"] for row in history),
        checkpoint=str(folder),
    )


def _chip(
    chip: ChipRecord, scenes: dict[str, RasterFacts], workspace: Workspace, scaling: Scaling
) -> Chip:
    return Chip(scenes[chip.scene], workspace.mask(chip.scene), chip.window, scaling)


def _band_names(scenes: list[RasterFacts]) -> tuple[str, ...]:
    """Return the descriptions of the bands if all scenes have the same, else none."""
    names = {scene.names for scene in scenes}
    return names.pop() if len(names) == 1 else ()
