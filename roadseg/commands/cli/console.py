"""Console: how every command ends: its summary, its exit code, and errors in one line."""

import contextlib
import dataclasses
import errno
import importlib
import json
import logging
import math
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO, cast

import click

from roadseg.errors import FaultError, OutputError, RoadsegError
from roadseg.learn.hardware.interrupts import is_compiling
from roadseg.learn.hardware.processes import end_now, is_watched, may_say
from roadseg.system import progress

PARTLY = 4
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_LAST_WORDS: dict[object, str] = {
    _INTERRUPTED: "interrupted; the same command continues\n",
    _TERMINATED: "terminated; the same command continues\n",
}
_STDERR = 2
_IMPORTING = "<frozen importlib._bootstrap>"  # where Python says that its imports are
_NOT_UTF_8 = "the name is not in UTF-8, or this locale is not; rename it, or set PYTHONUTF8=1"
_LOGS = "roadseg.logs"  # in Context.meta: what was said of logs
_LOG_LINE, _DATE_BYTES = re.compile(rb"\d{4}-\d\d-\d\d "), 11  # how a log file begins
_TOLD = "told"  # attribute of log records that stand on stderr
_log = logging.getLogger(__name__)
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
            _say(_last_words(_INTERRUPTED))
            ctx.exit(_INTERRUPTED)
        except SystemExit as end:
            _say(_last_words(end.code))
            raise
        except BaseException as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:  # click ends in silence
                raise
            ctx.exit(_tell(error, ctx))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before a command; keep all words for the report of a fault."""
        ctx.meta[_WORDS] = list(args)
        try:
            return super().parse_args(ctx, args)
        except OSError as error:  # of --help and --version, which write as they are read
            if error.errno == errno.EPIPE:  # click ends in silence
                raise
            ctx.exit(_tell(error, ctx))

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
                _add_logging(command)
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
    if ctx.meta.get(_LOGS, {}).get("traceback"):
        progress.erase()
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    _say(f"Error: {' '.join(str(told).splitlines())}\n")
    return told.exit_code


def _as_ours(error: BaseException, ctx: click.Context) -> RoadsegError:
    """Return an error that a user can act on; for a fault of the program it names its report."""
    if isinstance(error, RoadsegError):
        return error
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return RoadsegError(f"{error.object!a:.300}: {_NOT_UTF_8}")
    shortages = importlib.import_module("roadseg.system.shortages")
    return cast("RoadsegError | None", shortages.shortage(error)) or _fault(error, ctx)


def _fault(error: BaseException, ctx: click.Context) -> FaultError:
    run, meta = ctx.meta.get(_RUN), ctx.meta
    report = importlib.import_module("roadseg.commands.cli.crash_reports").write_report(
        error,
        meta.get(_WORDS, ()),
        config=meta.get(_CONFIG),
        folders=[run, Path()] if run and run.is_dir() else [Path()],
    )
    what = f"a fault of roadseg's own ({f'{type(error).__name__}: {error}':.300})"
    if report is None:
        return FaultError(f"{what}; no report can be written, please send us what --traceback says")
    return FaultError(f"{what}; please send us the report {report}, which has the traceback")


def _say(line: str) -> None:
    """Write a line to stderr; of processes that were started together only one says the same."""
    progress.erase()
    if line and _log.hasHandlers():  # there is none before logs are set up
        _log.error(line.removeprefix("Error: ").rstrip(), extra={_TOLD: True})
    if may_say(line):
        click.echo(line, err=True, nl=False)


def _last_words(code: object) -> str:
    """Return what is said of the signal that ended the command; empty if another process does."""
    return "" if is_watched() or not is_first() else _LAST_WORDS.get(code, "")


def _add_logging(command: click.Command) -> None:
    """Let a command, and those in it, be told of logs."""
    command.params.extend(LOGGING)
    for inner in getattr(command, "commands", {}).values():
        _add_logging(inner)


class _Logs(logging.StreamHandler[TextIO]):
    """Sends logs to stderr, each in the place of the progress that stands there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, unless it stands there."""
        if not hasattr(record, _TOLD):
            progress.erase()
            super().emit(record)


class _LogFile(logging.FileHandler):
    """Adds logs to a file that several processes may write, with time, level and process."""

    def __init__(self, path: Path) -> None:
        try:
            _refuse_other_file(path)
            super().__init__(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            if isinstance(error, RoadsegError):
                raise
            raise OutputError(f"--log {path}: cannot be written: {error.strerror}") from error
        place = f" [process {os.environ['RANK']}]" if "RANK" in os.environ else ""
        self.setFormatter(logging.Formatter(f"%(asctime)s{place} %(levelname)s: %(message)s"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's
        """Say once that the file cannot be written any more, as when the disk is full."""
        logging.getLogger().removeHandler(self)
        click.echo(f"WARNING: --log {self.baseFilename}: cannot be written any more", err=True)


def _refuse_other_file(path: Path) -> None:
    """Refuse to add logs to a file that holds something else.

    Raises:
        OutputError: if it does.
    """
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if not _LOG_LINE.match(file.read(_DATE_BYTES)):
                raise OutputError(
                    f"--log {path}: holds something else than logs; name another file"
                )


def _said_of_logs(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401
    """Add up what stands before and after the name of a command, and follow what comes after."""
    nothing = {"verbose": 0, "quiet": 0, "log": None, "traceback": False}
    said, name = ctx.meta.setdefault(_LOGS, nothing), str(parameter.name)
    said[name] = said[name] + value if name in {"verbose", "quiet"} else value or said[name]
    if value and ctx.parent:
        send_logs(ctx)


_LOGGING: dict[str, Any] = {"expose_value": False, "callback": _said_of_logs}
LOGGING = (
    click.Option(["-v", "--verbose"], count=True, help="More log lines.", **_LOGGING),
    click.Option(["-q", "--quiet"], count=True, help="Fewer log lines.", **_LOGGING),
    click.Option(
        ["--log"],
        type=click.Path(path_type=Path, dir_okay=False),
        help="File to which all log lines are added, with the time.",
        **_LOGGING,
    ),
    click.Option(
        ["--traceback"], is_flag=True, help="Show where in the program an error arose.", **_LOGGING
    ),
)


def send_logs(ctx: click.Context) -> None:
    """Send logs to stderr, as many as wished, and all of them to a file."""
    said = ctx.meta[_LOGS]
    log: Path | None = said["log"]
    level = logging.INFO - 10 * (said["verbose"] - said["quiet"] - (not is_first()))
    level = min(max(level, logging.DEBUG), logging.CRITICAL)
    shown = _Logs()
    shown.setLevel(level)
    shown.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[shown, *([_LogFile(log)] if log else [])], force=True)
    logging.getLogger("roadseg").setLevel(logging.DEBUG if log else level)
    logging.captureWarnings(capture=True)
    remarks = logging.WARNING if level < logging.INFO else logging.CRITICAL
    logging.getLogger("py.warnings").setLevel(remarks)  # what libraries say of their arithmetic
    progress.draw(wished=log is None or level <= logging.INFO)
    if log:
        _log.debug("command: %s", shlex.join(sys.argv[1:]))


def set_up() -> None:
    """Set up logs as wished, and let SIGTERM and SIGINT end the process in order."""
    send_logs(click.get_current_context())
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)  # what it logs, it also raises
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    if "LOCAL_RANK" in os.environ:
        importlib.import_module("roadseg.learn.hardware.launchers").settle()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Raise what ends the process; end it at once where that would go through an import.

    Some packages turn an exception on its way through them into another, or abort; so does
    torch where it compiles.
    """
    code = 128 + number
    if _is_importing(frame) or is_compiling(frame):
        os.write(_STDERR, _last_words(code).encode())
        end_now(code)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(code)


def _is_importing(frame: FrameType | None) -> bool:
    while frame:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


def is_first() -> bool:
    """Say whether this process is the only one, or the one of torchrun's that tells and writes."""
    return os.environ.get("RANK", "0") == "0"


def locked(
    folder: Path, command: str, values: dict[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Keep those processes out of a run folder that would disturb a command.

    Commands on images of the user's need no run folder, and of torchrun's processes the first
    holds it for all. Trainings of several folds go on beside each other, and so do shards.
    """
    if values.get("images") or not is_first():
        return _NOT_LOCKED
    lock = importlib.import_module("roadseg.system.locks").lock
    part = None
    if command == "train":
        part = f"fold-{values['fold']}"
    elif shard := values.get("shard"):
        part = "shard-{}-of-{}".format(*shard)
    alone = command in {"prepare", "split", "run"}
    return cast("contextlib.AbstractContextManager[None]", lock(folder, part=part, alone=alone))


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
