"""Silence: a launcher says nothing, even if it is ended while it ends."""

import subprocess
import sys

import pytest

# A launcher with the handler of torchrun, which gets a signal as it ends, or earlier.
LAUNCHER = """
import atexit, os, signal, subprocess
from torch.distributed.elastic.multiprocessing.api import _terminate_process_handler
signal.signal(signal.SIGTERM, _terminate_process_handler)
{}
"""
SILENT = """
import os, sys
os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 1)
os.dup2(1, 2)
sys.argv, sys.path = ["quiet_launcher", *words], [folder, *sys.path]
from roadseg.learn.hardware import quiet_launcher
quiet_launcher.run(module)
"""


@pytest.fixture
def silent(forks, tmp_path):
    """Give a function that runs a module silently; it returns its exit code and what it said."""

    def run(module, *words):
        said = tmp_path / "said"
        names = {"folder": str(tmp_path), "said": str(said), "module": module, "words": words}
        process = forks.Process(target=exec, args=(SILENT, names))
        process.start()
        process.join(60)
        return process.exitcode, said.read_text()

    return run


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("os.kill(os.getpid(), 15)", 143),
        ("raise subprocess.CalledProcessError(3, [])", 1),
    ],
)
def test_a_launcher_that_a_signal_ends_or_whose_process_failed_says_nothing(
    silent, tmp_path, line, code
):
    (tmp_path / "launcher.py").write_text(LAUNCHER.format(line))
    assert silent("launcher") == (code, "")


def test_a_launcher_that_a_signal_ends_while_it_ends_says_nothing(tmp_path):
    (tmp_path / "launcher.py").write_text(
        LAUNCHER.format("atexit.register(os.kill, os.getpid(), 15)")
    )
    words = [sys.executable, "-m", "roadseg.learn.hardware.quiet_launcher", "launcher"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (-15, "")
