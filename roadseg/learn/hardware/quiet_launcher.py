"""Quiet launcher: one without logs and tracebacks; what it starts says itself how it ended."""

import logging
import runpy
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous.api import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousTimeoutError,
)

from roadseg.errors import PartnerError
from roadseg.learn.hardware.hosts import AGAIN, unreachable

# Options of torchrun.
_ENDPOINT, _HOSTS, _SETTINGS = "--rdzv-endpoint", "--nnodes", "--rdzv-conf"
_IS_GUEST = "is_host=False"  # Setting of a host that is not the meeting point.
_WAITS_S = 45.0  # Seconds in which a training has to begin at the meeting point.
_BY_SIGNAL = 128  # Added to the number of the signal that ended a process.


def run(module: str) -> None:
    """Run the module of a launcher with the arguments of this process, as `python -m` does.

    Ends with 1 if a process of the launcher's failed, and as by a signal if one ended it. If the
    hosts that train together do not find each other, it says so in one line.
    """
    logging.disable(logging.ERROR)
    try:
        sys.exit(_run(module))
    except SignalException as signalled:
        sys.exit(_BY_SIGNAL + signalled.sigval)
    finally:
        # The handler of torchrun raises; while the interpreter ends, that shows as a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(module: str) -> int:
    try:
        if _SETTINGS in sys.argv and _IS_GUEST in _option(_SETTINGS):
            _require_training(_option(_ENDPOINT))
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except (ChildFailedError, subprocess.CalledProcessError):
        return 1
    except RendezvousError as error:
        sys.stderr.write(f"Error: {_rendezvous_failure(error)}; {AGAIN}\n")
        return PartnerError.exit_code
    return 0


def _require_training(meeting: str) -> None:
    """Refuse a meeting point where no training waits: torchrun would wait for ever.

    Raises:
        RendezvousConnectionError: if not.
    """
    host, _, port = meeting.rpartition(":")
    answered = threading.Event()

    def look() -> None:
        with suppress(RuntimeError):  # DistError is one.
            dist.TCPStore(  # type: ignore[attr-defined]
                host, int(port), timeout=timedelta(seconds=_WAITS_S), wait_for_workers=False
            )
            answered.set()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(_WAITS_S + 1)
    if not answered.is_set():
        raise RendezvousConnectionError


def _rendezvous_failure(error: RendezvousError) -> str:
    """Return why hosts do not find each other, by the arguments of this process."""
    if _ENDPOINT not in sys.argv:
        return f"the processes did not find each other ({error})"
    meeting, hosts = _option(_ENDPOINT), _option(_HOSTS)
    if isinstance(error, RendezvousConnectionError):
        return unreachable(meeting)
    if isinstance(error, RendezvousTimeoutError):
        return (
            f"--hosts {hosts}: fewer hosts came to {meeting} within the time "
            "that they wait for each other"
        )
    return f"--rendezvous {meeting}: the hosts have ended their training ({error})"


def _option(word: str) -> str:
    return sys.argv[sys.argv.index(word) + 1]


if __name__ == "__main__":
    run(sys.argv.pop(1))
