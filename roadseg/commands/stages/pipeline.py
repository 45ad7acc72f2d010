"""The order of the stages: each one alone, and all of a config."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from roadseg.config import Config
from roadseg.system.plans import Plan, Plans
from roadseg.system.text import Summary
from roadseg.system.workspace import Workspace

Say = Callable[[str, object], None]

STAGES = ("prepare", "split", "train", "predict", "graph", "evaluate", "report")
_OF_A_FOLD = ("train", "predict")
_IN_SUMMARY = ("evaluate", "report")  # of a run, so they are not told before


@dataclass(frozen=True)
class PrepareSummary(Summary):
    """What prepare and split did."""

    prepare: Any
    split: Any

    @property
    def failed(self) -> dict[str, str]:
        """Scenes that were skipped, and why."""
        return dict(self.prepare.failed)

    def __str__(self) -> str:
        """Say it in two sentences."""
        return f"{self.prepare}\n{self.split}"


@dataclass(frozen=True)
class RunSummary(Summary):
    """What all stages did, by name, and where the results are."""

    stages: dict[str, Any] = field(repr=False)
    graphs: str
    pictures: str
    report: str

    @property
    def failed(self) -> dict[str, str]:
        """Scenes that were skipped, and why."""
        return {**self.stages["prepare"].failed, **self.stages["predict"].failed}

    def __str__(self) -> str:
        """Give the metrics, and where the results are."""
        return (
            f"{self.stages['evaluate']}\n"
            f"graphs            {self.graphs}\n"
            f"pictures          {self.pictures}\n"
            f"report            {self.report}"
        )


def prepare(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareSummary:
    """Make masks and chips, and deal them into folds."""
    stages = [_stage(name) for name in STAGES[:2]]
    return PrepareSummary(*(stage.run(config, workspace, force=force) for stage in stages))


def run(
    config: Config, workspace: Workspace, *, fold: int = 0, force: bool = False, say: Say
) -> RunSummary:
    """Run all stages in order; a stage for which nothing changed returns what it found before.

    Args:
        config: all settings.
        workspace: run folder.
        fold: the fold to hold out.
        force: do every stage again.
        say: called with the name and the summary of every stage but the last two when it is done.
    """
    done: dict[str, Any] = {}
    for name in STAGES:
        options = {"fold": fold} if name in _OF_A_FOLD else {}
        done[name] = _stage(name).run(config, workspace, force=force, **options)
        if name not in _IN_SUMMARY:
            say(name, done[name])
    places = (workspace.graphs, workspace.pictures, workspace.report)
    return RunSummary(done, *map(str, places))


def plan(
    config: Config,
    workspace: Workspace,
    *,
    fold: int = 0,
    force: bool = False,
    stages: Sequence[str] = STAGES,
) -> Plans:
    """Say what `run` would do; a stage after one with other results runs on what is to come."""
    plans: list[Plan] = []
    for name in stages:
        options: dict[str, Any] = {"fold": fold} if name in _OF_A_FOLD else {}
        if runs := [plan.stage for plan in plans if _is_renewed(name, plan)]:
            options["after"] = runs[-1]
        plans.append(_stage(name).plan(config, workspace, force=force, **options))
    return Plans(plans)


def _is_renewed(stage: str, earlier: Plan) -> bool:
    """Say whether a stage has to run after an earlier one; the report shows its very files."""
    return earlier.runs and (earlier.renews or stage == "report")


def plan_prepare(config: Config, workspace: Workspace, *, force: bool = False) -> Plans:
    """Say what `prepare` would do."""
    return plan(config, workspace, force=force, stages=STAGES[:2])


def _stage(name: str) -> ModuleType:
    """Load a stage only when it is needed, since some of them load torch."""
    return importlib.import_module(f"roadseg.commands.stages.{name}")
