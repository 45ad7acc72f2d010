"""Pipeline: all stages of a config in order, and their dry runs; the config is checked first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any

from roadseg.commands.stages.declared_stages import declared_stage, renewed_before
from roadseg.config import Config
from roadseg.errors import ConfigError
from roadseg.roads.formats.by_suffix import check_formats
from roadseg.system.dry_runs import Plan, Plans
from roadseg.system.files import with_home
from roadseg.system.text import Summary
from roadseg.system.workspace import STAGES, AnyFold, FoldOrEach, Workspace

Say = Callable[[str, object], None]

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
    """Summaries of all stages by name, and the paths of the results."""

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
        ConfigError: if the fold does not exist, or a format needs a package that is missing.
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
        ConfigError: with the missing file, or names similar to an unknown network.
    """
    weights = config.train.encoder_weights
    named = {"train.init": config.train.init}
    if config.split.method == "file":
        named["split.file"] = config.split.file
    if weights and PurePath(weights).name != weights:
        named["train.encoder_weights"] = with_home(weights)
    for key, path in named.items():
        if path is not None and not path.exists():
            raise ConfigError(f"{key}: {path} does not exist")
    from roadseg.learn.network.models import check_names

    check_names(config.train.architecture, config.train.encoder)


def prepare(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareAndSplitSummary:
    """Make masks and chips, and divide these into folds."""
    from roadseg.commands.stages import prepare, split

    prepared = prepare.run(config, workspace, force=force)
    return PrepareAndSplitSummary(prepared, split.run(config, workspace, force=force))


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
    if _is_untrained(workspace, fold):
        check_training(config)
        from roadseg.learn.network.pretrained import check_weights

        check_weights(config.train)
    done: dict[str, Any] = {}
    for name, run_stage in _stages(config, workspace, fold, force=force):
        done[name] = run_stage(config, workspace, force=force)
        if name not in _IN_SUMMARY:
            say(name, done[name])
    places = (workspace.graphs, workspace.pictures, workspace.report)
    return RunSummary(done, *map(str, places))


def _is_untrained(workspace: Workspace, fold: FoldOrEach) -> bool:
    """Return whether the training of a fold, or of fold 0 for "each", has never started."""
    return not workspace.train_record(0 if fold == "each" else fold).exists()


def _stages(
    config: Config, workspace: Workspace, fold: FoldOrEach, *, force: bool
) -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the names of the stages in order, each with the function that runs it."""
    from roadseg.commands.stages import prepare, split

    yield "prepare", prepare.run
    yield "split", split.run
    # These import torch; without it, workers of prepare are forked.
    from roadseg.commands.stages import evaluate, graph, predict, quantize, report, train

    yield "train", partial(train.run, fold=fold)
    stage = declared_stage("predict", config, workspace, fold)
    if fold != "each" and stage.reason(force=force):
        left = partial(predict.megapixels_left, config, workspace, fold=fold, force=force)
        quantize.run_if_it_pays(config, workspace, fold=fold, megapixels=left)
    yield "predict", partial(predict.run, fold=fold)
    yield "graph", graph.run
    yield "evaluate", evaluate.run
    yield "report", report.run


def plan(
    config: Config,
    workspace: Workspace,
    *,
    fold: FoldOrEach = 0,
    force: bool = False,
    stages: Sequence[str] = STAGES,
) -> Plans:
    """Return the dry runs of some stages: what `run` would do.

    A stage always runs after an earlier stage with new outputs.
    """
    check_settings(config, fold=fold)
    if "train" in stages and _is_untrained(workspace, fold):
        check_training(config)
    plans: dict[str, Plan] = {}
    for name in stages:
        after = renewed_before(name, {key: plan for key, plan in plans.items() if plan.runs})
        planned = plan_stage(name, config, workspace, fold=fold, after=after, force=force)
        several = planned.stages if isinstance(planned, Plans) else [planned]
        plans |= {each.stage: each for each in several}
    return Plans([*plans.values()])


def plan_stage(
    stage: str,
    config: Config,
    workspace: Workspace,
    *,
    fold: AnyFold = 0,
    after: str = "",
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> Plan | Plans:
    """Return the dry run of a stage; for fold "each", the dry runs of all trainings.

    Modules of stages, and with them torch, are imported only if the stage has to run and its dry
    run needs them.

    Args:
        after: earlier stage, or option, because of which the stage has to run; empty if none.
    """
    if stage == "train" and fold == "each":
        from roadseg.commands.stages import train

        return train.plan_folds(config, workspace, after=after, force=force)
    declared = declared_stage(stage, config, workspace, fold)
    reason = declared.reason(after=after, force=force)
    if stage == "prepare" and reason:
        from roadseg.commands.stages import prepare

        return prepare.plan(config, workspace, reason)
    if stage == "train" and reason and fold != "each":
        from roadseg.commands.stages import train

        return train.plan(config, workspace, reason, fold=fold, after=bool(after), force=force)
    if stage == "predict" and reason and not after and fold != "all":
        from roadseg.commands.stages import predict

        return predict.plan(config, workspace, reason, fold=fold, force=force, shard=shard)
    return declared.plan(reason)
