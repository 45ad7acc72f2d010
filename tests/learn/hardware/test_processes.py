"""Processes of a launcher end with it, and write lines that all of them have once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roadseg.learn.hardware.processes import is_first_to_write

# A process that starts another one, tells the numbers of both, and waits.
WAIT = """
import subprocess, sys, time
from roadseg.learn.hardware.processes import end_with_launcher
end_with_launcher()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(__import__("os").getpid(), child.pid, flush=True)
time.sleep(60)
"""
# A launcher in the manner of PyTorch's, which starts the rest of its words in a session.
LAUNCHER = """
import os, subprocess, sys
if sys.argv[1] == "ours":
    os.environ["ROADSEG_LAUNCHED"] = str(os.getpid())
else:
    os.environ["LOCAL_RANK"] = "0"
subprocess.run(sys.argv[2:], start_new_session=True)
"""


def assert_ends(process):
    """Wait for the end of a process that is not ours."""
    end, path = time.monotonic() + 60, Path(f"/proc/{process}/cmdline")
    while path.is_file() and path.read_bytes():
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("launcher", ["ours", "torchrun"])
def test_a_process_and_its_children_end_when_its_launcher_is_killed(launcher):
    words = [sys.executable, "-c", LAUNCHER, launcher, sys.executable, "-c", WAIT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as started:
        processes = started.stdout.readline().split()
        started.kill()
        for process in processes:
            assert_ends(process)


def test_a_process_ends_that_begins_when_its_launcher_is_gone():
    launcher = {"ROADSEG_LAUNCHED": "999999999"}
    ended = subprocess.run(  # noqa: PLW1510
        [sys.executable, "-c", WAIT],
        env=os.environ | launcher,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL


def test_a_process_alone_says_every_line():
    assert [is_first_to_write("the same"), is_first_to_write("the same")] == [True, True]


def test_only_the_first_of_several_processes_says_a_line(tmp_path, monkeypatch):
    (tmp_path / "0").mkdir()
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "0" / "error.json"))
    said = [is_first_to_write(line) for line in ("the same", "the same", "another", "a\udce9")]
    assert said == [True, False, True, True]
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "gone" / "0" / "error.json"))
    assert is_first_to_write("the same")
