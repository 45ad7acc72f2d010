"""Failures: an error as one line with its exit code, and a fault of the program with a report."""

import errno
import os
import platform
import re
import shlex
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from pathlib import Path

import click

from roadseg.commands.cli.logs import log_options, write_line
from roadseg.errors import FaultError, OutputError, RoadsegError
from roadseg.system import progress
from roadseg.system.files import atomic_write
from roadseg.system.web.keys import without_keys

# Keys of Context.meta under which commands keep what the report of a fault names: the words of the
# command line, the config file and the run folder.
WORDS, CONFIG_FILE, RUN_FOLDER = "roadseg.words", "roadseg.config", "roadseg.run"
_NOT_UTF_8 = "the name or the locale is not in UTF-8; rename the file, or set PYTHONUTF8=1"
_LARGEST_CONFIG = 2**20  # Characters; the rest of a larger config is left out.
# Variables whose names begin so decide how a command runs; none of them is a secret.
_VARIABLES = (
    *("ROADSEG_", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_", "PT_HPU_", "LC_"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "LANG"),
    *("LD_PRELOAD", "MALLOC_CONF", "PYTHONPATH", "PYTHONUTF8", "GDAL_CACHEMAX", "TMPDIR"),
)
_HEAD = """\
This is a bug in roadseg. Please send us this file, so that we can fix it. It contains the command
line and the config as you typed them: check it for anything that others should not see.
"""
_MEMORY = (
    "out of memory: use fewer workers (--workers), or smaller batches and windows "
    "(batch_size and window_px of train or predict)"
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
_ON_CPU = re.compile(r"DefaultCPUAllocator|std::bad_alloc|Cannot allocate memory")
# Numbers of the errors with which a system refuses a file.
_REFUSED = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG),
}


def word_after(ctx: click.Context, word: str) -> str:
    """Return the word after another one on the command line, or after its "="; empty if none."""
    words: list[str] = ctx.meta.get(WORDS, [])
    for each, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = each.partition("=")
        if name == word:
            return value if equals else following
    return ""


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
    return shortage(error) or _fault(error, ctx)


def _fault(error: BaseException, ctx: click.Context) -> FaultError:
    """Write the report of a fault into the run folder, else here; return an error that names it."""
    run: Path | None = ctx.meta.get(RUN_FOLDER)
    report = write_report(
        error,
        ctx.meta.get(WORDS, ()),
        config=ctx.meta.get(CONFIG_FILE),
        folders=[run, Path()] if run and run.is_dir() else [Path()],
    )
    fault = f"a bug in roadseg ({f'{type(error).__name__}: {error}':.300})"
    if report is None:
        return FaultError(
            f"{fault}; no report could be written, please send us the output of --traceback"
        )
    return FaultError(f"{fault}; please send us the report {report}, which contains the traceback")


def write_report(
    error: BaseException, words: Sequence[str], *, config: Path | None, folders: Iterable[Path]
) -> Path | None:
    """Write what is known of an error into the first folder that takes it.

    Args:
        words: the command line, after the program.
        folders: where it may go; the folder for temporary files is the last resort.

    Returns:
        The file; None if no folder takes it.
    """
    text = without_keys(_text(error, words, config))
    name = f"roadseg-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in filter(Path.is_dir, (*folders, Path(tempfile.gettempdir()))):
        try:
            path = folder.absolute() / name
            with atomic_write(path) as partial:
                partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        except (OSError, ValueError):
            continue
        return path
    return None


def _text(error: BaseException, words: Sequence[str], config: Path | None) -> str:
    packages = {f"{package.name} {package.version}" for package in distributions()}
    parts = {
        "Command": shlex.join(["roadseg", *words]),
        "Error": "".join(traceback.format_exception(error)),
        "Config": _config(config),
        "Machine": f"{platform.platform()}, {os.cpu_count()} CPUs",
        "Variables": "\n".join(
            f"{key}={value}"
            for key, value in sorted(os.environ.items())
            if key.startswith(_VARIABLES)
        ),
        "Versions": "\n".join([f"Python {platform.python_version()}", *sorted(packages)]),
    }
    return _HEAD + "".join(f"\n{title}\n{text or 'none'}\n" for title, text in parts.items())


def _config(path: Path | None) -> str:
    """Return path and text of the config, or why it cannot be read."""
    if path is None:
        return ""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return f"{path}\n{file.read(_LARGEST_CONFIG)}"
    except (OSError, ValueError) as error:
        return f"{path}: {error}"


def shortage(error: BaseException) -> RoadsegError | None:
    """Return an error that says what the machine lacks and what to do; None if it lacks nothing.

    Devices are known by the names and words of their libraries, so that none has to be loaded.
    """
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return OutputError(_refusal(error))
    message, kinds = str(error), {kind.__name__ for kind in type(error).__mro__}
    if "OutOfMemoryError" in kinds or _ON_DEVICE.search(message):
        return RoadsegError(_DEVICE_MEMORY)
    is_full = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if is_full or isinstance(error, MemoryError) or _ON_CPU.search(message):
        return RoadsegError(_MEMORY)
    return None


def _refusal(error: OSError) -> str:
    """Return what the system refused, and of which file."""
    which = error.filename2 or error.filename
    message = f"{error.strerror}; check the free disk space and the permissions of the files"
    return message if which is None else f"{which!s:.500}: {message}"
