"""Launchers choose cores and libraries; their processes end with them, and write each line once."""

import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click
import pytest
from torch.backends.xeon import run_cpu
from torch.distributed.run import get_args_parser

from roadseg.commands.cli.main import main
from roadseg.errors import ConfigError
from roadseg.learn.hardware.launchers import (
    LaunchOptions,
    is_first_to_write,
    launch,
    plan,
    share_of_cpus,
    shares_of_cores,
)
from roadseg.system.machine import Machine, read_machine

TCMALLOC, JEMALLOC, IOMP = "/l/libtcmalloc.so.4.5.9", "/l/libjemalloc.so.2", "/l/libiomp5.so"
PYTHON = [sys.executable, "-m", "roadseg"]
LAUNCHERS = {"run_cpu": {"launcher": "run_cpu"}, "torchrun": {"processes": 1}}  # And their options.
ONE_NODE = Machine(
    model="",
    cpus=(0, 1, 2, 3),
    cores=(0, 1, 2, 3),
    nodes={0: (0, 1, 2, 3)},
    quota=None,
    memory_bytes=None,
    memory_limit_bytes=None,
    libraries={},
    unbound="",
)
# CPUs 4 to 7 are the second threads of 0 to 3
TWO_NODES = replace(ONE_NODE, cpus=tuple(range(8)), nodes={0: (0, 2, 4, 6), 1: (1, 3, 5, 7)})
WITH_LIBRARIES = replace(
    ONE_NODE,
    libraries={"tcmalloc": Path(TCMALLOC), "jemalloc": Path(JEMALLOC), "iomp5": Path(IOMP)},
)
REFUSED = [
    ({"ncores": 0}, "choose 1 to 4"),
    ({"ncores": 5}, r"--ncores 5: .*4 physical cores \(CPUs 0-3\)"),
    ({"nodes": (1,)}, "--nodes 1: .* NUMA nodes 0"),
    ({"launcher": "none", "ncores": 1}, "use --launcher pin"),
    ({"launcher": "pin", "processes": 2}, "--launcher pin starts one process, got --processes 2"),
    ({"processes": 0}, "expected 1 to 4"),
    ({"processes": 5}, "expected 1 to 4"),
    ({"processes": 3, "ncores": 2}, "expected 1 to 2"),
    ({"allocator": "tcmalloc"}, "apt install libtcmalloc-minimal4"),
    ({"allocator": "jemalloc"}, "apt install libjemalloc2"),
    ({"omp": "intel"}, "pip install intel-openmp"),
]


def planned(machine=ONE_NODE, arguments=("train",), environment=None, **options):
    return plan(LaunchOptions(**options), machine, arguments, environment=environment or {})


def parser_of(launcher):
    """Give the parser of a launcher."""
    if launcher == "run_cpu":
        parser = ArgumentParser()
        run_cpu.create_args(parser)
        return parser
    return get_args_parser()


def passed_on(launcher, arguments):
    """Give the arguments of roadseg that are left when the launcher has read its line."""
    words = planned(arguments=arguments, **LAUNCHERS[launcher]).words
    read = parser_of(launcher).parse_args(words[4:])
    if launcher == "torchrun":
        assert (read.module, read.training_script) == (True, "roadseg")
        return read.training_script_args
    started = [read.program, *read.program_args]
    assert started[:3] == PYTHON
    return started[3:]


def commands(group, path=()):
    """Yield the words and the command of all that a group knows, itself included."""
    yield [*path], group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


def said(parameter):
    """Give all ways to say an option, with a value where it takes one."""
    if isinstance(parameter, click.Argument):
        return ["x y"]
    values = [] if parameter.is_flag or parameter.count else ["x y"]
    return [word for name in parameter.opts + parameter.secondary_opts for word in [name, *values]]


def start(launcher, *arguments):
    """Start `roadseg train` with options that begin as the launcher's own do."""
    options = ["--ncores", "1", "--nodes", "0", "--allocator", "default"]
    for name, value in LAUNCHERS[launcher].items():
        options += [f"--{name}", str(value)]
    words = [*PYTHON, "train", *options, *arguments]
    kept = {k: v for k, v in os.environ.items() if k not in {"OMP_NUM_THREADS", "LD_PRELOAD"}}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=kept)


def run_launch(options, *arguments, **variables):
    """LaunchOptions `roadseg` in a process of its own; return that when it has ended."""
    code = (
        "import logging, sys\n"
        "from roadseg.errors import RoadsegError\n"
        "from roadseg.learn.hardware.launchers import LaunchOptions, launch\n"
        "logging.basicConfig(level=logging.INFO)\n"
        f"try: launch(LaunchOptions({options}), sys.argv[1:])\n"
        "except RoadsegError as error: print(error, file=sys.stderr); sys.exit(error.exit_code)"
    )
    kept = {k: v for k, v in os.environ.items() if k not in {"OMP_NUM_THREADS", "LD_PRELOAD"}}
    words = [sys.executable, "-c", code, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=kept | variables)


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_cannot_be_done_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        planned(**options)


@pytest.mark.parametrize("launcher", ["pin", "run_cpu"])
def test_every_launcher_takes_all_cores_there_are_and_not_one_more(launcher):
    assert planned(launcher=launcher, ncores=4).variables["OMP_NUM_THREADS"] == "4"
    with pytest.raises(ConfigError, match="choose 1 to 4"):
        planned(launcher=launcher, ncores=5)


def test_a_quota_limits_the_cores_and_is_named():
    machine = replace(ONE_NODE, quota=2.5)
    assert planned(machine, ncores=2).cpus == (0, 1)
    with pytest.raises(ConfigError, match=r"2 physical cores .*quota 2\.5"):
        planned(machine, ncores=3)


@pytest.mark.parametrize(
    ("options", "launcher"), [({"allocator": "default"}, "pin"), ({"processes": 2}, "torchrun")]
)
def test_any_option_is_enough_to_launch(options, launcher):
    assert planned(**options).variables["ROADSEG_LAUNCHED"] == launcher


def test_pinning_binds_to_cores_and_starts_as_many_threads():
    command = planned(ncores=2, arguments=["train", "--fold", "1"])
    assert (command.cpus, command.variables["OMP_NUM_THREADS"]) == ((0, 1), "2")
    assert list(command.words) == [*PYTHON, "train", "--fold", "1"]


@pytest.mark.parametrize(
    ("options", "cpus"), [({"ncores": 3}, (0, 2, 1)), ({"nodes": (1,)}, (1, 3))]
)
def test_cores_are_taken_node_after_node_and_only_where_they_are_wished(options, cpus):
    assert planned(replace(TWO_NODES, unbound="no"), **options).cpus == cpus


@pytest.mark.parametrize(
    ("machine", "options", "words"),
    [
        (TWO_NODES, {"ncores": 2}, ["numactl", "-C", "0,2", "-m", "0"]),
        (TWO_NODES, {"ncores": 3}, ["numactl", "-C", "0-2", "-m", "0-1"]),
        (TWO_NODES, {"nodes": (1,)}, ["numactl", "-C", "1,3", "-m", "1"]),
        (ONE_NODE, {"ncores": 2}, []),
    ],
)
def test_memory_is_bound_to_the_nodes_of_the_cores_if_there_are_several(machine, options, words):
    assert list(planned(machine, **options).words) == [*words, *PYTHON, "train"]


def test_a_preset_number_of_threads_is_kept():
    command = planned(ncores=4, environment={"OMP_NUM_THREADS": "3"})
    assert command.variables["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("options", "preset", "preload"),
    [
        ({"allocator": "auto"}, None, TCMALLOC),
        ({"ncores": 1}, None, TCMALLOC),
        ({"allocator": "jemalloc"}, None, JEMALLOC),
        ({"allocator": "default"}, None, None),
        ({"allocator": "auto"}, "/own/lib.so", f"{TCMALLOC}:/own/lib.so"),
        ({"allocator": "auto"}, "/own/libjemalloc.so", "/own/libjemalloc.so"),
        ({"allocator": "tcmalloc"}, "/own/libjemalloc.so /a.so", f"{TCMALLOC}:/a.so"),
        ({"allocator": "default"}, f"{TCMALLOC}:/a.so", "/a.so"),
        ({"allocator": "default", "omp": "intel"}, "/a.so", f"/a.so:{IOMP}"),
        ({"allocator": "default", "omp": "gnu"}, IOMP, ""),
    ],
)
def test_libraries_are_loaded_beside_those_that_already_are(options, preset, preload):
    environment = {} if preset is None else {"LD_PRELOAD": preset}
    command = planned(WITH_LIBRARIES, environment=environment, **options)
    assert command.variables.get("LD_PRELOAD") == preload


def test_auto_does_without_tcmalloc_and_never_takes_jemalloc():
    machine = replace(ONE_NODE, libraries={"jemalloc": Path(JEMALLOC)})
    assert "LD_PRELOAD" not in planned(machine, allocator="auto").variables


def test_intel_openmp_is_set_up_only_where_it_is_loaded():
    assert planned(WITH_LIBRARIES, omp="intel").variables["KMP_BLOCKTIME"] == "1"
    assert "KMP_BLOCKTIME" not in planned(WITH_LIBRARIES, omp="gnu").variables


def test_jemalloc_is_told_to_keep_what_is_freed_unless_it_is_told_otherwise():
    chosen = planned(WITH_LIBRARIES, allocator="jemalloc").variables["MALLOC_CONF"]
    assert {"dirty_decay_ms:-1", "muzzy_decay_ms:-1"} <= {*chosen.split(",")}
    preset = {"MALLOC_CONF": "narenas:1"}
    kept = planned(WITH_LIBRARIES, allocator="jemalloc", environment=preset)
    assert kept.variables["MALLOC_CONF"] == "narenas:1"
    assert "MALLOC_CONF" not in planned(WITH_LIBRARIES, allocator="tcmalloc").variables


def test_processes_that_predict_get_cores_node_after_node_and_leave_some_idle():
    machine = replace(TWO_NODES, cores=(0, 1, 2, 3))
    assert shares_of_cores(machine, 2) == [(0, 2), (1, 3)]
    assert shares_of_cores(machine, 3) == [(0,), (2,), (1,)]
    assert shares_of_cores(machine, 5) == [()] * 5


def test_run_cpu_gets_its_cores_before_another_option():
    words = planned(launcher="run_cpu", ncores=2).words
    after = words[words.index("--ncores-per-instance") + 2]
    assert after.startswith("--")
    assert words[words.index("--core-list") + 1] == "0,1"


def test_run_cpu_starts_python_itself():
    words = list(planned(launcher="run_cpu").words)
    assert words[words.index("--no-python") + 1 :] == ["--", *PYTHON, "train"]


def test_torchrun_deals_cores_and_threads_to_its_processes():
    command = planned(processes=2, ncores=4)
    assert command.variables["OMP_NUM_THREADS"] == "2"
    assert (command.cpus, command.variables["ROADSEG_CPUS"]) == ((0, 1, 2, 3), "0,1,2,3")


def test_processes_of_torchrun_do_not_share_a_node_where_they_need_not():
    cpus = planned(TWO_NODES, processes=2).cpus
    assert [share_of_cpus(cpus, rank, 2) for rank in (0, 1)] == [(0, 2), (1, 3)]


def test_cores_left_over_stay_idle():
    assert [share_of_cpus((0, 1, 2), rank, 2) for rank in (0, 1)] == [(0,), (1,)]


@pytest.mark.parametrize("variable", ["ROADSEG_LAUNCHED", "LOCAL_RANK"])
def test_what_was_launched_launches_nothing(monkeypatch, variable):
    monkeypatch.setenv(variable, "0")
    launch(LaunchOptions(ncores=1), ["--version"])


@pytest.mark.parametrize("options", [LaunchOptions(), LaunchOptions("none")])
def test_what_is_not_wished_is_not_launched(options):
    launch(options, ["--version"])


def test_a_pinned_command_ends_as_it_would_by_itself():
    ended = run_launch("ncores=1", "train", "--config", "missing.json")
    assert ended.returncode == 2
    assert "Error: missing.json" in ended.stderr


def test_the_line_that_is_shown_does_the_same_by_hand():
    shown = run_launch("ncores=1, allocator='default'", "config", "show", "--set", "train.epochs=7")
    line = shown.stderr.partition("launching: ")[2].splitlines()[0]
    by_hand = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
    assert by_hand.stdout == shown.stdout
    assert '"epochs": 7' in shown.stdout


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_option_of_every_command_passes_through_the_launcher(launcher):
    for path, command in commands(main):
        arguments = [*path, *chain.from_iterable(map(said, command.params)), "--", "-a b.tif"]
        assert passed_on(launcher, arguments) == arguments


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launched_command_fails_as_it_would_by_itself(launcher, tmp_path):
    ended = start(launcher, "--config", "missing file.json", "--run", tmp_path / "run")
    assert (ended.returncode, ended.stdout) == (2, "")
    errors = [line for line in ended.stderr.splitlines() if line.startswith("Error")]
    assert (len(errors), "missing file.json does not exist" in errors[0]) == (1, True)
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process")
def test_a_process_of_torchrun_settles_on_its_share(answer):
    cpus = sorted(os.sched_getaffinity(0))
    shared = {"ROADSEG_CPUS": ",".join(map(str, cpus)), "LOCAL_RANK": "0"}
    code = (
        f"import os; os.environ |= {shared | {'LOCAL_WORLD_SIZE': str(len(cpus))}};"
        "from roadseg.learn.hardware.launchers import bind_to_share; bind_to_share();"
        "answer(os.sched_getaffinity(0))"
    )
    assert answer(code) == {cpus[0]}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process")
def test_a_process_that_predicts_settles_on_its_share(answer):
    code = (
        "import os, torch; from roadseg.learn.hardware.cpu import share_cores;"
        "torch.set_num_threads(4); share_cores(1, 2);"
        "answer((os.sched_getaffinity(0), torch.get_num_threads()))"
    )
    cores, threads = answer(code)
    shares = shares_of_cores(read_machine(), 2)
    assert cores == {*shares[1]} or not shares[1]
    assert threads == 2


# A process that starts another one, tells the numbers of both, and waits.
WAIT = """
import subprocess, sys, time
from roadseg.learn.hardware.launchers import end_with_launcher
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
