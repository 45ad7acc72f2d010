"""Locks: processes that would disturb each other do not work in one run folder."""

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from roadseg.errors import OutputError
from roadseg.io.files import whole

_RUN, _FOLDS = ".lock", ".fold-*.lock"
_HOLDER = "-holder"  # file that says who holds a lock, for the message to the second
_DYING_S = 10.0  # for the workers of a process that was killed
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # of a file system, often of a network


@contextmanager
def lock(folder: Path, *, fold: int | None = None, alone: bool = True) -> Iterator[None]:
    """Hold a run folder for this process; the lock ends with the process, however it ends.

    Args:
        folder: the run folder.
        fold: hold the training of this fold only, beside those of other folds.
        alone: not while a fold is in training; for what changes the data that it reads.

    Raises:
        OutputError: if another process holds it, or the folder cannot be written.
    """
    with ExitStack() as held, ExitStack() as briefly:
        _hold(folder, _RUN, held if fold is None else briefly)
        if fold is not None:
            _hold(folder, _FOLDS.replace("*", str(fold)), held)
        elif alone:
            for path in sorted(folder.glob(_FOLDS)):
                _hold(folder, path.name, held)
        briefly.close()
        yield


def _hold(folder: Path, name: str, stack: ExitStack) -> None:
    noted = folder / f"{name}{_HOLDER}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = FileLock(folder / name, timeout=0)
        _acquire(own, noted)
        stack.callback(own.release)
        _note_holder(noted)
    except Timeout as error:
        raise OutputError(
            f"{folder}: {_holder(noted)} works in this run folder; wait for it to end, or name "
            "another folder with --run"
        ) from error
    except NotImplementedError as error:
        raise OutputError(_without_locks(folder)) from error
    except OutputError:
        raise
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise OutputError(_without_locks(folder)) from error
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _acquire(own: FileLock, noted: Path) -> None:
    """Take a lock; where its holder was killed, wait until what that one forked has ended too."""
    try:
        own.acquire()
    except Timeout:
        if not _is_gone(_holder(noted)):
            raise
        own.acquire(timeout=_DYING_S)


def _is_gone(holder: str) -> bool:
    """Say whether a holder is a process of this machine that has ended."""
    found = re.fullmatch(r"process (\d+)", holder)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def _note_holder(path: Path) -> None:
    with whole(path) as partial:
        partial.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")


def _holder(path: Path) -> str:
    """Say who holds a lock; the machine only if it is another one."""
    try:
        return path.read_text(encoding="utf-8").removesuffix(f" on {socket.gethostname()}")
    except (OSError, ValueError):
        return "another process"


def _without_locks(folder: Path) -> str:
    return (
        f"{folder}: its file system cannot lock files, so two processes could write there at once; "
        "name a folder on another disk with --run"
    )
