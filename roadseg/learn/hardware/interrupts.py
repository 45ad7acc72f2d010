"""Interrupts: a signal to stop waits until the work in hand can be kept."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP.
SIGNALS = tuple(signal.Signals[name] for name in _NAMES if hasattr(signal, name))
_COMPILING = {"_compile_inner", "compile_fx_inner"}  # Functions of torch that compile a network.


class Stop:
    """A request to stop this process once all is saved."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self.signal: int | None = None

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    def leave(self) -> NoReturn:
        """End as the signal would have done: KeyboardInterrupt, or exit code 143 or 129.

        A process that was not asked itself, but whose partners were, ends like a terminated one.
        """
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or signal.SIGTERM))


@contextmanager
def postponed() -> Iterator[Stop]:
    """Postpone signals to stop; a second one stops at once.

    The first one is, too, while a network is compiled, which may take minutes. What is ignored, as
    SIGHUP under nohup, stays so.

    Only the main thread can do this; elsewhere the signals act as before.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = {
        number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN
    }

    def note(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        _restore(before)
        handler = signal.getsignal(number)
        if callable(handler) and is_compiling(frame):
            handler(number, frame)

    try:
        for number in before:
            signal.signal(number, note)
        yield stop
    finally:
        _restore(before)


def is_compiling(frame: FrameType | None) -> bool:
    """Return whether torch compiles a network in a frame or in one that called it."""
    return any(each.f_code.co_name in _COMPILING for each in frames(frame))


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it."""
    while frame:
        yield frame
        frame = frame.f_back


def ignore_signals() -> None:
    """Leave stopping to the process that started this one, which the terminal signals as well."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _restore(handlers: Mapping[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
