"""train: train networks on chips and masks. Reads chips.json, folds.json; writes checkpoints/."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from roadseg.commands.stages.declared_stages import declared_stage, fold_numbers
from roadseg.commands.stages.training_jobs import training_job
from roadseg.config import Config
from roadseg.dataset.edge_calibration import read_calibration, write_calibration
from roadseg.errors import CheckpointError
from roadseg.learn.hardware.distributed import Parallel, parallel
from roadseg.learn.network.checkpoint_facts import checkpoint_path
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.history import Row, best_row, read_last, seconds_of
from roadseg.learn.training.rehearsal import measure_pace
from roadseg.learn.training.samples import held_out_windows
from roadseg.learn.training.timetable import fit_minutes, planned_before
from roadseg.learn.training.train import TrainingJob, train
from roadseg.learn.training.validation import IOU_OF, THRESHOLD
from roadseg.report.cards import write_model_card
from roadseg.report.plots.charts import write_curves
from roadseg.roads.metrics.pooling import Spread, spread_of
from roadseg.system.dry_runs import Plan, Plans
from roadseg.system.progress import Progress
from roadseg.system.stage_records import Reason, lost_outputs, read_record
from roadseg.system.text import Summary, about_time, count
from roadseg.system.workspace import AnyFold, Fold, Workspace

_log = logging.getLogger(__name__)
_CURVES = "curves.png"


@dataclass(frozen=True)
class TrainSummary(Summary):
    """Figures of a training with one fold held out, or on all folds, without validation.

    Attributes:
        fold: fold that was held out; "all" if none was.
        validation_windows: number of windows that were validated; None if it was not limited.
    """

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
    validation_windows: int | None = None

    def __str__(self) -> str:
        """Return the figures as a sentence."""
        on = count(self.training_chips, "chip")
        trained = f"{count(self.epochs, 'epoch')} on {on} in {self.seconds:.0f} s"
        if self.fold == "all":
            return f"all folds: {trained}{self._threshold_text()}; {self.checkpoint}"
        sample = ""
        if self.validation_windows is not None:
            sample = f"{count(self.validation_windows, 'window')} of "
        sets = ", ".join(f"{name} {iou:.3f}" for name, iou in self.val_iou_by_set.items())
        of_sets = f" ({sets})" if sets else ""
        return (
            f"fold {self.fold}: {trained}; best epoch {self.best_epoch}; on {sample}held-out "
            f"chips ({self.validation_chips}): loss {self.val_loss:.4f}, IoU "
            f"{self.val_iou:.3f}{of_sets}, F1 "
            f"{self.val_f1:.3f}{self._threshold_text()}; {self.checkpoint}"
        )

    def _threshold_text(self) -> str:
        if self.threshold is None:
            return ""
        if self.val_best_iou is None:
            return f"; threshold {self.threshold:g} (from the folds)"
        best = f"IoU {self.val_best_iou:.3f} at the best one, {self.threshold:g}"
        return f", both at threshold 0.5; {best}"


@dataclass(frozen=True)
class CrossValidationSummary(Summary):
    """Figures of the trainings of all folds.

    Attributes:
        folds: summaries of the trainings, in the order of their folds.
        val_iou: mean and spread of the IoU of held-out pixels; None if it was never measured.
        val_f1: the same of F1.
    """

    folds: list[TrainSummary]
    val_iou: Spread | None
    val_f1: Spread | None
    seconds: float

    def __str__(self) -> str:
        """Return a line for each fold, and one for all."""
        figures = f"IoU {self.val_iou}, F1 {self.val_f1}, {about_time(self.seconds)}"
        return "\n".join([*map(str, self.folds), f"all {len(self.folds)} folds: {figures}"])


def run(
    config: Config, workspace: Workspace, *, fold: AnyFold, force: bool = False
) -> TrainSummary | CrossValidationSummary:
    """Train with a fold held out, none of them ("all"), or each in turn ("each")."""
    if fold == "each":
        return run_folds(config, workspace, force=force)
    return run_fold(config, workspace, fold=fold, force=force)


def run_folds(
    config: Config, workspace: Workspace, *, force: bool = False
) -> CrossValidationSummary:
    """Train with each fold held out in turn; see `run_fold` for the arguments.

    Finished trainings are skipped, and an interrupted one resumes.
    """
    numbers = fold_numbers(workspace)
    waiting = [
        fold
        for fold in numbers
        if declared_stage("train", config, workspace, fold).reason(force=force)
    ]
    done: list[TrainSummary] = []
    begun = len(numbers) - len(waiting)
    with Progress("cross-validation", total=len(numbers), unit="folds", done=begun) as progress:
        for fold in numbers:
            done.append(run_fold(config, workspace, fold=fold, force=force))
            progress.add(fold in waiting)
    return CrossValidationSummary(
        done,
        val_iou=spread_of(each.val_iou for each in done),
        val_f1=spread_of(each.val_f1 for each in done),
        seconds=sum(each.seconds for each in done),
    )


def _has_begun(workspace: Workspace, fold: Fold) -> bool:
    return checkpoint_path(workspace.checkpoint(fold), "last").exists()


def run_fold(
    config: Config,
    workspace: Workspace,
    *,
    fold: Fold,
    force: bool = False,
) -> TrainSummary:
    """Train on the chips of all folds but one, and validate on that fold.

    Fold "all" trains on all chips, for the mean number of epochs that was best for single folds.
    """
    stage = declared_stage("train", config, workspace, fold)
    if done := stage.summary(TrainSummary, force=force):
        write_model_card(config, workspace, fold=fold)
        return done
    if not force:
        _refuse_changed_weights(workspace.train_record(fold))
    job = training_job(config, workspace, fold, force=force)
    folder = workspace.checkpoint(fold)
    with parallel(job.device) as processes:
        if not force and _has_begun(workspace, fold):
            job = replace(job, options=planned_before(folder, job.options))
        elif job.options.minutes is not None and job.validation:  # Those on all folds are planned.
            job = replace(job, options=_planned(job, processes, workers=config.compute.workers))
        history = train(
            job,
            folder,
            parallel=processes,
            workers=config.compute.workers,
            force=force,
            started=stage.begin,
            after_epoch=partial(_draw_curves, folder),
        )
        summary = _summary(job, fold, history, folder, sets=[each.name for each in config.sets])
        if processes.first:
            if fold == "all":
                _copy_confidence(workspace)
            stage.finish(summary, [checkpoint_path(folder, "best")])
            write_model_card(config, workspace, fold=fold)
    return summary


def _copy_confidence(workspace: Workspace) -> None:
    """Copy the calibration of edges of the first fold that has one to the network of all folds."""
    for number in fold_numbers(workspace):
        if calibration := read_calibration(workspace.checkpoint(number)):
            write_calibration(workspace.checkpoint("all"), calibration)
            return


def _planned(job: TrainingJob, processes: Parallel, *, workers: int) -> TrainOptions:
    """Return the options of a training that fit its limited time, by its pace on this machine."""
    pace = measure_pace(job, parallel=processes, workers=workers)
    # All held-out windows, also if an earlier plan has limited their number in the config.
    every = job.options.model_copy(update={"validation_windows": None})
    held_out = len(held_out_windows(job.validation, every))
    weight = sum(chip.weight for chip in job.training)
    options = fit_minutes(job.options, pace, weight=weight, held_out=held_out)
    if processes.first:
        _log.info("%d epochs share %g min (train.minutes)", options.epochs, options.minutes)
    return options


def _draw_curves(folder: Path, history: list[Row]) -> None:
    best = best_row(history)
    write_curves(folder / _CURVES, history, best_epoch=int(best["epoch"]))


def plan_folds(config: Config, workspace: Workspace, *, after: str, force: bool) -> Plans:
    """Return what `run` would do for each fold; see `plan`.

    Args:
        after: the earlier stage that makes them run; empty if none does.
    """
    plans: list[Plan] = []
    for fold in range(config.folds) if after else fold_numbers(workspace):
        stage = declared_stage("train", config, workspace, fold)
        reason = stage.reason(after=after, force=force)
        planned = plan(config, workspace, reason, fold=fold, after=bool(after), force=force)
        plans.append(replace(planned, stage=f"train --fold {fold}"))
    return Plans(plans)


def plan(
    config: Config,
    workspace: Workspace,
    reason: Reason | None,
    *,
    fold: Fold,
    after: bool = False,
    force: bool = False,
) -> Plan:
    """Return what `run` would do for one fold, or for all of them together, for a reason.

    Args:
        after: whether an earlier stage runs first, so that there are no chips yet.
    """
    now = None if fold == "all" else config.train.epochs
    planned = declared_stage("train", config, workspace, fold).plan(reason, now=now)
    if not planned.runs:
        return planned
    if config.train.minutes is not None:
        planned = replace(planned, seconds=config.train.limit_s, based_on="train.minutes")
    folder, goes_on = workspace.checkpoint(fold), not force and _has_begun(workspace, fold)
    if after:
        if goes_on:
            why = f"{planned.why}; needs --force if that changes the chips"
            planned = replace(planned, why=why)
        return planned
    job = training_job(config, workspace, fold, force=force)
    if goes_on:
        job = replace(job, options=planned_before(folder, job.options))
    last = None if force else read_last(folder, job.settings)
    if last is not None and last["history"]:
        return _rest_of_training(planned, last["history"], job.options)
    return planned


def _rest_of_training(plan: Plan, history: list[Row], options: TrainOptions) -> Plan:
    """Return the plan for the rest of a training that has begun."""
    done = f"{len(history)} of {options.epochs} epochs are done"
    each_s, limit_s = seconds_of(history) / len(history), options.limit_s
    left_s = each_s * (options.epochs - len(history))
    if limit_s is not None:
        left_s = limit_s - seconds_of(history)
    return replace(
        plan,
        why=f"{plan.why}; {done}",
        seconds=max(left_s, 0.0),
        based_on=f"{done}, at {each_s:.1f} s each",
    )


def _refuse_changed_weights(path: Path) -> None:
    """Refuse to replace weights that somebody has modified since their training ended."""
    record = read_record(path)
    best = checkpoint_path(path.parent, "best")
    if record and best.exists() and best.name in lost_outputs(path, record):
        raise CheckpointError(
            f"{best}: was modified after its training; restore it, retrain with --force, or use "
            "its folder with predict --checkpoint"
        )


def _summary(
    job: TrainingJob, fold: Fold, history: list[Row], folder: Path, *, sets: Sequence[str]
) -> TrainSummary:
    best = best_row(history)
    windows = None
    if job.validation and job.options.validation_windows is not None:
        windows = len(held_out_windows(job.validation, job.options))
    return TrainSummary(
        fold=fold,
        training_chips=len(job.training),
        validation_chips=len(job.validation),
        epochs=len(history),
        best_epoch=int(best["epoch"]),
        val_loss=best.get("val_loss"),
        val_iou=best.get("val_iou"),
        val_f1=best.get("val_f1"),
        seconds=seconds_of(history),
        checkpoint=str(folder),
        val_iou_by_set={name: iou for name in sets if (iou := best.get(IOU_OF + name)) is not None},
        val_best_iou=best.get("val_best_iou"),
        threshold=best.get(THRESHOLD, job.facts.get("threshold")),
        validation_windows=windows,
    )
