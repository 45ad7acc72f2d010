"""Schedulers, workers and what is neither, each a real process or socket on this machine."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from roadseg.errors import ConfigError, RoadsegError
from roadseg.system.hosts import schedulers
from roadseg.system.hosts.parallel import Executor, each

pytest.importorskip("distributed")
PATIENCE_S = 30.0  # of a test with a process that is to start
PROGRAM = f"""
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(1, 2)
sys.path.insert(0, {str(Path(__file__).parent)!r})
exec(before)
from distributed.cli import dask_scheduler, dask_worker
{{"scheduler": dask_scheduler, "worker": dask_worker}}[module].main([*words, "--no-dashboard"])
"""
OTHER_VERSIONS = """
from distributed import versions
told = versions.get_package_info
versions.get_package_info = lambda names: told(names) | {changed}
"""


def square(number):
    return number * number


def square_slowly(number):
    time.sleep(0.1)
    return number * number


def wait_for_ever(folder):
    """Leave a mark with the number of the process, and do not end."""
    (folder / str(os.getpid())).touch()
    time.sleep(600)


def wait_until(is_true):
    """Wait for what is to come true; return it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := is_true()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
    return found


def work_on(address, items=(2,), *, work=square, timeout_s=2.0):
    outcomes = each(
        work, items, executor=Executor(scheduler=address, scheduler_timeout_s=timeout_s)
    )
    return sorted(outcome.result for outcome in outcomes)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Let clusters be looked at more often than every 5 s, however long workers may take."""
    monkeypatch.setattr(schedulers, "_CHECK_S", 0.2)


@pytest.fixture
def start(start_code):
    """Give a function that starts a part of a cluster; all of them end with the test."""

    def run(module, *words, before=""):
        return start_code(PROGRAM, {"module": module, "words": words, "before": before})

    return run


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def scheduler(start, free_port):
    """Start a scheduler without workers; give its process and address."""
    process = start("scheduler", "--host", "127.0.0.1", "--port", str(free_port))
    wait_until(lambda: is_open(free_port))
    return process, f"tcp://127.0.0.1:{free_port}"


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def start_worker(start, scheduler):
    """Give a function that starts a worker of the scheduler."""
    return lambda **given: start("worker", scheduler[1], "--nthreads", "1", "--no-nanny", **given)


@pytest.fixture
def worker(start_worker, scheduler):
    """Start a worker of the scheduler, and wait until it works."""
    process = start_worker()
    assert work_on(scheduler[1], timeout_s=PATIENCE_S) == [4]
    return process


@contextmanager
def listening(answer):
    """Listen on a port, and answer everyone in the same way; give the address."""
    with ExitStack() as peers, socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):
                while True:
                    peer = peers.enter_context(server.accept()[0])
                    answer(peer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_worker_is_found_soon_however_long_it_may_take_to_come(scheduler, start_worker):
    begun = time.monotonic()
    timer = threading.Timer(0.1, start_worker)
    timer.start()
    assert work_on(scheduler[1], timeout_s=10_000.0) == [4]
    assert time.monotonic() - begun < PATIENCE_S
    timer.join()


@pytest.mark.parametrize("address", ["nonsense", "xyz://127.0.0.1:8786", "tcp://127.0.0.1:x"])
def test_what_is_no_address_is_an_error_of_the_config(address):
    with pytest.raises(ConfigError, match=r"--scheduler .*: expected an address such as tcp://"):
        work_on(address)


def test_a_port_where_nobody_listens_is_told(free_port):
    with pytest.raises(
        RoadsegError, match=r"no Dask scheduler answers there \(Timed out trying to connect"
    ):
        work_on(f"tcp://127.0.0.1:{free_port}")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda _: None, "no answer within 1 s"),
        (lambda peer: peer.close(), "."),
        (lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "allocate"),
        (lambda peer: peer.sendall(bytes([1, *[0] * 7]) + bytes(9)), "."),
        (lambda peer: peer.sendall(b"\x01\x00"), "no answer within 1 s"),
    ],
    ids=["silent", "closed", "http", "nonsense", "cut"],
)
def test_what_is_no_scheduler_is_told_in_time(answer, told):
    begun = time.monotonic()
    with listening(answer) as address, pytest.raises(RoadsegError) as raised:
        work_on(address, timeout_s=1.0)
    found = str(raised.value)
    assert f"--scheduler {address}: no Dask scheduler answers there (" in found
    assert told in found
    assert "\n" not in found
    assert time.monotonic() - begun < PATIENCE_S


def test_a_server_of_pages_is_no_scheduler(free_port):
    words = [sys.executable, "-m", "http.server", str(free_port), "--bind", "127.0.0.1"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: is_open(free_port))
        with pytest.raises(RoadsegError, match="no Dask scheduler answers there"):
            work_on(f"tcp://127.0.0.1:{free_port}", timeout_s=1.0)
        server.kill()


def test_tls_without_certificates_is_told(scheduler):
    with pytest.raises(RoadsegError, match=r"no Dask scheduler answers there \(.*TLS"):
        work_on(scheduler[1].replace("tcp", "tls"))


def test_a_scheduler_without_workers_is_told(scheduler):
    with pytest.raises(RoadsegError, match=r"has had no usable worker for 2 s.*`dask worker`"):
        work_on(scheduler[1])


def test_workers_may_join_in_time(scheduler, start_worker, caplog):
    caplog.set_level(logging.INFO)
    late = threading.Timer(0.1, start_worker)
    late.start()
    assert work_on(scheduler[1], [2, 3], timeout_s=PATIENCE_S) == [4, 9]
    assert f"--scheduler {scheduler[1]}: waiting for workers" in caplog.text


def test_a_worker_is_no_scheduler(scheduler, start):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    place = ["--host", "127.0.0.1", "--worker-port", str(port)]
    start("worker", scheduler[1], "--no-nanny", *place)
    wait_until(lambda: is_open(port))
    with pytest.raises(RoadsegError, match="no Dask scheduler answers there"):
        work_on(f"tcp://127.0.0.1:{port}")


def kill_at_work(folder, number):
    """Send a signal to the process that leaves a mark in a folder."""
    mark = wait_until(lambda: next(folder.iterdir(), None))
    os.kill(int(mark.name), number)


@pytest.mark.usefixtures("worker")
def test_the_last_worker_may_not_be_gone_for_long(scheduler, start_worker, tmp_path):
    killing = threading.Thread(target=kill_at_work, args=(tmp_path, signal.SIGKILL))
    killing.start()
    with pytest.raises(RoadsegError, match=r"has had no usable worker for 3 s.*to resume"):
        work_on(scheduler[1], [tmp_path], work=wait_for_ever, timeout_s=3.0)
    start_worker()
    assert work_on(scheduler[1], [2, 3], timeout_s=PATIENCE_S) == [4, 9]


def test_a_worker_that_comes_in_time_takes_the_place_of_the_last(scheduler, worker, start_worker):
    outcomes = each(square_slowly, range(6), executor=Executor(1, scheduler[1], PATIENCE_S))
    done = [next(outcomes).result]
    worker.kill()
    start_worker()
    done += [outcome.result for outcome in outcomes]
    assert sorted(done) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.usefixtures("worker")
def test_a_scheduler_that_ends_or_halts_midway_is_told(scheduler, tmp_path, number):
    def stop():
        wait_until(lambda: next(tmp_path.iterdir(), None))
        os.kill(scheduler[0].pid, number)

    threading.Thread(target=stop).start()
    with pytest.raises(RoadsegError, match=r"no longer answers.*same command to resume"):
        work_on(scheduler[1], [tmp_path], work=wait_for_ever, timeout_s=3.0)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ('{"roadseg": None}', "has no roadseg in Python"),
        ('{"roadseg": "0.0.1"}', r"has roadseg 0\.0\.1 in Python"),
        ('{"python": "3.9.1.final.0"}', r"has roadseg \S+ in Python 3\.9, but this"),
    ],
)
def test_a_worker_that_differs_is_named(scheduler, start_worker, changed, told):
    start_worker(before=OTHER_VERSIONS.format(changed=changed))
    with pytest.raises(
        RoadsegError, match=rf"worker tcp://\S+ {told}.*install the same versions there"
    ):
        work_on(scheduler[1], timeout_s=PATIENCE_S)


def test_without_work_no_scheduler_is_asked(free_port):
    assert work_on(f"tcp://127.0.0.1:{free_port}", []) == []
