"""A launcher ends as its processes do, passes signals on to them, and says nothing itself."""

import os
import signal
import subprocess
import sys
import time

import pytest

from roadseg.learn.hardware.quiet_launcher import exit_code

# A launcher of some processes that run a line, as run_cpu is: it ends with 0 whatever happens.
CARELESS = """
import sys
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
args = dict(enumerate(("-c", line) for line in sys.argv[1:]))
envs = {number: {"LOCAL_RANK": str(number)} for number in args}
logs = DefaultLogsSpecs()
start_processes("it", entrypoint=sys.executable, args=args, envs=envs, logs_specs=logs).wait()
"""
QUIET = """
import os, signal, sys
os.setsid()
os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 1)
os.dup2(1, 2)
sys.argv, sys.path = ["quiet_launcher", *words], [folder, *sys.path]
exec(before)
from roadseg.learn.hardware import quiet_launcher
sys.exit(quiet_launcher.run("launcher"))
"""
WAIT = """
import os, signal, sys, time
def end(number, _):
    {}
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, end)
open("begun", "w").close()
time.sleep(60)
"""
SAVE = "time.sleep(0.3); sys.exit(128 + number)"
DEAF = "open('heard', 'w').close()"
PATIENCE_S = 60


@pytest.fixture
def start(start_code, tmp_path, monkeypatch):
    """Give a function that starts a launcher in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROADSEG_LAUNCHED", raising=False)

    def start(*words, launcher=CARELESS, before=""):
        (tmp_path / "launcher.py").write_text(launcher)
        names = {"folder": str(tmp_path), "said": str(tmp_path / "said"), "before": before}
        code = f"import os; os.chdir({str(tmp_path)!r})\n{QUIET}"
        return start_code(code, names | {"words": words})

    return start


@pytest.fixture
def ended(tmp_path):
    """Give a function that returns how a launcher ended, and what it said."""

    def ended(process):
        process.join(PATIENCE_S)
        return process.exitcode, (tmp_path / "said").read_text()

    return ended


def wait_for(path):
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end, f"no {path.name} appears"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
    ],
)
def test_a_launch_ends_as_its_process_whatever_the_launcher_says(start, ended, line, code):
    assert ended(start(line))[0] == code


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, 137), (signal.SIGSEGV, 139)])
def test_a_process_that_is_killed_or_crashes_is_told(start, ended, number, code):
    found, said = ended(start(f"import os; os.kill(os.getpid(), {int(number)})"))
    assert found == code
    assert said == "ERROR: a process was killed or crashed, often because memory ran out\n"


def test_the_failure_of_one_of_several_processes_ends_them_all(start, ended):
    lost = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(143)); time.sleep(60)"
    assert ended(start(lost, "import time; time.sleep(1); raise SystemExit(3)")) == (3, "")


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupted")]
)
def test_a_signal_reaches_the_process_which_has_time_to_save(start, ended, tmp_path, number, word):
    process = start(WAIT.format(SAVE))
    wait_for(tmp_path / "begun")
    os.kill(process.pid, number)
    assert ended(process) == (128 + number, f"{word}; run the same command to resume\n")


def test_a_second_signal_kills_a_process_that_does_not_heed_the_first(start, ended, tmp_path):
    process = start(WAIT.format(DEAF))
    wait_for(tmp_path / "begun")
    os.kill(process.pid, signal.SIGTERM)
    wait_for(tmp_path / "heard")
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process)[0] == 143


def test_what_is_ignored_stays_so_as_under_nohup(start, ended, tmp_path):
    process = start(WAIT.format(SAVE), before="signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    wait_for(tmp_path / "begun")
    os.kill(process.pid, signal.SIGHUP)
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process)[0] == 143


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("os.kill(os.getpid(), 15)", 143),
        ("raise subprocess.CalledProcessError(3, [])", 1),
    ],
)
def test_a_launcher_that_fails_or_is_ended_before_it_starts_anything_shows_no_traceback(
    start, ended, line, code
):
    launcher = (
        "import os, signal, subprocess\n"
        "from torch.distributed.elastic.multiprocessing.api import _terminate_process_handler\n"
        f"signal.signal(signal.SIGTERM, _terminate_process_handler)\n{line}"
    )
    found, said = ended(start(launcher=launcher))
    assert found == code
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("ends", "received", "code"),
    [
        ([0, 0], None, 0),
        ([2, 143], None, 2),
        ([143, 3], None, 3),
        ([75, 3], None, 3),
        ([75, -9], None, 75),
        ([143, -9], 15, 143),
        ([-9, -15], None, 137),
        ([-9, 143], None, 137),
        ([143, 143], 15, 143),
        ([-15], None, 143),
        ([0, 3], 15, 3),
        ([None], 2, 130),
        ([], 15, 143),
        ([], None, 0),
    ],
)
def test_the_first_failure_is_how_a_launch_ends(ends, received, code):
    assert exit_code(ends, received=received) == code


def test_a_launcher_that_a_signal_ends_while_it_ends_says_nothing(tmp_path):
    (tmp_path / "launcher.py").write_text(
        "import atexit, os; atexit.register(os.kill, os.getpid(), 15)"
    )
    words = [sys.executable, "-m", "roadseg.learn.hardware.quiet_launcher", "launcher"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (-15, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_torch_is_there_ends_it_without_a_traceback(tmp_path, number):
    (tmp_path / "torch.py").write_text(f"import os; os.kill(os.getpid(), {number:d})")
    words = [sys.executable, "-m", "roadseg.learn.hardware.quiet_launcher", "launcher"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (-number, "")
