"""roadseg on the command line: read options, call one stage, show its summary."""

import contextlib
import dataclasses
import functools
import importlib
import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click

from roadseg.errors import RoadsegError

if TYPE_CHECKING:
    from roadseg.settings import Config
    from roadseg.workspace import Workspace

_PARTLY = 4
_INTERRUPTED = 130
_TERMINATED = 143
_Command = Callable[..., Any]
_Option = Callable[[_Command], _Command]


class Group(click.Group):
    """A group that shows errors a user can act on as one line, with their exit code."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command."""
        try:
            return super().invoke(ctx)
        except RoadsegError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted; the same command continues", err=True)
            ctx.exit(_INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click declares it
        """Return the commands in the order in which they are used."""
        return list(self.commands)


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
    level = min(max(logging.INFO - 10 * (verbose - quiet), logging.DEBUG), logging.CRITICAL)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s: %(message)s")
    logging.getLogger("roadseg").setLevel(level)
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)  # what it logs, it also raises
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(*_: object) -> NoReturn:
    sys.exit(_TERMINATED)


_CONFIG = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Config file; else ROADSEG_CONFIG, else ./roadseg.json.",
)
_SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Change one setting for this command; may be repeated.",
)
_RUN = click.option(
    "--run",
    "run_folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Run folder; else `run` of the config.",
)
_FORCE = click.option("--force", is_flag=True, help="Do it again even if nothing changed.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_FOLD = click.option(
    "--fold", type=click.IntRange(min=0), default=0, show_default=True, help="Fold held out."
)
_OUTPUT = click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder for their results."
)


_WORKERS = click.option(
    "--workers", type=click.IntRange(min=0), help="Processes to use; else compute.workers."
)
_SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="Dask scheduler to use instead, such as tcp://host:8786."
)
_ON_ERROR = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    help="A scene that cannot be used stops the command, or is skipped (exit code 4).",
)
_COMPUTE = ("workers", "scheduler", "on_error")


def _stage_command(*options: _Option) -> Callable[[_Command], click.Command]:
    """Make a command of a function that takes config, workspace and options, returns a summary."""

    def decorate(function: _Command) -> click.Command:
        @functools.wraps(function)
        def command(
            config_path: Path | None,
            assignments: tuple[str, ...],
            run_folder: Path | None,
            *,
            as_json: bool,
            **values: Any,  # noqa: ANN401 - the options of this command
        ) -> None:
            given = {key: values.pop(key, None) for key in _COMPUTE}
            assignments += tuple(f"compute.{k}={v}" for k, v in given.items() if v is not None)
            config = _load(config_path, assignments, required=not values.get("images"))
            folder = run_folder or config.run
            workspace = importlib.import_module("roadseg.workspace").Workspace(folder)
            with _locked(None if values.get("images") else folder):
                summary = function(config, workspace, **values)
            _show(summary, as_json=as_json)
            if getattr(summary, "failed", None):
                click.get_current_context().exit(_PARTLY)

        with_options: Any = command
        for option in (_JSON, _FORCE, _RUN, _SET, _CONFIG, *reversed(options)):
            with_options = option(with_options)
        return main.command()(cast("_Command", with_options))

    return decorate


def _locked(folder: Path | None) -> contextlib.AbstractContextManager[None]:
    """Keep other processes out of a run folder."""
    if folder is None:
        return contextlib.nullcontext()
    lock = importlib.import_module("roadseg.io.locks").lock(folder)
    return cast("contextlib.AbstractContextManager[None]", lock)


def _load(
    config_path: Path | None, assignments: tuple[str, ...], *, required: bool = True
) -> "Config":
    module = importlib.import_module("roadseg.config")
    path = module.find_config(config_path, required=required)
    return cast("Config", module.load_config(path, assignments))


def _stage(name: str) -> ModuleType:
    return importlib.import_module(f"roadseg.stages.{name}")


def _show(summary: Any, *, as_json: bool) -> None:  # noqa: ANN401 - any stage's summary
    click.echo(json.dumps(dataclasses.asdict(summary), default=str) if as_json else str(summary))


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
@_SET
@_JSON
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
    _show(summary, as_json=as_json)


@main.group()
def config() -> None:
    """Check, show or describe the config.

    \b
    Example: roadseg config show
    """


@config.command()
@_CONFIG
@_SET
def check(config_path: Path | None, assignments: tuple[str, ...]) -> None:
    """Say whether the config can be used, without running anything.

    \b
    Example: roadseg config check --config roadseg.json
    """
    _load(config_path, assignments)
    click.echo("every key and value of the config can be used")


@config.command()
@_CONFIG
@_SET
def show(config_path: Path | None, assignments: tuple[str, ...]) -> None:
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


@_stage_command(_WORKERS, _SCHEDULER, _ON_ERROR)
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


@_stage_command(_FOLD)
def train(config: "Config", workspace: "Workspace", *, force: bool, fold: int) -> object:
    """Train on all folds but one, and validate on that one.

    An interrupted training continues with the same command.

    \b
    Example: roadseg train --fold 0 --set train.epochs=10
    """
    return _stage("train").run(config, workspace, fold=fold, force=force)


@_stage_command(
    _FOLD,
    click.option(
        "--checkpoint",
        type=click.Path(path_type=Path, file_okay=False),
        help="Checkpoint folder to predict IMAGES with.",
    ),
    _OUTPUT,
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


@_stage_command(_OUTPUT, click.argument("images", nargs=-1))
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


@_stage_command(_FOLD, _WORKERS, _SCHEDULER, _ON_ERROR)
def run(config: "Config", workspace: "Workspace", *, force: bool, fold: int) -> object:
    """Run all stages in order, skipping what has not changed.

    \b
    Example: roadseg run --config roadseg.json
    """
    pipeline = importlib.import_module("roadseg.pipeline")
    return pipeline.run(config, workspace, fold=fold, force=force, say=_say)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="roadseg-demo")
@_JSON
def demo(folder: Path, *, as_json: bool) -> None:
    """Draw a small city, train on it, map what was held out.

    \b
    Example: roadseg demo
    """
    _show(importlib.import_module("roadseg.pipeline").demo(folder, say=_say), as_json=as_json)


def _all_or_none(*values: object) -> bool:
    return len({bool(value) for value in values}) == 1


def _say(stage: str, summary: object) -> None:
    text = str(summary).replace("\n", "\n" + " " * 10)
    click.echo(f"{stage:<9} {text}", err=True)
