"""This process: whether it is the first of several, and what a signal does to it."""

import atexit
import gc
import io
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from roadseg.learn.hardware.interrupts import SIGNALS, frames, is_compiling
from roadseg.learn.hardware.launchers import LAST_LINES, bind_to_share, launcher_id

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
_STDERR = 2  # Its file descriptor.
_NEW_OBJECTS = 10_000  # That may come before Python looks for garbage among them; it has 700.
_IMPORTING = "<frozen importlib._bootstrap>"  # The file that Python names for the code of imports.


def is_first() -> bool:
    """Return whether this process is the only one, or the one of torchrun's that prints."""
    return os.environ.get("RANK", "0") == "0"


def last_line(code: object) -> str:
    """Return the line for an exit code that stands for a signal.

    It is empty for every other code, and where another process prints the line.
    """
    return LAST_LINES.get(code, "") if launcher_id() is None and is_first() else ""


def open_standard_streams() -> None:
    """Open standard streams that are closed, so that no file of ours takes their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - positional only
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115


def write_any_name() -> None:
    """Write letters that the character set of stdout lacks, as on Windows, with a backslash."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # As stderr does by itself.
        sys.stdout.reconfigure(errors="backslashreplace")


def look_for_garbage_rarely() -> None:
    """Let Python look for cycles of garbage after more new objects, and not when it ends.

    Imports make hundreds of thousands of objects that stay, and Python looked through all of them
    again and again, and once more at the end: 0.5 of 2.4 CPU seconds of `predict` on a small image.
    """
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(_leave_all)


def _leave_all() -> None:
    """Spare what is left a last look; but Triton's bindings would list it on stderr as leaks."""
    if "triton" not in sys.modules:
        gc.freeze()


def handle_signals() -> None:
    """Let signals to stop end the process in order, and bind a process of torchrun's."""
    for number in SIGNALS:
        # What the one that started this process ignores stays so, as SIGHUP under nohup.
        if number == signal.SIGTERM or signal.getsignal(number) in _DEFAULTS:
            signal.signal(number, _end)
    bind_to_share()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Raise the exception that ends the process, or end it at once during an import.

    Some packages turn an exception that passes through their import into another one, or abort;
    so does torch while it compiles.
    """
    code = 128 + number
    if number == getattr(signal, "SIGHUP", None):
        _leave_terminal()
    is_importing = any(each.f_code.co_filename == _IMPORTING for each in frames(frame))
    if is_importing or is_compiling(frame):
        os.write(_STDERR, last_line(code).encode())
        os._exit(code)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(code)


def _leave_terminal() -> None:
    """Let nobody read what is written from here on to a terminal that is gone."""
    nobody = os.open(os.devnull, os.O_RDWR)
    for number in (1, _STDERR):
        with suppress(OSError):
            if os.isatty(number):
                os.dup2(nobody, number)
