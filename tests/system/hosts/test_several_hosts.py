"""Several hosts that share no disk: real network namespaces, each with a worker."""

import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from roadseg.errors import OutputError, RoadsegError
from roadseg.system.files import whole
from roadseg.system.hosts.parallel import Executor, each
from roadseg.system.hosts.task_files import TaskFiles

pytestmark = pytest.mark.hosts
TIMEOUT_S = 12.0


def executor(hosts, timeout_s=TIMEOUT_S):
    return Executor(scheduler=hosts.address, scheduler_timeout_s=timeout_s)


def copy(target, source, *, wait_s=0.0):
    """Copy a file to a folder, and return the path of the copy."""
    copied = target / source.name
    with whole(copied) as partial_name:
        partial_name.write_bytes(source.read_bytes())
    time.sleep(wait_s)
    return copied


def copy_files(target, source):
    return TaskFiles(reads=(source,), writes=(target / source.name,))


def read_other(_source):
    """Read what is no input: the file of passwords is one that every host has, so not that one."""
    return Path(os.environ["ROADSEG_OTHER"]).exists()


@pytest.fixture
def sources(tmp_path):
    """Write three files, the last of several pieces."""
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [folder / f"{number}" for number in range(3)]
    for path, size in zip(paths, (0, 10, 20 * 2**20), strict=True):
        path.write_bytes(os.urandom(size))
    return paths


def test_files_go_to_hosts_without_them_and_come_back(hosts, sources, tmp_path):
    hosts.start()
    hosts.start()
    target = tmp_path / "out"
    work, files = partial(copy, target), partial(copy_files, target)
    outcomes = list(each(work, sources, executor=executor(hosts), files=files))
    assert sorted(outcome.result for outcome in outcomes) == [target / s.name for s in sources]
    assert [(target / s.name).read_bytes() for s in sources] == [s.read_bytes() for s in sources]
    assert sorted(target.iterdir()) == [target / s.name for s in sources]


def test_a_host_that_is_cut_off_in_the_middle_loses_nothing(hosts, tmp_path):
    folder, target = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    sources = [folder / f"{number}" for number in range(12)]
    for source in sources:
        source.write_bytes(source.name.encode())
    for _ in range(3):
        hosts.start()
    work, files = partial(copy, target, wait_s=0.5), partial(copy_files, target)
    outcomes = each(work, sources, executor=executor(hosts, 30.0), files=files)
    done = [next(outcomes).result]
    hosts.cut(1)
    done += [outcome.result for outcome in outcomes]
    assert sorted(done) == sorted(target / source.name for source in sources)
    assert all((target / s.name).read_bytes() == s.name.encode() for s in sources)


def test_when_all_hosts_vanish_the_command_ends_in_time(hosts, sources, tmp_path):
    hosts.start()
    work = partial(copy, tmp_path / "out", wait_s=600)
    files = partial(copy_files, tmp_path / "out")
    cutting = threading.Timer(8.0, lambda: hosts.cut(0))
    cutting.start()
    with pytest.raises(RoadsegError, match=r"has had no usable worker for 12 s.*to resume"):
        list(each(work, sources, executor=executor(hosts), files=files))
    cutting.join()
    assert not (tmp_path / "out").exists()


def test_a_full_disk_of_a_worker_is_told(hosts, sources, tmp_path):
    hosts.start(disk="8m")
    work, files = partial(copy, tmp_path / "out"), partial(copy_files, tmp_path / "out")
    with pytest.raises(
        RoadsegError, match=r"worker tcp://\S+: its disk is full .*--local-directory.*to resume"
    ) as raised:
        list(each(work, sources, executor=executor(hosts), files=files))
    assert not isinstance(raised.value, OutputError)
    assert "\n" not in str(raised.value)


def test_workers_may_come_to_a_cluster_without_any(hosts, sources, tmp_path):
    threading.Timer(2.0, hosts.start).start()
    work, files = partial(copy, tmp_path / "out"), partial(copy_files, tmp_path / "out")
    outcomes = each(work, sources, executor=executor(hosts, 60.0), files=files)
    assert all(outcome.error is None for outcome in outcomes)
