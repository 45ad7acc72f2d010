"""The order of the stages: each one alone, all of a config, and the demo."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roadseg.config import FILE_NAME, load_config
from roadseg.settings import Config
from roadseg.workspace import Workspace

Say = Callable[[str, object], None]

STAGES = ("prepare", "split", "train", "predict", "graph", "evaluate")
_OF_A_FOLD = ("train", "predict")


@dataclass(frozen=True)
class PrepareSummary:
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
class RunSummary:
    """What all stages did, by name, and where the results are."""

    stages: dict[str, Any] = field(repr=False)
    graphs: str
    pictures: str

    @property
    def failed(self) -> dict[str, str]:
        """Scenes that were skipped, and why."""
        return {**self.stages["prepare"].failed, **self.stages["predict"].failed}

    def __str__(self) -> str:
        """Give the metrics, and where the results are."""
        return (
            f"{self.stages['evaluate']}\n"
            f"graphs            {self.graphs}\n"
            f"pictures          {self.pictures}"
        )


def prepare(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareSummary:
    """Make masks and chips, and deal them into folds."""
    stages = [_stage(name) for name in STAGES[:2]]
    return PrepareSummary(*(stage(config, workspace, force=force) for stage in stages))


def run(
    config: Config, workspace: Workspace, *, fold: int = 0, force: bool = False, say: Say
) -> RunSummary:
    """Run all stages in order; a stage for which nothing changed returns what it found before.

    Args:
        config: all settings.
        workspace: run folder.
        fold: the fold to hold out.
        force: do every stage again.
        say: called with the name and the summary of every stage but the last when it is done.
    """
    done: dict[str, Any] = {}
    for name in STAGES:
        options = {"fold": fold} if name in _OF_A_FOLD else {}
        done[name] = _stage(name)(config, workspace, force=force, **options)
        if name != STAGES[-1]:
            say(name, done[name])
    return RunSummary(done, str(workspace.graphs), str(workspace.pictures))


def demo(folder: Path, *, say: Say) -> RunSummary:
    """Draw a small city in `folder`, train on it, and map and measure what was held out."""
    say("draw", _stage("demo")(folder))
    config = load_config(folder / FILE_NAME)
    return run(config, Workspace(config.run), say=say)


def _stage(name: str) -> Callable[..., Any]:
    """Load a stage only when it is needed, since some of them load torch."""
    stage: Callable[..., Any] = importlib.import_module(f"roadseg.stages.{name}").run
    return stage
