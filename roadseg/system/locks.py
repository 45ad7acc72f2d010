"""Locks: keep processes that would disturb each other from using a run folder at once."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from roadseg.errors import OutputError
from roadseg.system.files import atomic_write, is_gone, writing

# Parts of stages have names with a hyphen; others, such as a review, hinder no stage.
_RUN, _PARTS = ".lock", ".*-*.lock"
_HOLDER = "-holder"  # This file beside a lock names its holder, for the message to others.
_ENDING_S = 1.0  # Seconds that a process may take to release its lock.
_MOMENT_S = 60.0  # Seconds in which even a thousand processes hold a lock for a moment each.
_POLL_S = 0.05  # Seconds between two attempts to lock.


@contextmanager
def lock(folder: Path, *, part: str | None = None, alone: bool = True) -> Iterator[None]:
    """Lock a run folder for this process; the lock ends with the process, however it ends.

    A new folder that is still empty at the end is removed. A folder that this process cannot write
    is not locked: it can only be read, and a stage that has to write raises an error.

    Args:
        part: lock only a part of the work, such as `fold-0`; other processes may lock other parts.
        alone: without `part`, whether to lock all parts as well; for commands that change what the
            parts read.

    Raises:
        OutputError: if another process holds the lock, or the folder cannot be written.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as held:
            if part is None:
                _hold(folder, _RUN, held)
                for path in sorted(folder.glob(_PARTS)) if alone else ():
                    _hold(folder, path.name, held)
            else:
                # A part needs the lock of the whole folder only while it takes its own.
                with ExitStack() as briefly:
                    _hold(folder, _RUN, briefly, briefly=True)
                    _hold(folder, f".{part}.lock", held)
            yield
    finally:
        with suppress(OSError):  # A folder that is not empty stays.
            for path in new:
                path.rmdir()


def holders(folder: Path) -> list[str]:
    """Return the processes that use a run folder, from the notes beside its locks.

    Notes of killed processes of this machine are ignored. Nothing is locked.
    """
    names = map(_holder, sorted(folder.glob(f".*lock{_HOLDER}")))
    return [name for name in dict.fromkeys(names) if not _is_killed(name)]


def _hold(folder: Path, name: str, stack: ExitStack, *, briefly: bool = False) -> None:
    """Take a lock, and note its holder; a lock held briefly has no note, and others wait for it."""
    noted = folder / f"{name}{_HOLDER}"
    try:
        own = FileLock(folder / name, timeout=0)
        _acquire(own, noted)
        stack.callback(_release, own, noted)
        if briefly:
            noted.unlink(missing_ok=True)  # A killed process may have left it.
            return
        with atomic_write(noted) as partial:
            partial.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    except Timeout as error:
        raise OutputError(
            f"{folder}: {_holder(noted)} is using this run folder; wait until it ends, or use "
            "another folder"
        ) from error
    except OutputError:
        raise
    except (NotImplementedError, OSError) as error:
        # Where nobody can write, nobody disturbs another one, so no lock is needed.
        if os.access(folder, os.W_OK):
            raise OutputError(
                f"{folder}: cannot be locked ({getattr(error, 'strerror', None) or error}), so two "
                "processes could write there at once; use a folder on another disk with --run"
            ) from error


def _acquire(own: FileLock, noted: Path) -> None:
    """Take a lock, if necessary after a process that holds it briefly, or was killed."""
    begun = time.monotonic()
    while True:
        try:
            own.acquire()
        except FileNotFoundError:
            # Another process made the folder, and has removed it.
            noted.parent.mkdir(parents=True, exist_ok=True)
        except Timeout:
            if time.monotonic() - begun > _patience_s(noted):
                raise
            time.sleep(_POLL_S)
        else:
            return


def _patience_s(noted: Path) -> float:
    """Return for how many seconds to wait for the holder of a lock.

    A process that holds it for long has left a note. If it was killed, its workers end soon, too.
    """
    is_held = noted.exists() and not _is_killed(_holder(noted))
    return _ENDING_S if is_held else _MOMENT_S


def _release(own: FileLock, noted: Path) -> None:
    """Remove the file of a lock, then release the lock; the next holder creates a new file."""
    # Some systems cannot remove files that are open.
    with suppress(OSError):
        noted.unlink(missing_ok=True)
        Path(own.lock_file).unlink(missing_ok=True)
    own.release()


def _holder(path: Path) -> str:
    """Return the process that holds a lock, with its machine if that is another one."""
    try:
        return path.read_text(encoding="utf-8").removesuffix(f" on {socket.gethostname()}")
    except (OSError, ValueError):
        return "another process"


def _is_killed(holder: str) -> bool:
    """Return whether the holder of a lock is a process of this machine that has ended."""
    process = re.fullmatch(r"process (\d+)", holder)
    return process is not None and is_gone(int(process[1])) is True
