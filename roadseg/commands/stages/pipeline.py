"""The order of the stages: each one alone, and all of a config, which is checked before."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from roadseg.commands.stages.made_from import fold_numbers, plan_stage, reason_to_run
from roadseg.config import Config
from roadseg.errors import ConfigError
from roadseg.roads.formats.by_suffix import check_formats
from roadseg.system.dry_runs import Plan, Plans, up_to_date
from roadseg.system.files import with_home
from roadseg.system.stage_records import Reason
from roadseg.system.text import Summary
from roadseg.system.workspace import STAGES, FoldOrEach, Workspace

Say = Callable[[str, object], None]

_OF_A_FOLD = ("train", "predict")  # Stages that take the number of the held-out fold.
_WITH_A_PLAN = ("prepare", "train", "predict")  # Of their own, since they look at images.
_IN_SUMMARY = ("evaluate", "report")  # The summary of a run has theirs; they are not said before.


@dataclass(frozen=True)
class PrepareAndSplitSummary(Summary):
    """Summaries of prepare and split."""

    prepare: Any
    split: Any

    @property
    def failed(self) -> dict[str, str]:
        """Scenes that were skipped, and why."""
        return dict(self.prepare.failed)

    def __str__(self) -> str:
        """Return a line for each."""
        return f"{self.prepare}\n{self.split}"


@dataclass(frozen=True)
class RunSummary(Summary):
    """Summaries of all stages by name, and the place of the results."""

    stages: dict[str, Any] = field(repr=False)
    graphs: str
    pictures: str
    report: str

    @property
    def failed(self) -> dict[str, str]:
        """Scenes that were skipped, and why."""
        return {**self.stages["prepare"].failed, **self.stages["predict"].failed}

    def __str__(self) -> str:
        """Return the metrics, and where the results are."""
        mapped, scenes = len(self.stages["graph"].scenes), self.stages["prepare"].scenes
        more = (
            f"mapped            {mapped} of {scenes} scenes, those with held-out chips; for all: "
            "roadseg run --set predict.scenes=all\n"
        )
        return (
            f"{self.stages['evaluate']}\n"
            f"{more if mapped < scenes else ''}"
            f"graphs            {self.graphs}\n"
            f"pictures          {self.pictures}\n"
            f"report            {self.report}"
        )


def check_settings(config: Config, *, fold: FoldOrEach = 0) -> None:
    """Check that the fold exists and that the formats of graphs can be written here.

    Raises:
        ConfigError: if not.
    """
    check_formats(config.graph.formats)
    # A file of folds says itself how many there are.
    if fold != "each" and config.split.method != "file" and fold >= config.folds:
        raise ConfigError(
            f"--fold {fold} does not exist; choose 0 to {config.folds - 1} (split.folds)"
        )


def check_training(config: Config) -> None:
    """Check that the files that a training needs exist, and that its network is known.

    Raises:
        ConfigError: if not; the message names the file, or similar names of networks.
    """
    for key, path in _files(config).items():
        if not path.exists():
            raise ConfigError(f"{key}: {path} does not exist")
    from roadseg.learn.network.models import check_names

    check_names(config.train.architecture, config.train.encoder)


def _files(config: Config) -> dict[str, Path]:
    """Return the files that settings of the training and the split name."""
    weights = config.train.encoder_weights
    named = {"train.init": config.train.init}
    if config.split.method == "file":
        named["split.file"] = config.split.file
    if weights and "/" in weights:
        named["train.encoder_weights"] = with_home(weights)
    return {key: path for key, path in named.items() if path is not None}


def prepare(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareAndSplitSummary:
    """Make masks and chips, and divide these into folds."""
    stages = [_stage(name) for name in STAGES[:2]]
    return PrepareAndSplitSummary(*(stage.run(config, workspace, force=force) for stage in stages))


def run(
    config: Config, workspace: Workspace, *, fold: FoldOrEach = 0, force: bool = False, say: Say
) -> RunSummary:
    """Run all stages in order; a stage for which nothing changed returns its earlier summary.

    Args:
        fold: the fold to hold out; "each" trains a network for every fold, and maps and measures
            every chip with the network that has not seen it.
        say: called with the name and the summary of every stage but the last two when it is done.
    """
    check_settings(config, fold=fold)
    first = 0 if fold == "each" else fold
    if not workspace.train_record(first).exists():  # Else its network was built before.
        check_training(config)
        from roadseg.learn.network.pretrained import check_weights

        check_weights(config.train)
    done: dict[str, Any] = {}
    for name in STAGES:
        if name == "predict" and fold != "each":
            left = _megapixels_left(config, workspace, fold, force=force)
            _stage("quantize").if_it_pays(config, workspace, fold=fold, megapixels=left)
        done[name] = _stage(name).run(config, workspace, force=force, **_fold_of(name, fold))
        if name not in _IN_SUMMARY:
            say(name, done[name])
    places = (workspace.graphs, workspace.pictures, workspace.report)
    return RunSummary(done, *map(str, places))


def _megapixels_left(
    config: Config, workspace: Workspace, fold: int, *, force: bool
) -> Callable[[], float]:
    """Return a function that says how many megapixels are left to predict."""
    left = _stage("predict").megapixels_left
    return partial(left, config, workspace, fold=fold, force=force)


def plan(
    config: Config,
    workspace: Workspace,
    *,
    fold: FoldOrEach = 0,
    force: bool = False,
    stages: Sequence[str] = STAGES,
) -> Plans:
    """Return the dry run of some stages: what `run` would do.

    A stage runs for certain after an earlier one that gives other results.
    """
    check_settings(config, fold=fold)
    plans: list[Plan] = []
    for name in stages:
        renewing = [done.stage for done in plans if done.runs and is_renewed(name, done)]
        after = renewing[-1] if renewing else ""
        # A stage that holds needs no import of its own, which would load torch for some of them.
        if not after and not force and _holds(name, config, workspace, fold):
            plans.append(up_to_date(name))
        elif name in _WITH_A_PLAN:
            # The first stage comes after none.
            given = ({} if name == STAGES[0] else {"after": after}) | _fold_of(name, fold)
            if name == "predict" and not after and fold != "each":
                left = _megapixels_left(config, workspace, fold, force=force)
                if _stage("quantize").pays(config, workspace, fold=fold, megapixels=left):
                    plans.append(_stage("quantize").plan(config, workspace, fold=fold))
            planned = _stage(name).plan(config, workspace, force=force, **given)
            plans += planned.stages if isinstance(planned, Plans) else [planned]
        else:
            plans.append(plan_stage(name, config, workspace, after=after, force=force))
    return Plans(plans)


def is_renewed(stage: str, earlier: Plan | Reason) -> bool:
    """Return whether a stage has to run after an earlier one that runs.

    The report runs after every stage that runs, because it shows their records as well.
    """
    return earlier.renews or stage == "report"


def _holds(stage: str, config: Config, workspace: Workspace, fold: FoldOrEach) -> bool:
    """Return whether what a stage made is up to date, as far as its record alone can tell."""
    is_each = stage == "train" and fold == "each"
    folds = fold_numbers(workspace) if is_each else [fold]
    return all(reason_to_run(stage, config, workspace, fold=one) is None for one in folds)


def _fold_of(stage: str, fold: FoldOrEach) -> dict[str, Any]:
    """Return the fold as an argument of a stage, if it takes one."""
    return {"fold": fold} if stage in _OF_A_FOLD else {}


def _stage(name: str) -> ModuleType:
    """Load a stage only when it is needed, since some of them load torch."""
    return importlib.import_module(f"roadseg.commands.stages.{name}")
