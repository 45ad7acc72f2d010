"""A group of commands: how it lists them, and how it ends when one of them fails."""

import errno
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import click

from roadseg.commands.cli.failures import WORDS, report_failure, word_after
from roadseg.commands.cli.logs import add_log_options, write_line
from roadseg.commands.cli.process import last_line
from roadseg.learn.hardware.processes import INTERRUPTED

# A word that is too much, or the first of several, as click says it.
_EXTRA = re.compile(r"Got unexpected extra argument(?: \((.+)\)|s \((\S+) )")


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click declares it
        """Return the commands in the order in which they were added."""
        return list(self.commands)


class Group(OrderedGroup):
    """A group that shows errors a user can act on as one line, with their exit code."""

    def __init__(self, *values: Any, **options: Any) -> None:  # noqa: ANN401 - as click declares it
        """Begin without commands."""
        super().__init__(*values, **options)
        self.purposes: dict[str, list[str]] = {}

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _with_setting(error, ctx) from error
        except click.UsageError as error:
            raise _with_option(error) from error
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        # An interrupt is not an error: it gets a line that says how to resume.
        except KeyboardInterrupt:
            write_line(last_line(INTERRUPTED))
            ctx.exit(INTERRUPTED)
        except SystemExit as end:
            write_line(last_line(end.code))
            raise
        except BaseException as error:
            if _is_closed_pipe(error):
                raise
            ctx.exit(report_failure(error, ctx))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; of one that is missing here, name the group that has it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            for name, group in self.commands.items():
                if args[0] in getattr(group, "commands", ()):
                    msg = f"No such command {args[0]!r}. Did you mean '{name} {args[0]}'?"
                    raise click.UsageError(msg, ctx) from error
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before a command, of which some print what they show; keep all words."""
        ctx.meta[WORDS] = list(args)
        try:
            return super().parse_args(ctx, args)
        except OSError as error:
            if _is_closed_pipe(error):
                raise
            ctx.exit(report_failure(error, ctx))

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
                add_log_options(command)
                self.purposes.setdefault(title, []).append(str(command.name))


def _with_setting(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """Return an error that names the setting of the config that an unknown option stands for."""
    from roadseg.config import keys_named

    name = error.option_name.lstrip("-").replace("-", "_")
    keys = keys_named(name)
    command = error.ctx.info_name if error.ctx else ""
    # A command is interested in the settings of its own section first.
    if name == "config":
        msg = "No such option '--config': this command reads no config"
        if command == "init":
            msg += ", it writes one; --output names that"
        return click.UsageError(msg, ctx=error.ctx)
    key = next((key for key in keys if key.startswith(f"{command}.")), keys[0] if keys else None)
    takes_settings = error.ctx and any("--set" in each.opts for each in error.ctx.command.params)
    if key is None or not takes_settings:
        return error
    value = word_after(ctx, error.option_name)
    value = "VALUE" if not value or value.startswith("--") else value
    msg = f"No such option {error.option_name!r}. It is a setting: --set {key}={value}"
    return click.UsageError(msg, ctx=error.ctx)


def _with_option(error: click.UsageError) -> click.UsageError:
    """Return an error that names the option before which a word that is too much belongs."""
    extra = _EXTRA.match(error.message)
    if not (extra and error.ctx):
        return error
    given, command = extra[1] or extra[2], error.ctx.command
    word = shlex.quote(given)
    names = {name for each in command.params for name in each.opts}
    if "--config" in names and given.endswith(".json"):
        hint = f"use --config {word}"
    elif "--images" in names:
        hint = "use --images for images, and --labels for road labels"
    elif "--run" in names:
        hint = f"to choose a run folder, use --run {word}"
    else:
        return error
    return click.UsageError(f"{error.message}; {hint}", error.ctx)


def _is_closed_pipe(error: BaseException) -> bool:
    """Return whether nobody reads the output any more; click then ends without a word."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE
