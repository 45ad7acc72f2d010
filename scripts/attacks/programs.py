"""Attacks by programs that make and judge them: hostile facts, and kills."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_READERS = "tests/edges/test_fuzz_readers.py"
_ATTACKS_A_KILL = 20  # A kill takes as long as so many other attacks.


def facts(count: int, _: int) -> Iterator[tuple[str, str]]:
    """Run the tests of files from strangers, which try each property so many times."""
    hostile = sorted(path.relative_to(_ROOT) for path in _ROOT.glob("tests/**/test_hostile_*.py"))
    for file in (_READERS, *map(str, hostile)):
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", file]
        yield _run(words, ROADSEG_FUZZ=str(count))


def kills(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Run the scripts that kill a run and a training, and compare what the next one leaves."""
    number = str(max(1, count // _ATTACKS_A_KILL))
    for script in ("kill_run.py", "kill_training.py"):
        yield _run([f"scripts/{script}", "--kills", number, "--seed", str(seed)])


def _run(words: Sequence[str], **variables: str) -> tuple[str, str]:
    """Run a program; return its command, and the end of its output if it fails."""
    environment = os.environ | {"PYTHONPATH": str(_ROOT)} | variables
    done = subprocess.run(
        [sys.executable, *words],
        cwd=_ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shown = " ".join([*(f"{key}={value}" for key, value in variables.items()), "python", *words])
    return (
        shown,
        "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stdout[-2000:]}",
    )
