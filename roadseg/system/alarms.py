"""Alarms: end a block of Python that takes too long."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TimeoutError if a block of Python takes more CPU time than a number of seconds.

    Only the main thread can do this; elsewhere, and where there are no such timers, the block
    takes what it takes.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return
    # The virtual timer counts CPU time, so a slow disk or a busy machine does not ring.
    before = signal.signal(signal.SIGVTALRM, _ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _ring(*_: object) -> NoReturn:
    raise TimeoutError
