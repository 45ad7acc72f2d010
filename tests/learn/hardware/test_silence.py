"""Silence: a launcher says nothing, even if it is ended while it ends."""

import subprocess
import sys

# A launcher with the handler of torchrun, which gets a signal as it ends, or earlier.
LAUNCHER = """
import atexit, os, signal, subprocess
from torch.distributed.elastic.multiprocessing.api import _terminate_process_handler
signal.signal(signal.SIGTERM, _terminate_process_handler)
{}
"""


def silent(tmp_path, line):
    """Run a launcher with a line; return its exit code and what it said."""
    (tmp_path / "launcher.py").write_text(LAUNCHER.format(line))
    words = [sys.executable, "-m", "roadseg.learn.hardware.silence", "launcher"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_a_launcher_that_a_signal_ends_says_nothing(tmp_path):
    assert silent(tmp_path, "os.kill(os.getpid(), 15)") == (143, "")


def test_a_launcher_that_a_signal_ends_while_it_ends_says_nothing(tmp_path):
    assert silent(tmp_path, "atexit.register(os.kill, os.getpid(), 15)") == (-15, "")


def test_a_launcher_whose_process_failed_ends_with_1(tmp_path):
    assert silent(tmp_path, "raise subprocess.CalledProcessError(3, [])") == (1, "")
