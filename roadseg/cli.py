"""roadseg on the command line: read options, call one stage, show its summary."""

import functools
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from roadseg.console import PARTLY, Group, locked, set_up, show
from roadseg.options import (
    CONFIG,
    DEVICES,
    FOLD,
    FORCE,
    JSON,
    LAUNCHING,
    LAUNCHING_SEVERAL,
    ON_ERROR,
    OUTPUT,
    RUN,
    SCHEDULER,
    SET,
    WORKERS,
    Command,
    Option,
    started,
    together,
)

if TYPE_CHECKING:
    from roadseg.settings import Config
    from roadseg.workspace import Workspace


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="roadseg")
@click.option("-v", "--verbose", count=True, help="More log lines.")
@click.option("-q", "--quiet", count=True, help="Fewer log lines.")
def main(verbose: int, quiet: int) -> None:
    """Turn satellite images and road labels into a routable road network.

    \b
    The whole way on your own data:
      roadseg init --images images/ --labels roads.geojson
      roadseg run
    or stage by stage: prepare, train --fold 0, predict, graph, evaluate.

    \b
    Exit codes: 0 done, 1 failed, 2 usage or config, 3 a file cannot be read or written,
    4 some scenes failed, 130 interrupted, 143 terminated.
    """
    set_up(verbosity=verbose - quiet)


def _stage_command(*options: Option) -> Callable[[Command], click.Command]:
    """Make a command of a function that takes config, workspace and options, returns a summary."""

    def decorate(function: Command) -> click.Command:
        @functools.wraps(function)
        def command(
            config_path: Path | None,
            assignments: tuple[str, ...],
            run_folder: Path | None,
            *,
            as_json: bool,
            **values: Any,  # noqa: ANN401 - the options of this command
        ) -> None:
            assignments += started(values)
            config = _load(config_path, assignments, required=not values.get("images"))
            folder = run_folder or config.run
            workspace = importlib.import_module("roadseg.workspace").Workspace(folder)
            with locked(folder, function.__name__, values):
                summary = function(config, workspace, **values)
            show(summary, as_json=as_json)
            if getattr(summary, "failed", None):
                click.get_current_context().exit(PARTLY)

        return main.command()(together(*options, CONFIG, SET, RUN, FORCE, JSON)(command))

    return decorate


def _load(
    config_path: Path | None, assignments: tuple[str, ...], *, required: bool = True
) -> "Config":
    module = importlib.import_module("roadseg.config")
    path = module.find_config(config_path, required=required)
    return cast("Config", module.load_config(path, assignments))


def _stage(name: str) -> ModuleType:
    return importlib.import_module(f"roadseg.stages.{name}")


@main.command()
@click.option("--images", multiple=True, required=True, help="Folder, file or glob; repeatable.")
@click.option("--labels", multiple=True, required=True, help="Folder, file or glob; repeatable.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("roadseg.json"),
    show_default=True,
    help="Config file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing config file.")
@SET
@JSON
def init(
    images: tuple[str, ...],
    labels: tuple[str, ...],
    output: Path,
    assignments: tuple[str, ...],
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Look at images and road labels, write a config for them.

    \b
    Example: roadseg init --images images/ --labels roads/
    """
    settings = importlib.import_module("roadseg.config").load_config(None, assignments)
    summary = _stage("init").run(images, labels, output, settings=settings, force=force)
    show(summary, as_json=as_json)


@main.group()
def config() -> None:
    """Check, show or describe the config.

    \b
    Example: roadseg config show
    """


@config.command()
@CONFIG
@SET
def check(config_path: Path | None, assignments: tuple[str, ...]) -> None:
    """Say whether the config can be used, without running anything.

    \b
    Example: roadseg config check --config roadseg.json
    """
    _load(config_path, assignments)
    click.echo("every key and value of the config can be used")


@config.command("show")
@CONFIG
@SET
def show_config(config_path: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the config with every default filled in and every path made absolute.

    Without a config file these are the defaults.

    \b
    Example: roadseg config show --set train.epochs=3
    """
    click.echo(_load(config_path, assignments, required=False).model_dump_json(indent=2))


@config.command()
def schema() -> None:
    """Print the JSON Schema: every key with its default, unit and meaning.

    \b
    Example: roadseg config schema > roadseg.schema.json
    """
    models = importlib.import_module("roadseg.settings")
    click.echo(json.dumps(models.Config.model_json_schema(), indent=2))


@_stage_command(WORKERS, SCHEDULER, ON_ERROR)
def prepare(config: "Config", workspace: "Workspace", *, force: bool) -> object:
    """Make masks, cut scenes into chips, deal them into folds.

    \b
    Examples:
      roadseg prepare --set labels.buffer_m=3
      roadseg prepare --workers 8 --on-error skip
    """
    return importlib.import_module("roadseg.pipeline").prepare(config, workspace, force=force)


@_stage_command()
def split(config: "Config", workspace: "Workspace", *, force: bool) -> object:
    """Deal the chips into folds again (prepare ends with this).

    \b
    Example: roadseg split --set split.method=random
    """
    return _stage("split").run(config, workspace, force=force)


@_stage_command(FOLD, *DEVICES, *LAUNCHING_SEVERAL)
def train(config: "Config", workspace: "Workspace", *, force: bool, fold: int) -> object:
    """Train on all folds but one, and validate on that one.

    An interrupted training continues with the same command.

    \b
    Examples:
      roadseg train --fold 0 --set train.epochs=10
      roadseg train --fold 0 --ncores 16 --allocator auto
      roadseg train --fold 0 --processes 2
    """
    return _stage("train").run(config, workspace, fold=fold, force=force)


@_stage_command(
    FOLD,
    click.option(
        "--checkpoint",
        type=click.Path(path_type=Path, file_okay=False),
        help="Checkpoint folder to predict IMAGES with.",
    ),
    OUTPUT,
    *DEVICES,
    *LAUNCHING,
    click.argument("images", nargs=-1),
)
def predict(
    config: "Config",
    workspace: "Workspace",
    *,
    force: bool,
    fold: int,
    checkpoint: Path | None,
    output: Path | None,
    images: tuple[str, ...],
) -> object:
    """Predict roads in the scenes of the run, or in any IMAGES.

    \b
    Examples:
      roadseg predict --fold 0
      roadseg predict --checkpoint run/checkpoints/fold-0 --output out city.tif
    """
    if not _all_or_none(images, checkpoint, output):
        msg = "IMAGES, --checkpoint and --output go together"
        raise click.UsageError(msg)
    module = _stage("predict")
    if checkpoint is None or output is None:
        return module.run(config, workspace, fold=fold, force=force)
    return module.run_images(config, images, checkpoint=checkpoint, output=output, force=force)


@_stage_command(OUTPUT, click.argument("images", nargs=-1))
def graph(
    config: "Config",
    workspace: "Workspace",
    *,
    force: bool,
    output: Path | None,
    images: tuple[str, ...],
) -> object:
    """Turn probabilities of the run, or any IMAGES, into road graphs.

    IMAGES are masks or probability rasters.

    \b
    Examples:
      roadseg graph
      roadseg graph --output out mask.tif --set graph.min_spur_m=15
    """
    if not _all_or_none(images, output):
        msg = "IMAGES and --output go together"
        raise click.UsageError(msg)
    module = _stage("graph")
    if output is None:
        return module.run(config, workspace, force=force)
    return module.run_images(config, images, output=output)


@_stage_command()
def evaluate(config: "Config", workspace: "Workspace", *, force: bool) -> object:
    """Measure pixels and graphs on the chips held out.

    \b
    Example: roadseg evaluate --json
    """
    return _stage("evaluate").run(config, workspace, force=force)


@_stage_command(FOLD, WORKERS, SCHEDULER, ON_ERROR, *DEVICES, *LAUNCHING)
def run(config: "Config", workspace: "Workspace", *, force: bool, fold: int) -> object:
    """Run all stages in order, skipping what has not changed.

    \b
    Example: roadseg run --config roadseg.json
    """
    pipeline = importlib.import_module("roadseg.pipeline")
    return pipeline.run(config, workspace, fold=fold, force=force, say=_say)


@main.command()
@together(*DEVICES, *LAUNCHING, CONFIG, SET, JSON)
@click.option(
    "--steps", type=click.IntRange(min=1), default=4, show_default=True, help="Steps of a round."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds of each."
)
def bench(
    config_path: Path | None,
    assignments: tuple[str, ...],
    *,
    as_json: bool,
    steps: int,
    rounds: int,
    **values: Any,  # noqa: ANN401 - how to start, and where to compute
) -> None:
    """Measure training and inference here with the settings given.

    Windows a second of roadseg and of a bare loop of the same model, in turns, on noise in
    memory. No data is needed.

    \b
    Examples:
      roadseg bench --set train.batch_size=4 --set train.encoder=resnet18
      roadseg bench --ncores 8 --allocator tcmalloc
    """
    assignments += started(values)
    config = _load(config_path, assignments, required=False)
    show(_stage("bench").run(config, steps=steps, rounds=rounds), as_json=as_json)


@main.command()
@JSON
def doctor(*, as_json: bool) -> None:
    """Show versions, devices, CPU features, limits, and what could be installed for more.

    \b
    Example: roadseg doctor
    """
    summary = _stage("doctor").run()
    show(summary, as_json=as_json)
    if summary.broken:
        click.get_current_context().exit(1)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="roadseg-demo")
@JSON
def demo(folder: Path, *, as_json: bool) -> None:
    """Draw a small city, train on it, map what was held out.

    \b
    Example: roadseg demo
    """
    show(importlib.import_module("roadseg.pipeline").demo(folder, say=_say), as_json=as_json)


def _all_or_none(*values: object) -> bool:
    return len({bool(value) for value in values}) == 1


def _say(stage: str, summary: object) -> None:
    text = str(summary).replace("\n", "\n" + " " * 10)
    click.echo(f"{stage:<9} {text}", err=True)
