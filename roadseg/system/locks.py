"""Locks: processes that would disturb each other do not work in one folder at once."""

import errno
import hashlib
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path

from filelock import FileLock, Timeout

from roadseg.errors import OutputError
from roadseg.system.files import is_gone, whole

if sys.platform != "win32":
    import fcntl

_RUN, _PARTS = ".lock", ".*-*.lock"
_HOLDER = (
    "-holder"  # This file beside a lock names its holder, for the message to a second process.
)
_OUTPUTS = ".outputs.lock"  # Each byte of this file stands for an output of its folder.
_TURN = ".turn.lock"  # Held for a moment, to change what several parts change.
_DYING_S = 10.0  # Seconds that the workers of a killed process may take to end.
_ENDING_S = 1.0  # Seconds that a process may take to release its outputs.
_MOMENT_S = 60.0  # Seconds in which even a thousand processes hold a lock for a moment each.
_POLL_S = 0.05  # Seconds between two attempts to lock.
# Errors of file systems without locks, often of a network.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_TAKEN = (errno.EACCES, errno.EAGAIN)
_FLOCK = "hhqqi"  # The struct flock of Linux holds type, whence, start, length and process.


@contextmanager
def lock(folder: Path, *, part: str | None = None, alone: bool = True) -> Iterator[None]:
    """Hold a run folder for this process; the lock ends with the process, however it ends.

    A folder that is new and in which nothing was written is removed in the end. One in which this
    process cannot write is not held: it can only be looked at, and a stage that has to write says
    so.

    Args:
        folder: the run folder.
        part: hold only a part of the work, such as `fold-0`, beside those of other parts.
        alone: not while any part is worked on; for what changes the data that it reads.

    Raises:
        OutputError: if another process holds it, or the folder cannot be written.
    """
    with _existing(folder), ExitStack() as held, ExitStack() as briefly:
        _hold(folder, _RUN, held if part is None else briefly, briefly=part is not None)
        if part is not None:
            _hold(folder, _PARTS.replace("*-*", part), held)
        elif alone:
            for path in sorted(folder.glob(_PARTS)):
                _hold(folder, path.name, held)
        # A part needs the lock of the whole folder only while it takes its own.
        briefly.close()
        yield


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Wait for one's turn in a folder, and let the next one wait; for work of a moment.

    Raises:
        OutputError: if the turn does not come, or the folder cannot be written.
    """
    with ExitStack() as held:
        _hold(folder, _TURN, held, briefly=True)
        yield


def holders(folder: Path) -> list[str]:
    """Return who works in a run folder, as the notes beside its locks say; nothing is locked.

    Notes that a process of this machine left when it was killed do not count.
    """
    names = [_holder(path) for path in sorted(folder.glob(f".*lock{_HOLDER}"))]
    processes = {name: re.fullmatch(r"process (\d+)", name) for name in dict.fromkeys(names)}
    return [name for name, of in processes.items() if not (of and is_gone(int(of[1])))]


@contextmanager
def hold(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Hold files of a folder, by name, for this process; others may make other files beside them.

    Each name is a byte of one hidden file, so that any number can be held, by processes on several
    machines; the system frees them when the process ends, and the last one removes the file.
    Nothing is held where the file system has no such locks, or does not let this process write.

    Raises:
        OutputError: if another process holds one of them, or the folder cannot be made.
    """
    # The place of a name in the hidden file is a digest of 48 bits, which hardly two names share.
    digests = ((hashlib.sha256(os.fsencode(name)).digest()[:6], name) for name in names)
    places = {int.from_bytes(digest): name for digest, name in digests}
    with _existing(folder), ExitStack() as held:
        if sys.platform != "win32":
            _take(folder, dict(sorted(places.items())), held)
        yield


@contextmanager
def _existing(folder: Path) -> Iterator[None]:
    """Make a folder, and those that it lies in; remove in the end those that stayed empty."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            for path in new:
                path.rmdir()


def _hold(folder: Path, name: str, stack: ExitStack, *, briefly: bool = False) -> None:
    """Take a lock; note who has it, unless it is held briefly, so that others wait for it."""
    noted = folder / f"{name}{_HOLDER}"
    try:
        own = FileLock(folder / name, timeout=0)
        _acquire(own, noted)
        stack.callback(_release, own, noted)
        if briefly:
            noted.unlink(missing_ok=True)  # A killed process may have left it.
            return
        with whole(noted) as partial:
            partial.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    except Timeout as error:
        raise OutputError(
            f"{folder}: {_holder(noted)} is using this run folder; wait until it ends, or use "
            "another folder with --run"
        ) from error
    except NotImplementedError as error:
        raise OutputError(_without_locks(folder)) from error
    except OutputError:
        raise
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise OutputError(_without_locks(folder)) from error
        # Where nobody can write, nobody disturbs another one, so no lock is needed.
        if error.errno in _READ_ONLY and not os.access(folder, os.W_OK):
            return
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


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

    Who holds it for long has noted that. Where that one was killed, what it forked is ending too.
    """
    if not noted.exists():
        return _MOMENT_S
    holder = re.fullmatch(r"process (\d+)", _holder(noted))
    return _DYING_S if holder and is_gone(int(holder[1])) else _ENDING_S


def _release(own: FileLock, noted: Path) -> None:
    """Remove the file of a lock, then release the lock; the next holder makes another file."""
    # Some systems cannot remove files that are open.
    with suppress(OSError):
        noted.unlink(missing_ok=True)
        Path(own.lock_file).unlink(missing_ok=True)
    own.release()


def _holder(path: Path) -> str:
    """Return who holds a lock; the machine is named only if it is another one."""
    try:
        return path.read_text(encoding="utf-8").removesuffix(f" on {socket.gethostname()}")
    except (OSError, ValueError):
        return "another process"


def _without_locks(folder: Path) -> str:
    return (
        f"{folder}: its file system cannot lock files, so two processes could write there at "
        "once; use a folder on another disk with --run"
    )


def _take(folder: Path, names: dict[int, str], locks: ExitStack) -> None:
    """Lock bytes of the file of outputs in order, so that one of two processes gets all."""
    path, end = folder / _OUTPUTS, time.monotonic() + _ENDING_S
    while True:
        taken = None
        with ExitStack() as opened:
            try:
                # Another process may have removed the folder, or the file since it was opened.
                folder.mkdir(parents=True, exist_ok=True)
                file = opened.enter_context(path.open("ab", buffering=0))
                taken = next((place for place in names if not _try_lock(file, place)), None)
                if taken is None and _is_named(file, path):
                    opened.callback(_remove, file, path)
                    locks.push(opened.pop_all())
                    return
            except FileNotFoundError:
                pass
            except OSError:
                # The file system has no locks, or this process may not write there.
                return
            if time.monotonic() > end:
                if taken is None:
                    return
                raise OutputError(
                    f"{folder / names[taken]}: {_maker(file, taken)} is writing it; wait until "
                    "it ends, or use another folder with --output"
                )
        time.sleep(_POLL_S)


def _try_lock(file: FileIO, place: int | None = None) -> bool:
    """Lock a byte of a file, or all of it; return False if somebody else has."""
    try:
        if sys.platform != "win32":
            length, start = (0, 0) if place is None else (1, place)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _is_named(file: FileIO, path: Path) -> bool:
    """Return whether a file still has its name, which its last holder may have removed."""
    return os.path.samestat(os.fstat(file.fileno()), path.stat())


def _remove(file: FileIO, path: Path) -> None:
    """Remove the file of outputs if no other process locks a part; closing it ends the locks."""
    with suppress(OSError):
        if _try_lock(file) and _is_named(file, path):
            path.unlink()


def _maker(file: FileIO, place: int) -> str:
    """Return who has locked a byte."""
    if sys.platform == "linux":
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        *_, process = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        if process > 0 and not is_gone(process):
            return f"process {process}"
    return "another process"
