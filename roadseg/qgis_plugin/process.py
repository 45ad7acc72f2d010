"""The roadseg command as a process: find it, start it, follow its progress, and end it."""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# The words that start roadseg, which `roadseg qgis install` leaves beside this file.
COMMAND_FILE = Path(__file__).with_name("command.json")
LOOK_S = 0.1  # Seconds between two looks at whether the user has cancelled.
GRACE_S = 60.0  # Seconds for a command to end in order, as a training that saves its step.

# What QGIS sets for its own Python and libraries, and would break another Python.
_OF_QGIS = (
    *("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"),
    *("GDAL_DATA", "GDAL_DRIVER_PATH", "PROJ_LIB", "PROJ_DATA", "GEOTIFF_CSV"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH"),
)
_INSTALL = (
    "install roadseg, then run `roadseg qgis install` in a terminal, or name its executable in "
    "Settings > Options > Processing > Providers > roadseg"
)
_LAST_LINES = 5  # Of stderr, which stand for the error of a command that ended without a word.

Show = Callable[[str], object]  # Takes a line that the command wrote on stderr.


class CommandError(Exception):
    """The command failed; the text is for the user."""


class CancelledError(Exception):
    """The user cancelled, and the command has ended."""


def find_command(setting: str, command_file: Path = COMMAND_FILE) -> list[str]:
    """Return the words that start roadseg.

    Args:
        setting: the executable that the user names; empty if none.
        command_file: what `roadseg qgis install` left beside the plugin.

    Raises:
        CommandError: there is none.
    """
    if setting.strip():
        if found := shutil.which(setting.strip()):
            return [found]
        raise CommandError(f"{setting.strip()} is not a program that can be started: {_INSTALL}")
    if command_file.exists():
        words = [str(word) for word in json.loads(command_file.read_text(encoding="utf-8"))]
        if shutil.which(words[0]):
            return words
    usual = Path.home() / ".local" / "bin"  # Of pipx, uv and pip; often not in the PATH of QGIS.
    if found := shutil.which("roadseg") or shutil.which("roadseg", path=str(usual)):
        return [found]
    raise CommandError(f"the roadseg command was not found: {_INSTALL}")


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for roadseg: without QGIS's libraries, with progress as JSON."""
    kept = {name: text for name, text in environment.items() if name not in _OF_QGIS}
    return {**kept, "ROADSEG_PROGRESS": "json", "PYTHONIOENCODING": "utf-8"}


def run(
    command: Sequence[str], *, folder: Path, show: Show, is_cancelled: Callable[[], bool]
) -> dict[str, Any]:
    """Run a command with `--json` to its end; return its summary.

    Args:
        folder: working folder.
        show: gets the lines of stderr, in the thread of the caller.
        is_cancelled: asked again and again; once it returns True, the command is ended.

    Raises:
        CommandError: it failed; the text is its own last line.
        CancelledError: it was cancelled.
    """
    with tempfile.TemporaryFile() as printed:
        try:
            child = subprocess.Popen(  # noqa: S603 - the command that the user installed
                [*command, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                cwd=folder,
                env=command_environment(os.environ),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise CommandError(f"{command[0]} cannot be started: {error}; {_INSTALL}") from error
        last: deque[str] = deque(maxlen=_LAST_LINES)
        try:
            for line in _lines(child.stderr, is_cancelled):
                show(line)
                if read_progress(line) is None:
                    last.append(line)
        except BaseException:
            end(child)
            raise
        if code := child.wait():
            errors = [line for line in last if line.startswith("Error: ")]
            text = errors[-1].removeprefix("Error: ") if errors else "\n".join(last)
            raise CommandError(text or f"roadseg ended with exit code {code}")
        printed.seek(0)
        summary: dict[str, Any] = json.loads(printed.read().decode())
    return summary


def _lines(stream: Any, is_cancelled: Callable[[], bool]) -> Iterator[str]:
    """Yield the lines of a stream, and look again and again whether the user has cancelled."""
    read: queue.Queue[str | None] = queue.Queue()

    def pass_on() -> None:
        with stream:
            for line in stream:
                read.put(line.rstrip())
        read.put(None)

    threading.Thread(target=pass_on, daemon=True).start()
    while not is_cancelled():
        with suppress(queue.Empty):
            line = read.get(timeout=LOOK_S)
            if line is None:
                return
            yield line
    raise CancelledError


def end(child: subprocess.Popen[str]) -> None:
    """End a command: ask it to, and kill it if it has not ended after some seconds."""
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def words_of(line: str) -> list[str]:
    """Return the words of a line; quotes keep spaces, and a backslash is that of a path."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.escape, words.commenters = True, "", ""
    return list(words)


def read_progress(line: str) -> dict[str, Any] | None:
    """Return the progress in a line of stderr; None if it is another line."""
    if not line.startswith('{"progress":'):
        return None
    progress: dict[str, Any] = json.loads(line)
    return progress


def percent(works: Sequence[Mapping[str, Any]]) -> float:
    """Return how much of the outermost work is done.

    Of its items the finished ones count, and of the one under way the part that the work inside of
    it has done.

    Args:
        works: from the outermost to the innermost, each with `done` and `total`.
    """
    first, *inner = works
    done, total = float(first["done"]), float(first["total"])
    if inner and isinstance(first["total"], int):
        done = int(done) + percent(inner) / 100
    return 100 * min(done / total, 1.0) if total > 0 else 0.0


def quality_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield how far a map is to be trusted, from the summary of `roadseg map`."""
    if (confidence := summary["confidence"]) is not None:
        yield (
            f"Mean confidence of the roads: {confidence:.2f}. {summary['doubtful']:.0%} of their "
            f"length is doubtful, {summary['inferred']:.0%} bridges gaps."
        )
    if measured := summary["measured"]:
        yield (
            f"On known roads that were left out of the training: correctness "
            f"{measured['correctness']:.2f}, completeness {measured['completeness']:.2f}, APLS "
            f"{measured['apls_length']:.2f}."
        )


def improvement_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a training on edits has changed, from the summary of `roadseg improve`."""
    measured = {kind: summary[kind] for kind in ("drawn", "accepted", "rejected")}
    for kind, found in measured.items():
        if length := found["metres"]:
            yield (
                f"Of the {kind} roads that were left out of the training ({length:.0f} m), the "
                f"network found {found['before'] / length:.0%} before and "
                f"{found['after'] / length:.0%} now."
            )
    if not any(found["metres"] for found in measured.values()):
        yield "Nothing was decided on the ground that was left out of the training to measure it."
