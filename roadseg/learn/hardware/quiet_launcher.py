"""Quiet launcher: PyTorch's run_cpu or torchrun without logs and tracebacks, and with exit codes.

run_cpu ends with 0 and torchrun with 1, whatever happened. This one ends as its processes did. It
is run as `python -m`, with the module of the launcher and its arguments.
"""

import itertools
import logging
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from roadseg.errors import PartnerError
from roadseg.learn.hardware.interrupts import SIGNALS
from roadseg.learn.hardware.launchers import LAST_LINES, LAUNCHED, TERMINATED

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.api import SubprocessContext

_PATIENCE_S = 3600  # Seconds for processes to save their work after a signal.
_BY_SIGNAL = 128  # Added to the number of the signal that ended a process.
_KILLED = "ERROR: a process was killed or crashed, often because memory ran out\n"

_started: list["SubprocessContext"] = []  # The processes, once they have started.


def run(module: str) -> int:
    """Run the module of a launcher with the arguments of this process.

    A signal is passed on to its processes; after a second one they are killed.

    Returns:
        The exit code of the processes, see `exit_code`.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # No traceback until torch handles it.
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.disable(logging.ERROR)
    os.environ[LAUNCHED] = str(os.getpid())
    _remember_processes()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SignalException as signalled:
        with suppress(SignalException):
            for context in _started:  # run_cpu has left them alone.
                context.close(signalled.sigval)
        code = exit_code(_ends(), received=signalled.sigval)
        sys.stderr.write(LAST_LINES.get(code, ""))
        return code
    except (ChildFailedError, subprocess.CalledProcessError):
        return exit_code(_ends()) or 1
    finally:
        # The handler of torch raises; while the interpreter ends, that shows as a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return exit_code(_ends())


def exit_code(ends: Sequence[int | None], *, received: int | None = None) -> int:
    """Return the exit code of a launch; write a line if a process was killed.

    Args:
        ends: exit codes of the processes, below 0 if a signal ended one; None if it still runs.
        received: number of the signal that was passed on to them.

    Returns:
        The exit code of a process that failed. One that lost its partners, or was terminated with
        them, counts only if there is no other.
    """
    with_others = {PartnerError.exit_code, TERMINATED, -signal.SIGTERM}
    by_signal = None if received is None else _BY_SIGNAL + received
    failures = [end for end in ends if end is not None and end > 0 and end != by_signal]
    if own := [end for end in failures if end not in with_others]:
        return own[0]
    if by_signal is not None:
        return by_signal
    if killed := [end for end in ends if end is not None and end < 0 and end not in with_others]:
        sys.stderr.write(_KILLED)
        partner = PartnerError.exit_code
        return partner if partner in failures else _BY_SIGNAL - killed[0]
    return next(iter(failures), TERMINATED if any(ends) else 0)


def _ends() -> list[int | None]:
    return [
        handler.proc.poll()
        for context in _started
        for handler in context.subprocess_handlers.values()
    ]


def _remember_processes() -> None:
    """Remember the processes of PyTorch, and let it wait for them after a first signal only."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.api import SubprocessContext

    start, close = SubprocessContext.start, SubprocessContext.close
    waiting_s = itertools.chain([_PATIENCE_S], itertools.repeat(0))

    def start_and_remember(context: SubprocessContext) -> None:
        ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
        _started.append(context)
        start(context)
        for number in ignored:  # As SIGHUP under nohup.
            signal.signal(number, signal.SIG_IGN)

    def close_patiently(
        context: SubprocessContext, death_sig: signal.Signals | None = None, timeout: int = 30
    ) -> None:
        is_signalled = isinstance(sys.exception(), SignalException)
        close(context, death_sig, next(waiting_s) if is_signalled else timeout)

    SubprocessContext.start = start_and_remember  # type: ignore[method-assign, assignment]
    SubprocessContext.close = close_patiently  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    sys.exit(run(sys.argv.pop(1)))
