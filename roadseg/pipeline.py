"""The order of the stages: each one alone, all of a config, and the demo."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from roadseg.config import FILE_NAME, Config, load_config
from roadseg.stages import demo as demo_stage
from roadseg.stages import evaluate, graph, predict, split, train
from roadseg.stages import prepare as prepare_stage
from roadseg.workspace import Workspace

Say = Callable[[str, object], None]


@dataclass(frozen=True)
class PrepareSummary:
    """What prepare and split did."""

    prepare: prepare_stage.PrepareSummary
    split: split.SplitSummary

    def __str__(self) -> str:
        """Say it in two sentences."""
        return f"{self.prepare}\n{self.split}"


@dataclass(frozen=True)
class RunSummary:
    """What all stages did; the metrics come last."""

    stages: dict[str, Any] = field(repr=False)
    graphs: str
    pictures: str
    evaluation: evaluate.EvaluateSummary

    def __str__(self) -> str:
        """Say what came out and where it is."""
        return (
            f"{self.evaluation}\ngraphs            {self.graphs}\npictures          {self.pictures}"
        )


def prepare(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareSummary:
    """Make masks and chips, and deal them into folds."""
    done = prepare_stage.run(config, workspace, force=force)
    return PrepareSummary(done, split.run(config, workspace, force=force))


def run(
    config: Config, workspace: Workspace, *, fold: int = 0, force: bool = False, say: Say
) -> RunSummary:
    """Run all stages in order; a stage for which nothing changed returns what it found before.

    Args:
        config: all settings.
        workspace: run folder.
        fold: the fold to hold out.
        force: do every stage again.
        say: called with the name and the summary of every stage when it is done.
    """
    done: dict[str, Any] = {}
    for name, stage in (
        ("prepare", prepare_stage.run),
        ("split", split.run),
        ("train", partial(train.run, fold=fold)),
        ("predict", partial(predict.run, fold=fold)),
        ("graph", graph.run),
        ("evaluate", evaluate.run),
    ):
        done[name] = stage(config, workspace, force=force)
        if name != "evaluate":
            say(name, done[name])
    return RunSummary(done, str(workspace.graphs), str(workspace.pictures), done["evaluate"])


def demo(folder: Path, *, say: Say) -> RunSummary:
    """Draw a small city in `folder`, train on it, and map and measure what was held out."""
    say("draw", demo_stage.run(folder))
    config = load_config(folder / FILE_NAME)
    return run(config, Workspace(config.run), say=say)
