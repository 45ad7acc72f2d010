"""Runs: the stages of a run folder, one by one or all of them, and the commands that make one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadseg import config as configs
from roadseg.api.arguments import AnyPath, json_text
from roadseg.api.notebooks import progress_in_notebook
from roadseg.config import Config
from roadseg.errors import ConfigError
from roadseg.system.locks import lock
from roadseg.system.units import choose_units
from roadseg.system.workspace import Fold, FoldOrEach, Workspace

if TYPE_CHECKING:
    from roadseg.commands.stages.evaluate import EvaluateSummary
    from roadseg.commands.stages.graph import GraphSummary
    from roadseg.commands.stages.pipeline import PrepareAndSplitSummary, RunSummary
    from roadseg.commands.stages.predict import PredictSummary
    from roadseg.commands.stages.report import ReportSummary
    from roadseg.commands.stages.split import SplitSummary
    from roadseg.commands.stages.train import CrossValidationSummary, TrainSummary
    from roadseg.commands.tools.demo import DemoSummary
    from roadseg.commands.tools.map import MapSummary

AnyConfig = AnyPath | Config | None
Overrides = Mapping[str, Any] | None


def run(
    config: AnyConfig = None,
    *,
    overrides: Overrides = None,
    fold: FoldOrEach = 0,
    force: bool = False,
    say: Callable[[str, object], None] | None = None,
) -> "RunSummary":
    """Run all stages, from masks to the report, like `roadseg run`; finished stages are skipped.

    Args:
        config: JSON file, or a loaded config; None: the defaults.
        overrides: settings by key, such as `{"train.epochs": 10}`; relative paths in them start at
            the working folder.
        fold: the held-out fold; "each" trains one network per fold, and measures every chip with
            the network that held it out.
        force: run every stage again.
        say: called with the name and the summary of each finished stage, such as `print`.

    Raises:
        RoadsegError: with a one-line message about what to do.
    """
    from roadseg.commands.stages import pipeline

    with _run_folder(config, overrides) as (loaded, workspace):
        return pipeline.run(loaded, workspace, fold=fold, force=force, say=say or (lambda *_: None))


def prepare(
    config: AnyConfig = None, *, overrides: Overrides = None, force: bool = False
) -> "PrepareAndSplitSummary":
    """Make masks, chips and folds, like `roadseg prepare`; see `run` for the arguments."""
    from roadseg.commands.stages import pipeline

    with _run_folder(config, overrides) as (loaded, workspace):
        return pipeline.prepare(loaded, workspace, force=force)


def split(
    config: AnyConfig = None, *, overrides: Overrides = None, force: bool = False
) -> "SplitSummary":
    """Divide the chips into folds again, like `roadseg split`; see `run` for the arguments."""
    from roadseg.commands.stages import split as stage

    with _run_folder(config, overrides) as (loaded, workspace):
        return stage.run(loaded, workspace, force=force)


def cross_validate(
    config: AnyConfig = None, *, overrides: Overrides = None, force: bool = False
) -> "CrossValidationSummary":
    """Train with each fold held out in turn, like `roadseg train --fold each`; see `run`.

    Finished trainings are skipped, and an interrupted one resumes.
    """
    from roadseg.commands.stages import train as stage

    with _run_folder(config, overrides) as (loaded, workspace):
        return stage.run_folds(loaded, workspace, force=force)


def train(
    config: AnyConfig = None, *, overrides: Overrides = None, fold: Fold = 0, force: bool = False
) -> "TrainSummary":
    """Train on all folds but one, like `roadseg train`; see `run` for the arguments.

    "all" trains on all chips, for the number of epochs that worked best on the folds. The same call
    resumes an interrupted training. `cross_validate` trains every fold.
    """
    from roadseg.commands.stages import train as stage

    with _run_folder(config, overrides, part=f"fold-{fold}") as (loaded, workspace):
        return stage.run_fold(loaded, workspace, fold=fold, force=force)


def predict_scenes(
    config: AnyConfig = None,
    *,
    overrides: Overrides = None,
    fold: FoldOrEach | None = None,
    force: bool = False,
) -> "PredictSummary":
    """Predict the scenes of the run, like `roadseg predict`; see `run` for the arguments.

    The default of `fold` is "each" if all folds are trained, otherwise 0.
    """
    from roadseg.commands.stages import predict as stage

    with _run_folder(config, overrides, alone=False) as (loaded, workspace):
        held_out = stage.default_fold(loaded, workspace) if fold is None else fold
        return stage.run(loaded, workspace, fold=held_out, force=force)


def trace_scenes(
    config: AnyConfig = None, *, overrides: Overrides = None, force: bool = False
) -> "GraphSummary":
    """Trace the predicted scenes of the run, like `roadseg graph`; see `run` for the arguments."""
    from roadseg.commands.stages import graph as stage

    with _run_folder(config, overrides, alone=False) as (loaded, workspace):
        return stage.run(loaded, workspace, force=force)


def evaluate(
    config: AnyConfig = None, *, overrides: Overrides = None, force: bool = False
) -> "EvaluateSummary":
    """Measure pixels and graphs on the held-out chips, like `roadseg evaluate`; see `run`."""
    from roadseg.commands.stages import evaluate as stage

    with _run_folder(config, overrides, alone=False) as (loaded, workspace):
        return stage.run(loaded, workspace, force=force)


def write_report(
    config: AnyConfig = None, *, overrides: Overrides = None, force: bool = False
) -> "ReportSummary":
    """Show the run on one page for the browser, like `roadseg report`; see `run`."""
    from roadseg.commands.stages import report as stage

    with _run_folder(config, overrides, alone=False, of_map=True) as (loaded, workspace):
        return stage.run(loaded, workspace, force=force)


@contextmanager
def _run_folder(
    config: AnyConfig,
    overrides: Overrides,
    *,
    part: str | None = None,
    alone: bool = True,
    of_map: bool = False,
) -> Iterator[tuple[Config, Workspace]]:
    """Read a config, and lock its run folder inside the block.

    Args:
        of_map: whether it may be the folder of a map without labels, which has only a report.
    """
    from roadseg.commands.stages.declared_stages import refuse_map

    loaded = load_config(config, overrides)
    choose_units(loaded.compute.units)
    workspace = Workspace(loaded.run)
    if not of_map:
        refuse_map(loaded, workspace)
    with lock(workspace.root, part=part, alone=alone and part is None), progress_in_notebook():
        yield loaded, workspace


def load_config(config: AnyConfig = None, overrides: Overrides = None) -> Config:
    """Return a config with overridden settings; see `run` for the arguments.

    Raises:
        ConfigError: if the file cannot be used, or there is no such setting.
    """
    if isinstance(config, Config):
        if overrides:
            raise ConfigError(
                "overrides: cannot be combined with a loaded config; use the path of the config"
            )
        return config
    return configs.load_config(None if config is None else Path(config), settings_of(overrides))


def settings_of(overrides: Overrides) -> list[str]:
    """Return overrides as settings of the command line, such as `train.epochs=10`."""
    return [f"{key}={json_text(value)}" for key, value in (overrides or {}).items()]


def init(
    images: AnyPath | Iterable[AnyPath] = (),
    labels: AnyPath | Iterable[AnyPath] = (),
    *,
    cities: AnyPath | Iterable[AnyPath] = (),
    overrides: Overrides = None,
) -> Config:
    """Inspect images and road labels, and return a config for them, like `roadseg init`.

    Args:
        images: files, folders or patterns of images.
        labels: likewise, of road labels.
        cities: folders with images and labels instead, each a set with its own options;
            "NAME=FOLDER" gives the set another name.
        overrides: settings by key, which are kept.

    Raises:
        DataError: if there are no images or labels, or they cannot be used.
    """
    from roadseg.commands.tools import init as tool

    settings = load_config(overrides=overrides)
    return tool.find_config(_texts(images), _texts(labels), settings, _texts(cities))


def map_roads(
    images: AnyPath | Iterable[AnyPath],
    output: AnyPath,
    *,
    labels: AnyPath | Iterable[AnyPath] = (),
    checkpoints: AnyPath | Iterable[AnyPath] = (),
    adapt: bool = False,
    minutes: float | None = None,
    overrides: Overrides = None,
    force: bool = False,
) -> "MapSummary":
    """Map the roads of images, like `roadseg map`; called again it goes on where it ended.

    Args:
        images: files, folders or patterns.
        output: folder for the config, the graphs, the report and all else.
        labels: known roads, on which a network is trained.
        checkpoints: folders of trained networks instead; without both, the starter maps.
        adapt: let the network first learn from the roads of the images that it is sure of.
        minutes: time limit of the training; None for that of the first call, or else 20 with
            labels, and 2 with `adapt`.
        overrides: settings by key.
        force: do everything again.

    Raises:
        ConfigError: if there are both labels and networks, labels are to be adapted to, `minutes`
            limits no training, or `output` has another map.
        DataError: if images or labels cannot be used.
    """
    from roadseg.commands.tools import map as tool

    with progress_in_notebook():
        return tool.run(
            _texts(images),
            Path(output),
            labels=_texts(labels),
            checkpoints=list(map(Path, _texts(checkpoints))),
            adapt=adapt,
            minutes=minutes,
            settings=settings_of(overrides),
            force=force,
            say=lambda *_: None,
        )


def demo(folder: AnyPath) -> "DemoSummary":
    """Write images, labels and config of a synthetic city to a new folder.

    `roadseg.run(folder / "roadseg.json")` then does the rest of `roadseg demo`.
    """
    from roadseg.commands.tools import demo as tool

    return tool.run(Path(folder))


def _texts(paths: AnyPath | Iterable[AnyPath]) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]
