import errno
import os
import socket
import subprocess
import sys
from functools import partial
from threading import Timer

import pytest
from filelock import FileLock

from roadseg.errors import OutputError
from roadseg.system.locks import lock

HOLD = """
import sys, time
from pathlib import Path
from roadseg.system.locks import lock
with lock(Path(sys.argv[1]), **eval(sys.argv[2])):
    print("held", flush=True)
    time.sleep(60)
"""


FORK = """
import os, sys, time
from pathlib import Path
from roadseg.system.locks import lock
with lock(Path(sys.argv[1])):
    if os.fork():
        print("forked", flush=True)
        time.sleep(60)
    time.sleep(1)
    os._exit(0)
"""

COUNT = """
import sys
from pathlib import Path
from roadseg.errors import OutputError
from roadseg.system.locks import lock
done = 0
while done < 40:
    try:
        with lock(Path(sys.argv[1])):
            Path(sys.argv[2]).touch(exist_ok=False)  # which fails if another holds it too
            Path(sys.argv[2]).unlink()
            done += 1
    except OutputError:
        pass
"""


@pytest.fixture
def other(tmp_path, request, impatient):  # noqa: ARG001 - it does not release the lock
    """Start another process that holds the lock; end it afterwards."""
    options = getattr(request, "param", {})
    words = [sys.executable, "-c", HOLD, str(tmp_path), repr(options)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_of_a_killed_process_is_free_once_what_that_forked_has_ended(tmp_path):
    words = [sys.executable, "-c", FORK, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "forked\n"
        parent.kill()
    with lock(tmp_path):
        held = (tmp_path / ".lock-holder").read_text()
    assert held == f"process {os.getpid()} on {socket.gethostname()}"


@pytest.mark.usefixtures("other")
def test_a_holder_on_another_machine_is_named_with_it(tmp_path):
    (tmp_path / ".lock-holder").write_text("process 12 on elsewhere")
    with pytest.raises(OutputError, match="process 12 on elsewhere is using"), lock(tmp_path):
        pass


@pytest.mark.parametrize("error", [NotImplementedError("no flock"), OSError(37, "No locks")])
def test_a_disk_that_cannot_lock_is_told(tmp_path, monkeypatch, error):
    def refuse(*_):
        raise error

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(OutputError, match=r"cannot be locked .*--run"), lock(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputError, match=r"file.run: cannot be written: Not a directory"),
        lock(tmp_path / "file" / "run"),
    ):
        pass


@pytest.mark.parametrize("other", [{"part": "fold-0"}], indirect=True)
@pytest.mark.parametrize("options", [{"part": "fold-1"}, {"alone": False}])
@pytest.mark.usefixtures("other")
def test_another_fold_and_what_changes_no_data_go_beside_a_training(tmp_path, options):
    with lock(tmp_path, **options):
        assert (tmp_path / ".fold-0.lock").exists()


FOLD = {"part": "fold-0"}


@pytest.mark.parametrize(
    ("other", "options"),
    [({}, {}), ({}, FOLD), (FOLD, FOLD), (FOLD, {})],
    indirect=["other"],
    ids=["data twice", "a training after data", "a fold twice", "data after a training"],
)
def test_what_changes_the_same_is_refused_with_the_number_of_the_process(tmp_path, other, options):
    told = rf"process {other.pid} is using this run folder; wait"
    with pytest.raises(OutputError, match=told), lock(tmp_path, **options):
        pass


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("take", [partial(lock, part="shard-1-of-2"), lock])
def test_who_holds_a_lock_briefly_is_waited_for(tmp_path, take, left):
    if left:  # by a process of another machine that was killed
        (tmp_path / ".lock-holder").write_text("process 1 on elsewhere")
    own = FileLock(tmp_path / ".lock", thread_local=False)
    own.acquire()
    Timer(0.3, own.release).start()
    with take(tmp_path):
        assert not own.is_locked


@pytest.mark.parametrize("options", [{}, {"part": "fold-0"}, {"part": "shard-1-of-2"}])
def test_no_lock_stays_behind_and_no_folder_in_which_nothing_was_written(tmp_path, options):
    with lock(tmp_path / "a" / "run", **options):
        assert len(list((tmp_path / "a" / "run").iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_something_was_written_stays(tmp_path):
    with lock(tmp_path / "run"):
        (tmp_path / "run" / "a").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["a"]


def test_of_processes_that_come_and_go_one_at_a_time_holds_the_folder(tmp_path):
    words = [sys.executable, "-c", COUNT, str(tmp_path / "run"), str(tmp_path / "mark")]
    processes = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("writable", [False, True])
def test_a_folder_that_can_only_be_read_is_not_held(tmp_path, monkeypatch, writable):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    monkeypatch.setattr(os, "access", lambda *_: writable)
    if writable:
        with pytest.raises(OutputError, match=r"cannot be locked .Read-only"), lock(tmp_path):
            pass
    else:
        with lock(tmp_path):
            assert list(tmp_path.iterdir()) == []
