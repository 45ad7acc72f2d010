"""Console: how every command ends: its summary, its exit code, and errors in one line."""

import contextlib
import dataclasses
import errno
import importlib
import json
import logging
import math
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

import click

from roadseg.errors import FaultError, RoadsegError
from roadseg.io import progress

PARTLY = 4
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_LAST_WORDS = {
    _INTERRUPTED: "interrupted; the same command continues",
    _TERMINATED: "terminated; the same command continues",
}
_STDERR = 2
_IMPORTING = "<frozen importlib._bootstrap>"  # where Python says that its imports are
_NOT_UTF_8 = "the name is not in UTF-8, or this locale is not; rename it, or set PYTHONUTF8=1"
_NOT_LOCKED = contextlib.nullcontext()
_WORDS, _CONFIG, _RUN = "roadseg.words", "roadseg.config", "roadseg.run"  # in Context.meta


class Group(click.Group):
    """A group that shows errors a user can act on as one line, with their exit code."""

    def __init__(self, *values: Any, **options: Any) -> None:  # noqa: ANN401 - as click declares it
        """Begin without commands."""
        super().__init__(*values, **options)
        self.purposes: dict[str, list[str]] = {}

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            progress.erase()
            click.echo(_LAST_WORDS[_INTERRUPTED], err=True)
            ctx.exit(_INTERRUPTED)
        except SystemExit as end:
            if end.code == _TERMINATED:
                click.echo(_LAST_WORDS[_TERMINATED], err=True)
            raise
        except BaseException as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # click ends in silence
                raise
            ctx.exit(_tell(error, ctx))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before a command; keep all words for the report of a fault."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under what they are for."""
        width = max(map(len, self.commands))
        for title, names in self.purposes.items():
            rows = [(f"{n:<{width}}", self.commands[n].get_short_help_str(75)) for n in names]
            with formatter.section(title):
                formatter.write_dl(rows)
        if not self.purposes:
            super().format_commands(ctx, formatter)

    def add_commands(self, purposes: Mapping[str, Iterable[click.Command]]) -> None:
        """Add commands, by what they are for, in the order in which they are used."""
        for title, commands in purposes.items():
            for command in commands:
                self.add_command(command)
                self.purposes.setdefault(title, []).append(str(command.name))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click declares it
        """Return the commands in the order in which they are used."""
        return list(self.commands)


def note(*, config: Path | None = None, run: Path | None = None) -> None:
    """Keep which config and run folder a command uses, for the report of a fault."""
    meta = click.get_current_context().meta
    meta.update({key: path for key, path in ((_CONFIG, config), (_RUN, run)) if path})


def _tell(error: BaseException, ctx: click.Context) -> int:
    """Say in one line what ended the command; return its exit code."""
    told = _as_ours(error, ctx)
    progress.erase()
    if ctx.params.get("traceback"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    click.echo(f"Error: {' '.join(str(told).splitlines())}", err=True)
    return told.exit_code


def _as_ours(error: BaseException, ctx: click.Context) -> RoadsegError:
    """Return an error that a user can act on; for a fault of the program it names its report."""
    if isinstance(error, RoadsegError):
        return error
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return RoadsegError(f"{error.object!a:.300}: {_NOT_UTF_8}")
    shortages = importlib.import_module("roadseg.io.shortages")
    return cast("RoadsegError | None", shortages.shortage(error)) or _fault(error, ctx)


def _fault(error: BaseException, ctx: click.Context) -> FaultError:
    run, meta = ctx.meta.get(_RUN), ctx.meta
    report = importlib.import_module("roadseg.io.crash_reports").write_report(
        error,
        meta.get(_WORDS, ()),
        config=meta.get(_CONFIG),
        folders=[run, Path()] if run and run.is_dir() else [Path()],
    )
    what = f"a fault of roadseg's own ({f'{type(error).__name__}: {error}':.300})"
    if report is None:
        return FaultError(f"{what}; no report can be written, please send us what --traceback says")
    return FaultError(f"{what}; please send us the report {report}, which has the traceback")


class _Logs(logging.StreamHandler[TextIO]):
    """Sends logs to stderr, each in the place of the progress that stands there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        progress.erase()
        super().emit(record)


def set_up(*, verbosity: int) -> None:
    """Send logs to stderr, and let SIGTERM and SIGINT end the process in order."""
    quieter = 0 if is_first() else 1
    level = logging.INFO - 10 * (verbosity - quieter)
    logging.basicConfig(handlers=[_Logs()], format="%(levelname)s: %(message)s")
    logging.getLogger("roadseg").setLevel(min(max(level, logging.DEBUG), logging.CRITICAL))
    logging.captureWarnings(capture=True)
    remarks = logging.WARNING if verbosity > quieter else logging.CRITICAL
    logging.getLogger("py.warnings").setLevel(remarks)  # what libraries say of their arithmetic
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)  # what it logs, it also raises
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    if "LOCAL_RANK" in os.environ:
        importlib.import_module("roadseg.learn.launchers").settle()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Raise what ends the process; end it at once where that would go through an import.

    Some packages turn an exception on its way through them into another, or abort.
    """
    code = 128 + number
    while frame:
        if frame.f_code.co_filename == _IMPORTING:
            os.write(_STDERR, f"{_LAST_WORDS[code]}\n".encode())
            os._exit(code)
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(code)


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
        click.echo(json_text(dataclasses.asdict(summary)) if as_json else str(summary))


def json_text(value: object) -> str:
    """Write a value as JSON that every reader takes: no NaN or infinity, and paths as text."""
    return json.dumps(_finite(value), default=str, allow_nan=False)


def _finite(value: object) -> object:
    """Return a value with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def say(stage: str, summary: object) -> None:
    """Tell on stderr what one stage of several did."""
    text = str(summary).replace("\n", "\n" + " " * 10)
    click.echo(f"{stage:<9} {text}", err=True)
