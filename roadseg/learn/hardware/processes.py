"""Processes of a launcher: run them, pass signals on, learn how they ended, end together.

Launchers lose exit codes: PyTorch's run_cpu ends with 0 and torchrun with 1 whatever happened. So
every process writes its own into a folder that the process which watches names to it. In the
same folder lies a pipe that breaks when the one that watches is killed; all others then end too.
"""

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn, cast

from roadseg.learn.hardware.interrupts import SIGNALS

_log = logging.getLogger(__name__)
_FOLDER = "ROADSEG_STATUS"  # Variable that names the folder.
_END = ".end"  # File named by the process: empty while it runs, then its exit code.
_SIGNAL = "signal"  # File with the signal that was passed on.
_PIPE = "pipe"  # Pipe that the watching process keeps open.
_WRITTEN = ".written"  # File named by the digest of a line that one process wrote for all.
_BY_SIGNAL = 128  # Added to the number of the signal that ended a process.
_GRACE_S = 30.0  # Seconds for processes that outlive their launcher to save their work.
_LOOK_S = 0.2

_watched_in: list[Path] = []  # The folder, in a process that is watched.


def watch(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a launcher; return how its processes ended, whatever its own exit code.

    It gets a session of its own, so that Ctrl-C reaches only this process, which passes it on;
    a second signal kills. If this process is killed, those that it watches kill themselves and
    what they started; their launchers end with them.
    """
    with TemporaryDirectory(prefix="roadseg-") as name:
        folder = Path(name)
        with _open_pipe(folder):
            _pass_signals_on(folder)
            environment = {**os.environ, **variables, _FOLDER: name}
            process = subprocess.Popen(words, env=environment, start_new_session=True)  # noqa: S603
            code = process.wait()
            _end_the_rest(folder)
            ends, received = [*_reports(folder).values()], _received(folder)
    if None in ends and received is None:
        _log.error("a process was killed or crashed, often because memory ran out")
    return exit_code(ends, launcher=code, received=received)


def exit_code(ends: Sequence[int | None], *, launcher: int, received: int | None) -> int:
    """Return how a launch ended.

    Args:
        ends: exit codes of the processes, the first to end first; None for one that was killed.
        launcher: exit code of their launcher, which may be 0 whatever happened.
        received: number of the signal that was passed on to them.

    Returns:
        The first failure; that of being terminated only if there is no other.
    """
    by_signal = None if received is None else _BY_SIGNAL + received
    failures = [end for end in ends if end not in {None, 0, _BY_SIGNAL + signal.SIGTERM}]
    if failures:
        return failures[0]
    if not ends:
        return by_signal or _code(launcher) or 1
    if None in ends:
        return by_signal or _BY_SIGNAL + signal.SIGKILL
    return max(filter(None, ends), default=_code(launcher))


def _code(returned: int) -> int:
    """Return an exit code as shells do: subprocess gives signals as negative numbers."""
    return _BY_SIGNAL - returned if returned < 0 else returned


@contextmanager
def reporting() -> Iterator[None]:
    """Report the start and the end of this process to a process that watches it, if there is one.

    Meanwhile this process ends when that one is killed; without one, a process of torchrun's ends
    when torchrun is killed.
    """
    name = os.environ.pop(_FOLDER, None)  # What this process starts must not report.
    if name is None:
        # The children of this process notice its end themselves.
        end = partial(os._exit, _BY_SIGNAL + signal.SIGKILL)
        with _ending_after(_outlived, end) if "LOCAL_RANK" in os.environ else nullcontext():
            yield
        return
    folder, code = Path(name), cast("object", 1)
    with _watched(folder):
        _report(folder, "")
        try:
            _end_if_signalled(folder)
            yield
            code = 0
        except SystemExit as ended:
            code = ended.code
            raise
        finally:
            _report(folder, str(code if isinstance(code, int) else int(code is not None)))


def end_now(code: int) -> NoReturn:
    """End this process with an exit code, whatever it is doing."""
    for folder in _watched_in:
        _report(folder, str(code))
    os._exit(code)


def is_watched() -> bool:
    """Return whether another process tells the user how this one ended."""
    return bool(_watched_in)


def is_first_to_write(line: str) -> bool:
    """Return whether this process is the first of several to write a line."""
    for folder in _watched_in:
        name = hashlib.sha256(line.encode(errors="replace")).hexdigest()[:16]
        try:
            (folder / f"{name}{_WRITTEN}").touch(exist_ok=False)
        except FileExistsError:
            return False
        except FileNotFoundError:  # nobody watches any more
            return True
    return True


@contextmanager
def _open_pipe(folder: Path) -> Iterator[None]:
    """Hold the pipe that tells others that this process lives, where the system has such pipes."""
    if not hasattr(os, "mkfifo"):
        yield
        return
    os.mkfifo(folder / _PIPE, 0o600)
    pipe = os.open(folder / _PIPE, os.O_RDWR)  # This does not wait for a reader.
    try:
        yield
    finally:
        os.close(pipe)


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """Let this process and its children be killed once the watching process has closed the pipe."""
    _watched_in.append(folder)
    try:
        if not hasattr(os, "mkfifo"):
            yield
            return
        try:
            pipe = os.open(folder / _PIPE, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            # The watching process was killed, and its folder removed.
            sys.exit(_BY_SIGNAL + signal.SIGKILL)
        os.set_blocking(pipe, True)

        def wait() -> None:
            os.read(pipe, 1)  # This returns when the pipe breaks.
            shutil.rmtree(folder, ignore_errors=True)

        # The launcher or the watching process made the group for this process.
        with _ending_after(wait, lambda: os.killpg(0, signal.SIGKILL)):
            yield
    finally:
        # What comes now ends this process at once: it has reported, and has nothing more to say.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _watched_in.remove(folder)


@contextmanager
def _ending_after(wait: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    """End this process once a wait is over, unless the block ends before."""
    left = threading.Event()

    def end_after_it() -> None:
        wait()
        if not left.is_set():
            end()

    threading.Thread(target=end_after_it, daemon=True).start()
    try:
        yield
    finally:
        left.set()


def _outlived() -> None:
    """Wait until the process that started this one is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)


def _pass_signals_on(folder: Path) -> None:
    """Pass signals on to the processes that report in a folder, those to come included.

    After the second one they are killed: one that waits for another does not heed signals.
    """

    def pass_on(number: int, _: object) -> None:
        again = _received(folder) is not None
        (folder / _SIGNAL).write_text(str(number), encoding="ascii")
        _send(folder, signal.SIGKILL if again else number)

    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # They are ignored under nohup.
            signal.signal(number, pass_on)


def _send(folder: Path, number: int) -> bool:
    """Send a signal to the processes that report in a folder; say whether any is left."""
    left = False
    for process, code in _reports(folder).items():
        if code is None:
            with suppress(ProcessLookupError):
                os.kill(process, number)
                left = True
    return left


def _end_the_rest(folder: Path) -> None:
    """End processes that outlive their launcher, such as a killed one: in order, then by force."""
    end = time.monotonic() + _GRACE_S
    left = _send(folder, signal.SIGTERM)
    while left and time.monotonic() < end:
        time.sleep(_LOOK_S)
        left = _send(folder, 0)
    _send(folder, getattr(signal, "SIGKILL", signal.SIGTERM))


def _report(folder: Path, end: str) -> None:
    with suppress(FileNotFoundError):  # nobody watches any more
        (folder / f"{os.getpid()}{_END}").write_text(end, encoding="ascii")


def _received(folder: Path) -> int | None:
    file = folder / _SIGNAL
    return int(file.read_text(encoding="ascii")) if file.exists() else None


def _end_if_signalled(folder: Path) -> None:
    """End as by a signal that came before this process could receive it."""
    received = _received(folder)
    if received is not None:
        sys.exit(_BY_SIGNAL + received)


def _reports(folder: Path) -> dict[int, int | None]:
    """Return exit codes of the processes that report in a folder, the first to end first."""
    files = sorted(folder.glob(f"*{_END}"), key=lambda file: file.stat().st_mtime_ns)
    ends = {int(file.name.removesuffix(_END)): file.read_text(encoding="ascii") for file in files}
    return {process: int(code) if code else None for process, code in ends.items()}
