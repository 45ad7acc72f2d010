"""Logs: how many lines of them stderr shows, and a file that takes all of them."""

import logging
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click

from roadseg.commands.cli.process import is_first
from roadseg.errors import OutputError, RoadsegError
from roadseg.learn.hardware.launchers import is_first_to_write
from roadseg.system import progress
from roadseg.system.web.keys import without_keys

_OPTIONS = "roadseg.logs"  # Key of Context.meta under which the log options are kept.
_LOG_LINE, _DATE_BYTES = re.compile(rb"\d{4}-\d\d-\d\d "), 11  # Every log file begins with a date.
_IS_ON_STDERR = "is_on_stderr"  # Attribute of log records whose line stderr shows already.
_log = logging.getLogger(__name__)


@dataclass
class LogOptions:
    """Options of logs on the command line, before and after the name of a command.

    Attributes:
        verbose: how many levels more than INFO are shown.
        quiet: how many levels fewer.
        log: file to which all lines are added.
        traceback: whether an error shows its traceback.
    """

    verbose: int = 0
    quiet: int = 0
    log: Path | None = None
    traceback: bool = False


def log_options(ctx: click.Context) -> LogOptions:
    """Return the log options that were read so far."""
    options: LogOptions = ctx.meta.setdefault(_OPTIONS, LogOptions())
    return options


def _keep_option(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401
    """Add an option to those before the name of the command, and follow it if it comes after."""
    options = log_options(ctx)
    if parameter.name == "verbose":
        options.verbose += value
    elif parameter.name == "quiet":
        options.quiet += value
    elif parameter.name == "log":
        options.log = value or options.log
    else:
        options.traceback = value or options.traceback
    if value and ctx.parent:
        send_logs(ctx)


def _option(*words: str, **how: Any) -> click.Option:  # noqa: ANN401 - of click.Option
    return click.Option(words, expose_value=False, callback=_keep_option, **how)


LOGGING = (
    _option("-v", "--verbose", count=True, help="More log lines."),
    _option("-q", "--quiet", count=True, help="Fewer log lines."),
    _option(
        "--log",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Append all log lines to this file, with the time.",
    ),
    _option("--traceback", is_flag=True, help="Show the Python traceback of an error."),
)


def add_log_options(command: click.Command) -> None:
    """Give a command, and those in it, the options of logs."""
    command.params.extend(LOGGING)
    for inner in getattr(command, "commands", {}).values():
        add_log_options(inner)


def send_logs(ctx: click.Context) -> None:
    """Send logs to stderr, as many as the options say, and all of them to a file."""
    options = log_options(ctx)
    level = logging.INFO - 10 * (options.verbose - options.quiet - (not is_first()))
    level = min(max(level, logging.DEBUG), logging.CRITICAL)
    shown = _StderrHandler()
    shown.setLevel(level)
    shown.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    files = [_LogFile(options.log)] if options.log else []
    logging.basicConfig(handlers=[shown, *files], force=True)
    logging.getLogger("roadseg").setLevel(logging.DEBUG if options.log else level)
    logging.captureWarnings(capture=True)
    # Warnings of libraries, as of their arithmetic and caches, are shown with --verbose alone.
    of_libraries = logging.WARNING if level < logging.INFO else logging.CRITICAL
    for name in ("py.warnings", "matplotlib"):
        logging.getLogger(name).setLevel(of_libraries)
    # rasterio also raises what it logs.
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)
    progress.draw(
        enabled=options.log is None or level <= logging.INFO,
        as_json=os.environ.get("ROADSEG_PROGRESS") == "json",
    )
    if options.log:
        _log.debug("command: %s", without_keys(shlex.join(sys.argv[1:])))


def write_line(line: str) -> None:
    """Write a line to stderr and the log file.

    Of processes that were started together only the first one writes the same line to stderr.
    """
    progress.erase()
    if line and _log.hasHandlers():  # An error of the options comes before there are handlers.
        _log.error(line.removeprefix("Error: ").rstrip(), extra={_IS_ON_STDERR: True})
    if is_first_to_write(line):
        click.echo(line, err=True, nl=False)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Sends logs to stderr, each in the place of the progress that stands there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, unless it stands there."""
        if not hasattr(record, _IS_ON_STDERR):
            progress.erase()
            super().emit(record)


class _LogFile(logging.FileHandler):
    """Adds logs to a file that several processes may write, with time, level and process."""

    def __init__(self, path: Path) -> None:
        try:
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    if not _LOG_LINE.match(file.read(_DATE_BYTES)):
                        raise OutputError(f"--log {path}: is not a log file; name another file")
            super().__init__(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            if isinstance(error, RoadsegError):
                raise
            raise OutputError(f"--log {path}: cannot be written: {error.strerror}") from error
        rank = f" [process {os.environ['RANK']}]" if "RANK" in os.environ else ""
        self.setFormatter(logging.Formatter(f"%(asctime)s{rank} %(levelname)s: %(message)s"))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's
        """Warn once that the file cannot be written any more, as when the disk is full."""
        logging.getLogger().removeHandler(self)
        click.echo(f"WARNING: --log {self.baseFilename}: can no longer be written", err=True)
