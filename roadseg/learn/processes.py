"""Processes: run what a launcher starts, pass signals on to it, learn how it ended.

Launchers lose exit codes: PyTorch's run_cpu ends with 0 and torchrun with 1 whatever happened. So
every process writes its own into a folder that the process which watches names to it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

_FOLDER = "ROADSEG_STATUS"  # variable that names the folder
_END = ".end"  # file named by the process: empty while it runs, then its exit code
_SIGNAL = "signal"  # file with the signal that was passed on
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_BY_SIGNAL = 128  # added to the number of the signal that ended a process


def watch(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a launcher; return how the processes that it starts ended, whatever it says itself.

    It gets a session of its own, so that Ctrl-C reaches only this process, which passes it on.
    """
    with TemporaryDirectory(prefix="roadseg-") as name:
        folder = Path(name)
        _pass_signals_on(folder)
        environment = {**os.environ, **variables, _FOLDER: name}
        process = subprocess.Popen(words, env=environment, start_new_session=True)  # noqa: S603
        code = process.wait()
        _send(folder, signal.SIGTERM)  # to what outlives its launcher
        return exit_code([*_reports(folder).values()], launcher=code, received=_received(folder))


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
    """Return an exit code as shells do: subprocess says a signal as a negative number."""
    return _BY_SIGNAL - returned if returned < 0 else returned


@contextmanager
def reporting() -> Iterator[None]:
    """Tell the process that watches, if one does, that this one runs and how it ends."""
    name = os.environ.pop(_FOLDER, None)  # what this process starts must not report
    if name is None:
        yield
        return
    folder = Path(name)
    status = folder / f"{os.getpid()}{_END}"
    status.touch()
    code: object = 1
    try:
        _end_if_told(folder)
        yield
        code = 0
    except SystemExit as ended:
        code = ended.code
        raise
    finally:
        with suppress(FileNotFoundError):  # nobody watches any more
            ended_with = code if isinstance(code, int) else int(code is not None)
            status.write_text(str(ended_with), encoding="ascii")


def _pass_signals_on(folder: Path) -> None:
    """Pass signals on to the processes that report in a folder, those to come included."""

    def pass_on(number: int, _: object) -> None:
        (folder / _SIGNAL).write_text(str(number), encoding="ascii")
        _send(folder, number)

    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, pass_on)


def _send(folder: Path, number: int) -> None:
    for process, code in _reports(folder).items():
        if code is None:
            with suppress(ProcessLookupError):
                os.kill(process, number)


def _received(folder: Path) -> int | None:
    file = folder / _SIGNAL
    return int(file.read_text(encoding="ascii")) if file.exists() else None


def _end_if_told(folder: Path) -> None:
    """End as by a signal that came before this process could receive it."""
    received = _received(folder)
    if received is not None:
        sys.exit(_BY_SIGNAL + received)


def _reports(folder: Path) -> dict[int, int | None]:
    """Return exit codes of the processes that report in a folder, the first to end first."""
    files = sorted(folder.glob(f"*{_END}"), key=lambda file: file.stat().st_mtime_ns)
    codes = {int(file.stem): file.read_text(encoding="ascii") for file in files}
    return {process: int(code) if code else None for process, code in codes.items()}
