import os
import signal
import subprocess
import sys

import pytest

from roadseg.learn.processes import exit_code, reporting, watch

# a launcher that starts the rest of its words and ends with 0 whatever becomes of them
CARELESS = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
WAIT = """
import os, signal, sys, time
from roadseg.learn.processes import reporting
with reporting():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        print(os.getpid(), flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(130)
"""
WATCH = "import sys; from roadseg.learn.processes import watch; sys.exit(watch(sys.argv[1:], {}))"


def reported(code):
    """Watch a process that runs some lines and reports."""
    lines = (
        f"import os, sys\nfrom roadseg.learn.processes import reporting\nwith reporting(): {code}"
    )
    return watch([*CARELESS, sys.executable, "-c", lines], {})


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


def test_a_process_that_starts_after_the_signal_ends_at_once(tmp_path, monkeypatch):
    (tmp_path / "signal").write_text("15")
    monkeypatch.setenv("ROADSEG_STATUS", str(tmp_path))
    with pytest.raises(SystemExit, match="143"), reporting():
        pytest.fail("it should not run")
    assert (tmp_path / f"{os.getpid()}.end").read_text() == "143"


def test_only_the_process_itself_reports_and_not_what_it_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("ROADSEG_STATUS", str(tmp_path))
    with reporting():
        assert "ROADSEG_STATUS" not in os.environ


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
