"""Quiet launcher: one without logs and tracebacks; what it starts says itself how it ended."""

import logging
import runpy
import signal
import subprocess
import sys

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

_BY_SIGNAL = 128  # Added to the number of the signal that ended a process.


def run(module: str) -> None:
    """Run the module of a launcher with the arguments of this process, as `python -m` does.

    Ends with 1 if a process of the launcher's failed, and as by a signal if one ended it.
    """
    logging.disable(logging.ERROR)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except (ChildFailedError, subprocess.CalledProcessError):
        sys.exit(1)
    except SignalException as signalled:
        sys.exit(_BY_SIGNAL + signalled.sigval)
    finally:
        # The handler of torchrun raises; while the interpreter ends, that shows as a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    run(sys.argv.pop(1))
