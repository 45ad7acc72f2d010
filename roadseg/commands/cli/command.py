"""A command on a run folder: made of a function that takes config, workspace and options."""

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from roadseg.commands.cli.console import PARTLY, locked, note, show
from roadseg.commands.cli.options import (
    CONFIG,
    DRY_RUN,
    FORCE,
    JSON,
    RUN,
    SET,
    Command,
    Option,
    started,
    together,
)

if TYPE_CHECKING:
    from roadseg.config import Config


def stage_command(
    *options: Option, needs_config: bool = True
) -> Callable[[Command], click.Command]:
    """Make a command of a function that takes config, workspace and options, returns a summary.

    It is also told what to `do`: "run", or "plan" with --dry-run. A command that needs no config
    takes the defaults where there is none.
    """

    def decorate(function: Command) -> click.Command:
        @functools.wraps(function)
        def command(
            config_path: Path | None,
            assignments: tuple[str, ...],
            run_folder: Path | None,
            *,
            dry_run: bool,
            as_json: bool,
            **values: Any,  # noqa: ANN401 - the options of this command
        ) -> None:
            assignments += started(values, start=not dry_run)
            required = needs_config and not values.get("images")
            config = load(config_path, assignments, required=required)
            folder = run_folder or config.run
            note(run=folder)
            workspace = importlib.import_module("roadseg.system.workspace").Workspace(folder)
            if dry_run:
                show(function(config, workspace, do="plan", **values), as_json=as_json)
                return
            with locked(folder, function.__name__, values):
                summary = function(config, workspace, do="run", **values)
            show(summary, as_json=as_json)
            if getattr(summary, "failed", None):
                click.get_current_context().exit(PARTLY)

        shared = (CONFIG, SET, RUN, FORCE, DRY_RUN, JSON)
        return click.command()(together(*options, *shared)(command))

    return decorate


def load(
    config_path: Path | None, assignments: tuple[str, ...], *, required: bool = True
) -> "Config":
    """Read the config that a command was given, or that it finds."""
    module = importlib.import_module("roadseg.config")
    path = module.find_config(config_path, required=required)
    note(config=path)
    return cast("Config", module.load_config(path, assignments))


def call(name: str, do: str, *values: object, **options: object) -> object:
    """Call a function of a stage: "run" or "plan", "run_images" or "plan_images"."""
    return getattr(stage(name), do)(*values, **options)


def stage(name: str) -> ModuleType:
    """Import a stage when it is needed, and not before."""
    return importlib.import_module(f"roadseg.commands.stages.{name}")


def tool(name: str) -> ModuleType:
    """Import a tool when it is needed, and not before."""
    return importlib.import_module(f"roadseg.commands.tools.{name}")
