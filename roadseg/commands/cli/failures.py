"""Failures: an error as one line with its exit code, for a fault of the program its traceback."""

import errno
import platform
import re
import traceback

import click

from roadseg.commands.cli.logs import log_options, write_line
from roadseg.errors import FaultError, OutputError, RoadsegError
from roadseg.system.records import versions
from roadseg.system.web.keys import without_keys

WORDS = "roadseg.words"  # Key of Context.meta under which the words of the command line are kept.
_NOT_UTF_8 = "the name or the locale is not in UTF-8; rename the file, or set PYTHONUTF8=1"
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
    # Python keeps bytes of a file name that are not UTF-8 as surrogates, which nobody can print.
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return RoadsegError(f"{error.object!a:.300}: {_NOT_UTF_8}")
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
