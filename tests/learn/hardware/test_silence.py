"""Silence: a launcher says nothing, even if it is ended while it ends."""

import socket
import subprocess
import sys

from torch.distributed import TCPStore

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


def guest(tmp_path, meeting):
    """Start a launcher of a host that meets others elsewhere; return its exit code and words."""
    code = (
        "from roadseg.learn.hardware import silence; silence._WAITS_S = 1; silence.run('nothing')"
    )
    given = ["--nnodes", "2", "--rdzv-endpoint", meeting, "--rdzv-conf", "a=1,is_host=False"]
    words = [sys.executable, "-c", code, *given]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr


def test_what_is_no_training_and_never_answers_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        meeting = "{}:{}".format(*server.getsockname())
        code, said = guest(tmp_path, meeting)
    assert (code, said.count("\n")) == (75, 1)
    assert said.startswith(f"Error: --rendezvous {meeting}: no training waits there")


def test_where_a_training_waits_the_launcher_begins(tmp_path):
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    code, said = guest(tmp_path, f"127.0.0.1:{store.port}")
    assert (code, "No module named no" in said) == (1, True)
