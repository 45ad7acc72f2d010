"""Locks: processes that would disturb each other do not work in one run folder."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from roadseg.errors import OutputError

_RUN, _FOLDS = ".lock", ".fold-*.lock"
_HOLDER = "-holder"  # file that says who holds a lock, for the message to the second


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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(FileLock(folder / name, timeout=0))
        (folder / f"{name}{_HOLDER}").write_text(f"process {os.getpid()}")
    except Timeout as error:
        raise OutputError(
            f"{folder}: {_holder(folder, name)} works in this run folder; wait for it to end, or "
            "name another folder with --run"
        ) from error
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _holder(folder: Path, name: str) -> str:
    try:
        return (folder / f"{name}{_HOLDER}").read_text()
    except OSError:
        return "another process"
