import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roadseg.learn.hardware import processes
from roadseg.learn.hardware.processes import exit_code, is_first_to_write, reporting, watch

# a launcher that starts the rest of its words and ends with 0 whatever becomes of them
CARELESS = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
WAIT = """
import os, signal, sys, time
from roadseg.learn.hardware.processes import reporting
with reporting():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        print(os.getpid(), flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(130)
"""
REPORTS = "sys\nfrom roadseg.learn.hardware.processes import reporting\nwith reporting(): {}"
WATCH = (
    "import sys; from roadseg.learn.hardware.processes import watch;"
    "sys.exit(watch(sys.argv[1:], {}))"
)


def assert_ends(process):
    """Wait for the end of a process that is not ours, or no longer."""
    end = time.monotonic() + 60
    while (
        Path(f"/proc/{process}/cmdline").is_file() and Path(f"/proc/{process}/cmdline").read_bytes()
    ):
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.01)


def reported(code):
    """Watch a process that runs some lines and reports."""
    return watch([*CARELESS, sys.executable, "-c", f"import os, {REPORTS.format(code)}"], {})


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Let who watches look more often than every 0.2 s."""
    monkeypatch.setattr(processes, "_LOOK_S", 0.02)


@pytest.fixture(autouse=True)
def _signals():
    """Put back what watching changes."""
    names = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before = {name: signal.getsignal(name) for name in names}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.fixture
def waiting():
    """Start a process that is watched and waits; give who watches, and its own number."""
    words = [sys.executable, "-c", WATCH, *CARELESS, sys.executable, "-c", WAIT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
        yield watching, int(watching.stdout.readline())
        watching.kill()


@pytest.mark.parametrize(
    ("code", "ended"),
    [("pass", 0), ("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('why')", 1), ("1 / 0", 1)],
)
def test_a_command_ends_as_its_process_whatever_the_launcher_says(code, ended):
    assert reported(code) == ended


def test_a_process_that_is_killed_counts_as_killed():
    assert reported("os.kill(os.getpid(), 9)") == 137


def test_a_launcher_that_starts_nothing_has_failed():
    assert watch([sys.executable, "-c", ""], {}) == 1


@pytest.mark.parametrize(("name", "ended"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_reaches_the_process_behind_the_launcher(waiting, name, ended):
    watching, _ = waiting
    watching.send_signal(getattr(signal, name))
    assert watching.wait(30) == ended


def test_a_process_that_is_killed_behind_the_launcher_is_told(waiting):
    watching, process = waiting
    os.kill(process, signal.SIGKILL)
    assert watching.wait(30) == 137


def test_a_process_that_starts_after_the_signal_ends_at_once():
    late = """
import os, pathlib, signal, subprocess, sys, time
os.kill(os.getppid(), signal.SIGTERM)
while not pathlib.Path(os.environ["ROADSEG_STATUS"], "signal").exists():
    time.sleep(0.01)
subprocess.run(sys.argv[1:])
"""
    waits = [sys.executable, "-c", WAIT]
    assert watch([sys.executable, "-c", late, *waits], {}) == 143


def test_only_the_process_itself_reports_and_not_what_it_starts():
    assert reported("sys.exit(int('ROADSEG_STATUS' in os.environ))") == 0


def test_only_the_first_of_several_processes_says_a_line(capfd):
    says = "from roadseg.learn.hardware.processes import reporting, is_first_to_write\n"
    says += "with reporting():\n  if is_first_to_write('the same'): print('the same')"
    twice = "import subprocess, sys; subprocess.run(sys.argv[1:]); subprocess.run(sys.argv[1:])"
    assert watch([sys.executable, "-c", twice, sys.executable, "-c", says], {}) == 0
    assert capfd.readouterr().out == "the same\n"


def test_a_process_alone_says_every_line():
    assert [is_first_to_write("the same"), is_first_to_write("the same")] == [True, True]


def test_a_process_that_is_killed_or_crashes_is_told(caplog):
    reported("os.kill(os.getpid(), 11)")
    assert [record.message for record in caplog.records] == [
        "a process was killed or crashed, often because memory ran out"
    ]


def test_processes_do_not_outlive_the_one_that_watches(waiting):
    watching, process = waiting
    watching.kill()
    watching.wait()
    assert_ends(process)


def test_a_process_ends_that_begins_when_the_one_that_watches_is_gone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    words, variables = [sys.executable, "-c", WAIT], {"ROADSEG_STATUS": str(tmp_path)}
    ended = subprocess.run(words, env=os.environ | variables, start_new_session=True, timeout=60)  # noqa: PLW1510
    assert ended.returncode == -signal.SIGKILL


def test_a_process_ends_when_its_launcher_is_killed_that_nobody_watches():
    with subprocess.Popen(
        [*CARELESS, sys.executable, "-c", WAIT],
        env=os.environ | {"LOCAL_RANK": "0"},
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        process = int(launcher.stdout.readline())
        launcher.kill()
    assert_ends(process)


def test_a_signal_after_a_process_has_reported_ends_it_without_a_word(capfd):
    late = "(signal.signal(15, lambda *_: print('terminated')), atexit.register(os.kill,"
    late += " os.getpid(), 15), sys.exit(3))"
    assert reported(f"import atexit, signal; {late}") == 3
    assert capfd.readouterr().out == ""


def test_what_outlives_its_launcher_is_ended():
    leaving = "import subprocess as s, sys; s.Popen(sys.argv[1:], stdout=s.PIPE).stdout.readline()"
    assert watch([sys.executable, "-c", leaving, sys.executable, "-c", WAIT], {}) == 143


def test_a_second_signal_kills_a_process_that_does_not_heed_the_first():
    deaf = WAIT.replace("sys.exit(143)", "print('heard', flush=True)")
    words = [sys.executable, "-c", WATCH, *CARELESS, sys.executable, "-c", deaf]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
        watching.stdout.readline()
        watching.send_signal(signal.SIGTERM)
        assert watching.stdout.readline() == "heard\n"
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(60) == 143


def test_nothing_is_reported_where_nobody_watches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with reporting():
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ends", "launcher", "received", "code"),
    [
        ([0, 0], 0, None, 0),
        ([2, 143], 1, None, 2),
        ([143, 3], 1, None, 3),
        ([143, None], 1, 15, 143),
        ([143, None], 1, None, 137),
        ([143, 143], 1, 15, 143),
        ([0, 3], 1, 15, 3),
        ([None], 0, 2, 130),
        ([], 0, 15, 143),
        ([], 0, None, 1),
        ([], 4, None, 4),
        ([], -9, None, 137),
        ([0], -11, None, 139),
    ],
)
def test_the_first_failure_is_how_a_launch_ends(ends, launcher, received, code):
    assert exit_code(ends, launcher=launcher, received=received) == code
