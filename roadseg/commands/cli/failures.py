"""Failures: an error as one line with its exit code, and a fault of the program with a report."""

import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from roadseg.commands.cli.logs import log_options, write_line
from roadseg.errors import FaultError, RoadsegError
from roadseg.system import progress

# Keys of Context.meta: the words of the command line, the config file and the run folder.
_WORDS, _CONFIG, _RUN = "roadseg.words", "roadseg.config", "roadseg.run"
_NOT_UTF_8 = "the name or the locale is not in UTF-8; rename the file, or set PYTHONUTF8=1"


def keep_words(ctx: click.Context, words: Sequence[str]) -> None:
    """Keep the words of the command line for the report of a fault."""
    ctx.meta[_WORDS] = list(words)


def word_after(ctx: click.Context, word: str) -> str:
    """Return the word after another one on the command line, or after its "="; empty if none."""
    words: list[str] = ctx.meta.get(_WORDS, [])
    for each, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = each.partition("=")
        if name == word:
            return value if equals else following
    return ""


def keep_config(path: Path | None) -> None:
    """Keep which config file a command uses, for the report of a fault."""
    if path:
        click.get_current_context().meta[_CONFIG] = path


def keep_run(folder: Path) -> None:
    """Keep which run folder a command uses, for the report of a fault."""
    click.get_current_context().meta[_RUN] = folder


def report_failure(error: BaseException, ctx: click.Context) -> int:
    """Write one line on what ended the command; return its exit code."""
    failure = _as_ours(error, ctx)
    if log_options(ctx).traceback:
        progress.erase()
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    write_line(f"Error: {' '.join(str(failure).splitlines())}\n")
    return failure.exit_code


def _as_ours(error: BaseException, ctx: click.Context) -> RoadsegError:
    """Return an error that a user can act on; for a fault of the program it names its report."""
    if isinstance(error, RoadsegError):
        return error
    # Python keeps bytes of a file name that are not UTF-8 as surrogates, which nobody can print.
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return RoadsegError(f"{error.object!a:.300}: {_NOT_UTF_8}")
    from roadseg.system.shortages import shortage

    return shortage(error) or _fault(error, ctx)


def _fault(error: BaseException, ctx: click.Context) -> FaultError:
    """Write the report of a fault into the run folder, else here; return an error that names it."""
    from roadseg.commands.cli.crash_reports import write_report

    run: Path | None = ctx.meta.get(_RUN)
    report = write_report(
        error,
        ctx.meta.get(_WORDS, ()),
        config=ctx.meta.get(_CONFIG),
        folders=[run, Path()] if run and run.is_dir() else [Path()],
    )
    fault = f"a bug in roadseg ({f'{type(error).__name__}: {error}':.300})"
    if report is None:
        return FaultError(
            f"{fault}; no report could be written, please send us the output of --traceback"
        )
    return FaultError(f"{fault}; please send us the report {report}, which contains the traceback")
