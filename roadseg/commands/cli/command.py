"""Commands on a run folder, made of functions; what commands print when they are done."""

import contextlib
import dataclasses
import functools
import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roadseg.commands.cli.options import (
    CONFIG,
    DRY_RUN,
    FORCE,
    JSON,
    RUN,
    SET,
    Command,
    Option,
    take_settings,
    together,
)
from roadseg.commands.cli.process import is_first
from roadseg.system.units import choose_units

if TYPE_CHECKING:
    from roadseg.config import Config

_log = logging.getLogger(__name__)

PARTLY = 4  # Exit code of a command that skipped scenes that failed.
_ALONE = ("prepare", "split", "run")  # Commands beside which no other may use the run folder.


def stage_command(
    *options: Option, needs_config: bool = True
) -> Callable[[Command], click.Command]:
    """Make a command of a function that takes config, workspace and options, returns a summary.

    The function is also passed whether this is a dry run. A command that needs no config takes the
    defaults where there is none.
    """

    def decorate(function: Command) -> click.Command:
        @functools.wraps(function)
        def command(
            config_path: Path | None,
            assignments: tuple[str, ...],
            run_folder: Path | None,
            *,
            dry_run: bool,
            **values: Any,  # noqa: ANN401 - the options of this command
        ) -> object:
            from roadseg.system.workspace import Workspace

            # If the command is to be restarted, this call starts it and does not return.
            assignments += take_settings(values, start=not dry_run)
            required = needs_config and not values.get("images")
            config = load(config_path, assignments, run_folder, required=required)
            folder = run_folder or config.run
            workspace = Workspace(folder)
            if required:
                from roadseg.commands.stages.declared_stages import refuse_map

                refuse_map(config, workspace)
            lock = contextlib.nullcontext() if dry_run else _lock(folder, function, values)
            with lock:
                # Shards are many, and each would read all images and labels for this.
                is_apart = values.get("images") or values.get("shard")
                if is_first() and not is_apart:
                    from roadseg.commands.stages.declared_stages import outdated_before

                    fold = values.get("fold")
                    if told := outdated_before(function.__name__, config, workspace, fold):
                        _log.info("%s", told)
                return function(config, workspace, dry_run=dry_run, **values)

        shared = (CONFIG, SET, RUN, FORCE, DRY_RUN, shown)
        return click.command()(together(*options, *shared)(command))

    return decorate


def shown(function: Command) -> Command:
    """Print the summary that a command returns, with --json as JSON; skipped scenes are told."""

    @JSON
    @functools.wraps(function)
    def command(*, as_json: bool, **values: Any) -> None:  # noqa: ANN401 - of the command
        summary = function(**values)
        show(summary, as_json=as_json)
        if getattr(summary, "failed", None):
            click.get_current_context().exit(PARTLY)

    return command


def _lock(
    folder: Path, function: Command, values: dict[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Lock a run folder against those processes that would disturb a command.

    Commands on images of the user's need no run folder, and of torchrun's processes the first holds
    the lock for all. Trainings of several folds run in parallel, and so do shards; a
    cross-validation runs alone.
    """
    if values.get("images") or not is_first():
        return contextlib.nullcontext()
    name = function.__name__
    part = None
    is_alone = name in _ALONE or (name == "train" and values["fold"] == "each")
    if name == "train" and not is_alone:
        part = f"fold-{values['fold']}"
    elif shard := values.get("shard"):
        part = "shard-{}-of-{}".format(*shard)
    from roadseg.system.locks import lock

    return lock(folder, part=part, alone=is_alone)


def load(
    config_path: Path | None,
    assignments: tuple[str, ...],
    run_folder: Path | None = None,
    *,
    required: bool = True,
) -> "Config":
    """Read the config that a command was given, or that it finds: first in its run folder."""
    from roadseg.config import find_config, load_config

    path = find_config(config_path, run_folder, required=required)
    _log.debug("config: %s", path or "the defaults")
    config = load_config(path, assignments)
    choose_units(config.compute.units)
    return config


def require_images(images: tuple[str, ...]) -> None:
    """Refuse files that are not there before torch is loaded, which takes seconds."""
    if files := [image for image in images if "://" not in image]:
        from roadseg.raster.inputs import image_paths

        image_paths(files)


def show(summary: Any, *, as_json: bool) -> None:  # noqa: ANN401 - any stage's summary
    """Print the summary of a command, unless another process does."""
    if is_first():
        click.echo(json_text(dataclasses.asdict(summary)) if as_json else str(summary))


def announce(stage: str, summary: object) -> None:
    """Print on stderr what one stage of several did."""
    text = str(summary).replace("\n", "\n" + " " * 10)
    click.echo(f"{stage:<9} {text}", err=True)


def json_text(value: object) -> str:
    """Return a value as JSON that every reader takes: no NaN or infinity, and paths as text."""
    return json.dumps(_finite(value), default=str, allow_nan=False)


def _finite(value: object) -> object:
    """Return a value with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
