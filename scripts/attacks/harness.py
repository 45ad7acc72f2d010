"""Harness: one command of roadseg in a process of its own, and whether it held.

A command holds if it ends by itself with an exit code that is documented, says at most one line
that begins with "Error:" and nothing else but logs, shows no traceback, and leaves nothing half
written. It may take 60 seconds of CPU time and 16 GB.
"""

import importlib
import multiprocessing
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import BinaryIO, cast

sys.path.insert(0, str(Path(__file__).parents[1]))
kill_run = importlib.import_module("kill_run")

LONGEST_S = 60  # Seconds of CPU time.
_WALL_S = 600  # Seconds that a command may take on a busy machine.
_ORPHANS_S = 30  # Seconds in which all processes of a command have to end after it.
_MEMORY = 16 * 2**30  # Bytes.
_PARTLY = 4  # Exit code of a command that skipped scenes, of which warnings tell.
_CODES = {0, 1, 2, 3, _PARTLY}
_ALLOWED = re.compile(
    r"(Error: |INFO: |WARNING: |ERROR: |Usage: |Try '|$)"
)  # Beginnings of a line.
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_HOSTILE = [
    *(b"0", b"-1", b"1", b"1e-300", b"-1e308", b"1e308", b"1e999", b"NaN", b"inf", b""),
    *(b"2147483647", b"2147483648", b"-2147483649", b"9223372036854775808", b"9" * 400),
]


@dataclass(frozen=True)
class Case:
    """A command, and what is written for it first.

    Attributes:
        name: what is tried.
        words: words of the command after `roadseg`.
        write: function that writes hostile files into the folder in which the command runs.
        largest: bytes that no file may exceed, as on a disk that is full; None for no limit.
    """

    name: str
    words: list[str]
    write: Callable[[Path], None] = lambda _: None
    largest: int | None = None

    def __str__(self) -> str:
        """Return the command as it is typed."""
        return shlex.join(["roadseg", *(word[:300] for word in self.words)])


def load_all() -> None:
    """Import what commands import while they work, so that processes are forked with it."""
    kill_run.load_all()


def run_case(case: Case, folder: Path) -> str:
    """Run a case in a folder; return why it fell, or an empty text if it held."""
    try:
        case.write(folder)
    except (OSError, ValueError, OverflowError) as error:  # Some files cannot even be written.
        return f"the attack cannot be made: {error!r:.200}"
    output = folder / ".told"
    # Another process writes the output, because the limits of the command would cut its file.
    with output.open("wb") as file:
        keeper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file)  # noqa: S607
    pipe = cast("BinaryIO", keeper.stdin)
    work = (case, folder, pipe)
    process = multiprocessing.get_context("fork").Process(target=_work, args=work)
    process.start()
    number = cast("int", process.pid)
    pipe.close()
    process.join(_WALL_S)
    if process.is_alive():
        os.killpg(number, signal.SIGKILL)
        process.join()
        return f"still running after {_WALL_S} s"
    try:
        keeper.wait(_ORPHANS_S)
    except subprocess.TimeoutExpired:
        os.killpg(number, signal.SIGKILL)
        return "processes go on after the command has ended"
    return _judge(process.exitcode, output.read_text(errors="replace"), folder)


def _work(case: Case, folder: Path, output: BinaryIO) -> None:
    """Run the command in this process: with limits, in its folder, its output sent elsewhere."""
    os.setsid()
    os.chdir(folder)
    with output, Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S + 5))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    if case.largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (case.largest, case.largest))
    importlib.import_module("roadseg.commands.cli.main").main(case.words, prog_name="roadseg")


def _judge(code: int | None, output: str, folder: Path) -> str:
    """Return why a command fell, or an empty text if it held."""
    lines = output.splitlines()
    if code not in _CODES:
        return "\n    ".join([f"exit code {code}", *(f"{line:.300}" for line in lines[-7:])])
    if "Traceback" in output:
        return f"a traceback: {lines[-1]:.300}"
    if sum(line.startswith("Error: ") for line in lines) > 1:
        return f"several errors: {output:.300}"
    if stray := [line for line in lines if not _ALLOWED.match(line)]:
        return f"a stray line: {stray[0]:.300}"
    if code not in (0, _PARTLY) and not any(line.startswith("Error: ") for line in lines):
        return f"exit code {code} without a word"
    left = [path for path in folder.rglob(".partial-*") if path.exists()]
    return f"left behind: {left[0]}" if left else _half_written(folder)


def _half_written(folder: Path) -> str:
    """Return what a reader says of a run folder that cannot be read, or an empty text."""
    for run in folder.glob("run*"):
        try:
            kill_run.contents(run)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a reader raises
            return f"half written: {error!r:.300}"
    return ""


def spoiled(data: bytes, rng: Random) -> bytes:
    """Return bytes in which some numbers, pieces or ends are others."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        what = rng.choice(["number", "number", "number", "bytes", "cut", "twice"])
        at = rng.randrange(len(changed) + 1)
        if what == "number" and (numbers := list(_NUMBER.finditer(changed))):
            number = rng.choice(numbers)
            changed[number.start() : number.end()] = rng.choice(_HOSTILE)
        elif what == "bytes":
            changed[at : at + rng.randint(0, 8)] = rng.randbytes(rng.randint(0, 8))
        elif what == "cut":
            del changed[at : at + rng.choice([1, 16, len(changed)])]
        elif what == "twice":
            changed[at:at] = changed[at : at + 200]
    return bytes(changed)


def random_of(seed: int) -> Random:
    """Return the generator of everything random."""
    return Random(seed)  # noqa: S311 - not a secret
