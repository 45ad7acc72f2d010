"""status: how far a run has come, and what `roadseg run` would do again. Writes nothing."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from roadseg.commands.stages.declared_stages import declared_stage, needs_force, renewed_before
from roadseg.config import Config
from roadseg.errors import RoadsegError
from roadseg.report.run_facts import (
    RunFacts,
    ended,
    main_figure,
    read_run,
)
from roadseg.system.locks import holders
from roadseg.system.stage_records import NOT_RUN, UNFINISHED, Reason
from roadseg.system.text import Summary, one_line, table, time_text
from roadseg.system.workspace import STAGES, AnyFold, Fold, Workspace

_DONE = "done"


@dataclass(frozen=True)
class StageStatus:
    """State of a stage.

    Attributes:
        stage: name of the stage; with the fold for trainings in a cross-validation.
        state: done, changed, not run, running, interrupted, outputs missing, outputs changed,
            incomplete, or unknown.
        why: reason why it has to run, as in the dry run; empty if it is done.
        ended: local time at which the stage ended; None if it has not ended.
        figure: main result in a few words.
    """

    stage: str
    state: str
    why: str = ""
    ended: str | None = None
    seconds: float | None = None
    figure: str = ""


@dataclass(frozen=True)
class RunStatus(Summary):
    """State of a run.

    Attributes:
        in_use: processes that work in the run folder.
        compared: whether the stages were compared with a config.
        fold: held-out fold; "each" in a cross-validation.
        options: options that select this run, such as "--run map".
        has_labels: whether the run has labels to train on; a map without labels has fewer stages.
        is_adapted: whether its labels are roads of the map that contains it.
    """

    run: str
    in_use: list[str]
    compared: bool
    stages: list[StageStatus]
    fold: AnyFold = 0
    options: str = ""
    has_labels: bool = True
    is_adapted: bool = False

    def __str__(self) -> str:
        """Return a line for each stage, and one with the next command."""
        rows = [("stage", "state", "ended", "took", "result"), *map(_row, self.stages)]
        in_use = f": in use by {' and '.join(self.in_use)}" if self.in_use else ""
        lines = [f"{self.run}{in_use}", table(rows, right=(3,))]
        lines += [f"{each.stage}: {each.why}" for each in self.stages if each.why]
        if not self.compared:
            lines.append("no config found, so settings were not compared (use --config)")
        return "\n".join([*lines, *self._advice()])

    def _advice(self) -> list[str]:
        if self.in_use or not self.compared or self.is_adapted:
            return []
        is_done = all(each.state == _DONE for each in self.stages)
        options = f" {self.options}" if self.options else ""
        if not self.has_labels:
            told = (
                "mapped without labels, so it has no other stages; if images or settings changed: "
                f"roadseg map; to correct it: roadseg review {shlex.quote(self.run)}"
            )
            return [told] if is_done else [f"next: roadseg report{options}", told]
        if is_done:
            return ["nothing to do"]
        fold = "" if self.fold in (0, "all") else f" --fold {self.fold}"
        needed = [s for s in self.stages if s.stage == "train" or self.fold == "each"]
        steps = ["train --force"] if any(needs_force(s.stage, s.why) for s in needed) else []
        commands = [f"roadseg {step}{options}{fold}" for step in [*steps, "run"]]
        return [f"next: {', then '.join(commands)} (--dry-run estimates the time)"]


def _row(status: StageStatus) -> tuple[str, ...]:
    return (
        status.stage,
        status.state,
        (status.ended or "")[:16],
        "" if status.seconds is None else time_text(status.seconds),
        status.figure,
    )


def run(config: Config | None, folder: Path, *, options: str = "") -> RunStatus:
    """Return the state of each stage of a run.

    Args:
        config: config to compare the stages with; None if only their records count.
        options: options that select this run, for the suggested next command.

    Raises:
        MissingInputError: if there is no such folder.
        DataError: if it is not a run, or a record is damaged.
    """
    facts, in_use = read_run(folder), holders(folder)
    held_out: AnyFold = "each" if facts.is_cross_validation else facts.fold
    has_roads = config is None or any(each.labels.roads for each in config.sets)
    has_labels = has_roads or "prepare" in facts.records
    stages: list[StageStatus] = []
    again: dict[str, Reason] = {}  # Why stages run again that later ones need, by name.
    for stage in STAGES:
        earlier = dict(again)  # Trainings do not depend on each other.
        parts = _trainings(facts) if stage == "train" else [(stage, held_out, True)]
        for name, fold, is_needed in parts:
            status, reason = _at(config, facts, stage, fold, earlier, in_use=bool(in_use))
            if not has_labels and status.state == "not run":
                continue
            stages.append(replace(status, stage=name))
            if reason and is_needed:
                again[name] = reason
    return RunStatus(
        str(folder),
        in_use,
        config is not None,
        stages,
        held_out,
        options,
        has_labels,
        is_adapted=Workspace(folder).pseudo_labels.exists(),
    )


def _trainings(facts: RunFacts) -> Iterator[tuple[str, AnyFold, bool]]:
    """Yield name and fold of each training, and whether later stages need it: one, or all folds."""
    for fold in dict.fromkeys([facts.fold, *facts.trainings]):
        is_one_of_all = facts.is_cross_validation and fold != "all"
        is_alone = fold == facts.fold and not is_one_of_all
        yield "train" if is_alone else f"train --fold {fold}", fold, is_alone or is_one_of_all


def _at(
    config: Config | None,
    facts: RunFacts,
    stage: str,
    fold: AnyFold,
    again: Mapping[str, Reason],
    *,
    in_use: bool,
) -> tuple[StageStatus, Reason | None]:
    """Return the state of a stage, and why it would run again; None if that is not known.

    Args:
        again: reasons why earlier stages run again, by name.
    """
    trained = facts.trainings.get(cast("Fold", fold))
    record = trained if stage == "train" else facts.records.get(stage)
    if record is None:
        return StageStatus(stage, NOT_RUN.state), NOT_RUN
    if not record.is_done and in_use:
        return StageStatus(stage, "running"), None
    if not record.is_done:
        return StageStatus(stage, UNFINISHED.state, UNFINISHED.text), UNFINISHED
    # Without a config, only records are looked at.
    declared = declared_stage(stage, config or Config(), Workspace(facts.folder), fold)
    after, state, why = renewed_before(stage, again), _DONE, ""
    reason: Reason | None = None
    try:
        if after or config is not None:
            reason = declared.reason(after=after)
    except RoadsegError as error:
        state, why = "unknown", one_line(error)
    if reason is not None:
        state, why = reason.state, reason.text
    figure, when = main_figure(stage, record), ended(declared.path)
    return StageStatus(stage, state, why, when, record.whole_seconds, figure), reason
