"""A group of commands: how it lists them, and how it ends when one of them fails.

An error becomes one line with its exit code; a fault of the program itself shows its traceback.
"""

import errno
import platform
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

import click

from roadseg.commands.cli.logs import add_log_options, log_options, write_line
from roadseg.commands.cli.process import last_line
from roadseg.errors import DataError, FaultError, OutputError, RoadsegError
from roadseg.learn.hardware.launchers import INTERRUPTED
from roadseg.system.records import versions
from roadseg.system.web.keys import without_keys

_MEMORY = (
    "out of memory: use fewer workers (--workers), or smaller batches and windows "
    "(batch_size and window_px of train or predict), or raise the memory limit"
)
_DEVICE_MEMORY = (
    "the device is out of memory: lower train.batch_size or predict.batch_size, set a smaller "
    "train.window_px or predict.window_px, choose --precision bf16, end other programs that use "
    "the device, or choose --device cpu"
)
# The errors of CUDA, ROCm, Intel's GPUs, Gaudi and Apple's GPUs.
_ON_DEVICE = re.compile(
    r"(CUDA|HIP|XPU|HPU|MPS)\b.*out of memory|PT_DEVMEM|OUT_OF_DEVICE_MEMORY|STATUS_ALLOC_FAILED",
    re.DOTALL,
)
_ON_CPU = re.compile(
    r"DefaultCPUAllocator|std::bad_alloc|Cannot allocate memory|failed to map segment"
)
# Numbers of the errors with which a system refuses a file.
_REFUSED = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG),
}


def report_failure(error: BaseException, ctx: click.Context) -> int:
    """Write what ended the command in one line, a fault with its traceback; return the code."""
    failure = _as_ours(error)
    if log_options(ctx).traceback or isinstance(failure, FaultError):
        write_line(without_keys("".join(traceback.format_exception(error))))
    write_line(f"Error: {' '.join(str(failure).splitlines())}\n")
    return failure.exit_code


def _as_ours(error: BaseException) -> RoadsegError:
    """Return an error that a user can act on, or report."""
    if isinstance(error, RoadsegError):
        return error
    # Python keeps bytes of a file name that are not UTF-8 as surrogates, which GDAL refuses.
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return DataError(f"{error.object!a:.300}: expected a name in UTF-8; rename the file")
    if failure := shortage(error):
        return failure
    installed = ", ".join(f"{name} {number}" for name, number in versions().items())
    what = without_keys(f"{type(error).__name__}: {error}")
    return FaultError(
        f"a bug in roadseg ({what:.300}); please send us this traceback, with command and config "
        f"({platform.platform()}, {installed})"
    )


def shortage(error: BaseException) -> RoadsegError | None:
    """Return an error that says what the machine lacks and what to do; None if it lacks nothing.

    Devices are known by the names and words of their libraries, so that none has to be loaded.
    """
    if isinstance(error, OSError) and error.errno in _REFUSED:
        which = error.filename2 or error.filename
        refused = f"{error.strerror}; check the free disk space and the permissions of the files"
        return OutputError(refused if which is None else f"{which!s:.500}: {refused}")
    message, kinds = str(error), {kind.__name__ for kind in type(error).__mro__}
    if "OutOfMemoryError" in kinds or _ON_DEVICE.search(message):
        return RoadsegError(_DEVICE_MEMORY)
    is_full = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if is_full or isinstance(error, MemoryError) or _ON_CPU.search(message):
        return RoadsegError(_MEMORY)
    return None


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

    def main(self, *values: Any, **options: Any) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command line; a glob reaches its command as one word, on Windows too."""
        return super().main(*values, **{"windows_expand_args": False} | options)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click declares it
        """Run the command."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _with_setting(error) from error
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
            # Nobody reads the output any more; click then ends without a word.
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
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


def _with_setting(error: click.NoSuchOption) -> click.UsageError:
    """Return an error that names the setting of the config that an unknown option stands for."""
    from roadseg.config import keys_named

    keys = keys_named(error.option_name.lstrip("-").replace("-", "_"))
    command = error.ctx.info_name if error.ctx else ""
    # A command is interested in the settings of its own section first.
    key = next((key for key in keys if key.startswith(f"{command}.")), keys[0] if keys else None)
    takes_settings = error.ctx and any("--set" in each.opts for each in error.ctx.command.params)
    if key is None or not takes_settings:
        return error
    msg = f"No such option {error.option_name!r}. It is a setting: --set {key}=VALUE"
    return click.UsageError(msg, ctx=error.ctx)


def _with_option(error: click.UsageError) -> click.UsageError:
    """Return an error that names the option before which a word that is too much belongs."""
    if not (error.ctx and "unexpected extra argument" in error.message):
        return error
    options = {name for each in error.ctx.command.params for name in each.opts}
    if "--images" in options:
        hint = "use --images for images, and --labels for road labels"
    elif "--run" in options:
        hint = "use --run for a run folder, and --config for a config"
    else:
        return error
    return click.UsageError(f"{error.message}; {hint}", error.ctx)
