"""Console: how every command ends: its summary, its exit code, and errors in one line."""

import contextlib
import dataclasses
import importlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn, cast

import click

from roadseg.errors import RoadsegError

PARTLY = 4
_INTERRUPTED = 130
_TERMINATED = 143
_NOT_LOCKED = contextlib.nullcontext()


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
        except SystemExit as end:
            if end.code == _TERMINATED:
                click.echo("terminated; the same command continues", err=True)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click declares it
        """Return the commands in the order in which they are used."""
        return list(self.commands)


def set_up(*, verbosity: int) -> None:
    """Send logs to stderr, and let SIGTERM end the process in order."""
    quieter = 0 if is_first() else 1
    level = logging.INFO - 10 * (verbosity - quieter)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s: %(message)s")
    logging.getLogger("roadseg").setLevel(min(max(level, logging.DEBUG), logging.CRITICAL))
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)  # what it logs, it also raises
    signal.signal(signal.SIGTERM, _terminate)
    if "LOCAL_RANK" in os.environ:
        importlib.import_module("roadseg.learn.launchers").settle()


def _terminate(*_: object) -> NoReturn:
    sys.exit(_TERMINATED)


def is_first() -> bool:
    """Say whether this process is the only one, or the one of torchrun's that tells and writes."""
    return os.environ.get("RANK", "0") == "0"


def locked(
    folder: Path, command: str, values: dict[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Keep those processes out of a run folder that would disturb a command.

    Commands on images of the user's need no run folder, and of torchrun's processes the first
    holds it for all.
    """
    if values.get("images") or not is_first():
        return _NOT_LOCKED
    lock = importlib.import_module("roadseg.io.locks").lock
    fold = values["fold"] if command == "train" else None
    alone = command in {"prepare", "split", "run"}
    return cast("contextlib.AbstractContextManager[None]", lock(folder, fold=fold, alone=alone))


def show(summary: Any, *, as_json: bool) -> None:  # noqa: ANN401 - any stage's summary
    """Print the summary of a command, unless another process does."""
    if is_first():
        click.echo(
            json.dumps(dataclasses.asdict(summary), default=str) if as_json else str(summary)
        )


def say(stage: str, summary: object) -> None:
    """Tell on stderr what one stage of several did."""
    text = str(summary).replace("\n", "\n" + " " * 10)
    click.echo(f"{stage:<9} {text}", err=True)
