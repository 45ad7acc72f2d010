"""Work on workers that do not see the files of the command, here on one machine."""

import os
from functools import partial
from pathlib import Path

import pytest

from roadseg.errors import DataError, RoadsegError
from roadseg.system.files import whole, whole_folder
from roadseg.system.hosts import parcels, schedulers
from roadseg.system.hosts.deliveries import _inside
from roadseg.system.hosts.parallel import Executor, each
from roadseg.system.hosts.parcels import Output
from roadseg.system.hosts.task_files import TaskFiles


@pytest.fixture
def executor(apart):
    """Give the executor of workers that do as if they saw no file of the command."""
    return Executor(scheduler=apart)


def double(target, source):
    """Write a file twice as long; say where this was done."""
    copied = target / source.name
    with whole(copied) as partial_name:
        partial_name.write_bytes(2 * source.read_bytes())
    return copied, str(source)


def copy_to_folder(target, source):
    with whole_folder(target / source.stem) as folder:
        (folder / "in").mkdir()
        (folder / "in/a").write_bytes(source.read_bytes())


def add_file(source):
    """Write a file beside an input that may be written as well."""
    with whole(source.with_suffix(".new")) as partial_name:
        partial_name.touch()


def fail(source):
    raise DataError(f"{source}: bad")


def fail_by_worker(source):
    raise RoadsegError(f"{source}: no engine")


def read_too_much(other, _source):
    return other.exists()


def files_to(target, source):
    return TaskFiles(reads=(source,), writes=(target / source.name,))


def made(work, sources, executor, files):
    found = sorted(each(work, sources, executor=executor, files=files), key=lambda one: one.index)
    return [outcome.error or outcome.result for outcome in found]


@pytest.fixture
def sources(tmp_path):
    paths = [tmp_path / f"in/{number}.bin" for number in range(4)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(os.urandom(1000))
    return paths


def test_outputs_come_back_under_their_names(executor, sources, tmp_path):
    target = tmp_path / "out"
    found = made(partial(double, target), sources, executor, partial(files_to, target))
    assert [path for path, _ in found] == [target / source.name for source in sources]
    assert [(target / s.name).read_bytes() for s in sources] == [
        2 * s.read_bytes() for s in sources
    ]
    assert len(list(target.iterdir())) == len(sources)


def test_the_work_was_done_on_copies(executor, sources, tmp_path):
    target = tmp_path / "out"
    found = made(partial(double, target), sources, executor, partial(files_to, target))
    assert all("jobs" in there for _, there in found)


def test_large_outputs_come_in_pieces(executor, sources, tmp_path):
    sources[0].write_bytes(os.urandom(parcels.PIECE_BYTES))
    target = tmp_path / "out"
    made(partial(double, target), sources[:1], executor, partial(files_to, target))
    assert (target / sources[0].name).read_bytes() == 2 * sources[0].read_bytes()


def test_a_folder_comes_back_as_a_whole(executor, sources, tmp_path):
    target = tmp_path / "out"
    (target / "0").mkdir(parents=True)
    (target / "0/stale").touch()

    def files(source):
        return TaskFiles(reads=(source,), writes=(target / source.stem,))

    made(partial(copy_to_folder, target), sources[:1], executor, files)
    assert [path.name for path in (target / "0").iterdir()] == ["in"]
    assert (target / "0/in/a").read_bytes() == sources[0].read_bytes()


def test_an_input_that_was_not_changed_does_not_come_back(executor, sources):
    before = sources[0].stat().st_ino

    def files(source):
        return TaskFiles(reads=(source,), writes=(source, source.with_suffix(".new")))

    made(add_file, sources[:1], executor, files)
    assert sources[0].with_suffix(".new").exists()
    assert sources[0].stat().st_ino == before


def test_errors_name_the_files_of_the_command(executor, sources):
    (error,) = made(fail, sources[:1], executor, lambda source: TaskFiles(reads=(source,)))
    assert isinstance(error, DataError)
    assert str(error) == f"{sources[0]}: bad"


def test_errors_that_are_not_about_data_name_the_worker(executor, sources):
    (error,) = made(fail_by_worker, sources[:1], executor, lambda s: TaskFiles(reads=(s,)))
    assert str(error).startswith(f"{sources[0]}: no engine (on worker tcp://")


def test_files_that_are_no_inputs_are_not_there(executor, sources):
    found = made(
        partial(read_too_much, sources[1]), sources[:1], executor, lambda s: TaskFiles(reads=(s,))
    )
    assert found == [False]


def test_no_more_tasks_than_there_is_room_for_are_begun(dask, monkeypatch):
    monkeypatch.setattr(schedulers, "_LEAST_TASKS", 3)
    monkeypatch.setattr(schedulers, "_TASKS_OF_A_THREAD", 1)
    begun = []

    class Items(list):
        def __getitem__(self, number):
            begun.append(number)
            return number

    outcomes = each(abs, Items(range(20)), executor=Executor(scheduler=dask.scheduler_address))
    next(outcomes)
    assert len(begun) == 3
    assert len(list(outcomes)) == 19


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "."])
def test_a_worker_cannot_write_elsewhere(name):
    with pytest.raises(RoadsegError, match="a worker sent a file with the name"):
        _inside(Output(0, name, 0, b""))


def test_a_worker_that_loses_its_outputs_makes_them_again(executor, sources, tmp_path, monkeypatch):
    sources[0].write_bytes(os.urandom(parcels.PIECE_BYTES))
    target, run_on, lost = tmp_path / "out", schedulers.Cluster.run_on, []

    def lose(cluster, worker, function, *args, **named):
        if function.__name__ == "read_output" and not lost:
            lost.append(worker)
            raise OSError("gone")
        return run_on(cluster, worker, function, *args, **named)

    monkeypatch.setattr(schedulers.Cluster, "run_on", lose)
    made(partial(double, target), sources[:1], executor, partial(files_to, target))
    assert lost
    assert (target / sources[0].name).read_bytes() == 2 * sources[0].read_bytes()


def test_a_failed_work_leaves_no_folder(executor, sources, tmp_path):
    target = tmp_path / "out"
    made(fail, sources[:1], executor, partial(files_to, target))
    assert not target.exists()
    assert Path(sources[0]).exists()
