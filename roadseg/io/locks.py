"""Locks: one process at a time works in a run folder."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from roadseg.errors import OutputError

_LOCK = ".lock"
_HOLDER = ".lock-holder"  # who holds it, for the message to the second


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process; the lock ends with the process, however it ends.

    Raises:
        OutputError: if another process holds it, or the folder cannot be written.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / _LOCK, timeout=0))
            (folder / _HOLDER).write_text(f"process {os.getpid()}")
        except Timeout as error:
            raise OutputError(
                f"{folder}: {_holder(folder)} works in this run folder; wait for it to end, or "
                "name another folder with --run"
            ) from error
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error
        yield


def _holder(folder: Path) -> str:
    try:
        return (folder / _HOLDER).read_text()
    except OSError:
        return "another process"
