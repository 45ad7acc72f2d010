"""status: how far a run has come, and what `roadseg run` would do again. Writes nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from roadseg.commands.stages.made_from import reason_to_run, record_path
from roadseg.commands.stages.pipeline import is_renewed
from roadseg.config import Config
from roadseg.errors import RoadsegError
from roadseg.report.run_facts import (
    RunFacts,
    ended,
    main_figure,
    megabytes_in,
    megabytes_of,
    read_run,
    seconds_of,
)
from roadseg.system.locks import holders
from roadseg.system.stage_records import Reason, Record
from roadseg.system.text import Summary, one_line, size_text, table, time_text
from roadseg.system.workspace import STAGES, AnyFold, Fold, Workspace

DONE, NOT_RUN, CHANGED = "done", "not run", "changed"


@dataclass(frozen=True)
class StageStatus:
    """Where a stage stands.

    Attributes:
        stage: its name; trainings of further folds have theirs in it.
        state: done, changed, not run, running, interrupted, outputs missing, outputs changed,
            incomplete, or unknown.
        why: it is not done, in the words of the dry run; empty if it is.
        ended: local time at which its record was written; None if it has not ended.
        figure: what came out, in a few words.
    """

    stage: str
    state: str
    why: str = ""
    ended: str | None = None
    seconds: float | None = None
    figure: str = ""
    megabytes: float | None = None


@dataclass(frozen=True)
class RunStatus(Summary):
    """Where a run stands.

    Attributes:
        in_use: the processes that work in it.
        compared: whether its stages were compared with a config.
        megabytes: of all files in the folder.
        fold: held out; "each" in a cross-validation.
    """

    run: str
    in_use: list[str]
    compared: bool
    stages: list[StageStatus]
    megabytes: float
    fold: AnyFold = 0

    def __str__(self) -> str:
        """Return a line for each stage, and one that says what to do."""
        rows = [("stage", "state", "ended", "took", "size", "result"), *map(_row, self.stages)]
        lines = [f"{self.run}: {size_text(self.megabytes)}{self._use()}", table(rows, right=(3, 4))]
        lines += [f"{each.stage}: {each.why}" for each in self.stages if each.why]
        if not self.compared:
            lines.append("no config found, so settings were not compared (use --config)")
        return "\n".join([*lines, *self._advice()])

    def _use(self) -> str:
        return f"; in use by {' and '.join(self.in_use)}" if self.in_use else ""

    def _advice(self) -> list[str]:
        if self.in_use or not self.compared:
            return []
        is_done = all(each.state == DONE for each in self.stages)
        fold = "" if self.fold in (0, "all") else f" --fold {self.fold}"
        return [
            "nothing to do"
            if is_done
            else f"next: roadseg run{fold} (--dry-run estimates the time)"
        ]


def _row(status: StageStatus) -> tuple[str, ...]:
    return (
        status.stage,
        status.state,
        (status.ended or "")[:16],
        "" if status.seconds is None else time_text(status.seconds),
        "" if status.megabytes is None else size_text(status.megabytes),
        status.figure,
    )


def run(config: Config | None, folder: Path) -> RunStatus:
    """Return where each stage of a run stands.

    Args:
        config: that its stages are compared with; None shows what their records say alone.

    Raises:
        MissingInputError: if there is no such folder.
        DataError: if it is no run, or a record is damaged.
    """
    facts, in_use = read_run(folder), holders(folder)
    reader = _StageReader(config, facts, in_use=bool(in_use))
    held_out: AnyFold = "each" if facts.is_cross_validation else facts.fold
    stages = []
    for name in STAGES:
        stages.append(reader.at(name, facts.fold if name == "train" else held_out))
        if name == "train":
            others = [fold for fold in facts.trainings if fold != facts.fold]
            stages += [reader.at(name, fold) for fold in others]
    compared, megabytes = config is not None, megabytes_in(folder)
    return RunStatus(str(folder), in_use, compared, stages, megabytes, held_out)


class _StageReader:
    """Reads where the stages of a run stand, in their order."""

    def __init__(self, config: Config | None, facts: RunFacts, *, in_use: bool) -> None:
        self._config, self._facts, self._in_use = config, facts, in_use
        self._workspace = Workspace(facts.folder)
        self._again: list[tuple[str, Reason]] = []  # Stages that run again, and why.

    def at(self, stage: str, fold: AnyFold) -> StageStatus:
        """Return where a stage stands."""
        facts = self._facts
        is_first = stage != "train" or fold == facts.fold
        record = facts.records.get(stage) if is_first else facts.trainings[cast("Fold", fold)]
        # In a cross-validation later stages need the trainings of all folds.
        is_each = facts.is_cross_validation and fold != "all"
        is_main = is_first or is_each
        name = f"train --fold {fold}" if stage == "train" and (is_each or not is_first) else stage
        path = record_path(stage, self._workspace, fold)
        if record is None:
            if is_main:
                self._again.append((stage, Reason("no earlier run")))
            return StageStatus(name, NOT_RUN)
        state, why = self._state(stage, fold, record, named=name if is_main else "")
        if not record.is_done:
            return StageStatus(name, state, why)
        return StageStatus(
            name,
            state,
            why,
            ended(path),
            seconds_of(record),
            main_figure(stage, record),
            megabytes_in(path.parent) if stage == "train" else megabytes_of(path, record),
        )

    def _state(self, stage: str, fold: AnyFold, record: Record, *, named: str) -> tuple[str, str]:
        """Return the state of a stage that has a record, and why it is not done.

        What later stages need is named, so that they tell after what they run again.
        """
        if not record.is_done and self._in_use:
            return "running", ""
        try:
            reason = self._reason(stage, fold, record)
        except RoadsegError as error:
            return "unknown", one_line(error)
        if reason is None:
            return DONE, ""
        if named:
            self._again.append((named, reason))
        return _state_of(record, reason), reason.text

    def _reason(self, stage: str, fold: AnyFold, record: Record) -> Reason | None:
        if not record.is_done:
            return Reason("the last run was interrupted")
        earlier = [name for name, reason in self._again if is_renewed(stage, reason)]
        if earlier:
            return Reason(f"after {earlier[-1]}")
        if self._config is None:
            return None
        return reason_to_run(stage, self._config, self._workspace, fold=fold)


def _state_of(record: Record, reason: Reason) -> str:
    """Return the state of a stage that would run again."""
    if not record.is_done:
        return "interrupted"
    if not reason.renews:
        return "outputs missing" if "is missing" in reason.text else "outputs changed"
    return CHANGED if reason.text.startswith(("changed:", "after ")) else "incomplete"
