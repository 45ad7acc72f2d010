"""Cross-validation: a training for every fold, one after the other. No stage, serves train."""

from dataclasses import dataclass, replace

from roadseg.commands.stages import train
from roadseg.commands.stages.made_from import fold_numbers, reason_to_run
from roadseg.commands.stages.train import TrainSummary
from roadseg.config import Config
from roadseg.learn.network.checkpoints import checkpoint_path, read_checkpoint_facts
from roadseg.roads.metrics.pooling import Spread, spread_of
from roadseg.system.dry_runs import Plan
from roadseg.system.progress import Progress
from roadseg.system.text import Summary, about_time
from roadseg.system.workspace import Workspace


@dataclass(frozen=True)
class CrossValidationSummary(Summary):
    """Figures of the trainings of all folds.

    Attributes:
        folds: the training that held out each fold, in order.
        val_iou: IoU of the held-out pixels, over the folds; None if none could be measured.
        val_f1: F1, likewise.
    """

    folds: list[TrainSummary]
    val_iou: Spread | None
    val_f1: Spread | None
    seconds: float

    def __str__(self) -> str:
        """Return a line for each fold, and one for all."""
        figures = f"IoU {self.val_iou}, F1 {self.val_f1}, {about_time(self.seconds)}"
        return "\n".join([*map(str, self.folds), f"all {len(self.folds)} folds: {figures}"])


def run(config: Config, workspace: Workspace, *, force: bool = False) -> CrossValidationSummary:
    """Train with each fold held out in turn; see `run` of train for the arguments.

    Finished trainings are skipped, and an interrupted one resumes.
    """
    numbers = fold_numbers(workspace)
    shares = {fold: 0.0 if force else _share_done(config, workspace, fold) for fold in numbers}
    done = []
    with Progress(
        "cross-validation", total=len(numbers), unit="folds", done=sum(shares.values())
    ) as progress:

        def reach(fold: int, share: float) -> None:
            shares[fold] = share
            progress.reach(sum(shares.values()))

        for fold in numbers:
            summary = train.run(
                config,
                workspace,
                fold=fold,
                force=force,
                has_done=lambda share, fold=fold: reach(fold, share),  # type: ignore[misc]
            )
            done.append(summary)
            reach(fold, 1.0)
    return CrossValidationSummary(
        done,
        val_iou=spread_of(each.val_iou for each in done),
        val_f1=spread_of(each.val_f1 for each in done),
        seconds=sum(each.seconds for each in done),
    )


def plan(
    config: Config, workspace: Workspace, *, after: str = "", force: bool = False
) -> list[Plan]:
    """Return what `run` would do for each fold, if necessary after an earlier stage.

    A rehearsal on one fold tells the time of all that have not begun.
    """
    plans: list[Plan] = []
    whole: Plan | None = None
    for fold in range(config.folds) if after else fold_numbers(workspace):
        planned = train.plan(config, workspace, fold=fold, after=after, force=force, like=whole)
        if planned.runs and (force or not _has_begun(workspace, fold)):
            whole = whole or planned
        plans.append(replace(planned, stage=f"train --fold {fold}"))
    return plans


def _has_begun(workspace: Workspace, fold: int) -> bool:
    return checkpoint_path(workspace.checkpoint(fold), "last").exists()


def _share_done(config: Config, workspace: Workspace, fold: int) -> float:
    """Return the share of the epochs of a training that an earlier command has done."""
    if reason_to_run("train", config, workspace, fold=fold) is None:
        return 1.0
    if not _has_begun(workspace, fold):
        return 0.0
    facts = read_checkpoint_facts(workspace.checkpoint(fold), "last")
    epochs: int = facts.get("epochs", config.train.epochs)  # Kept where a time limit planned them.
    return min(len(facts["history"]) / epochs, 1.0)
