import os
import subprocess
import sys

import pytest

from roadseg.system.machine import format_cpus, parse_cpus, read_machine


@pytest.fixture
def write(tmp_path):
    """Give a function that writes a file of a drawn machine."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
        return file

    return write


@pytest.fixture
def two_sockets(tmp_path, write):
    """Draw 2 sockets of 2 cores of 2 threads: CPUs 0 and 4 are one core, 0 1 4 5 one node."""
    for cpu in range(8):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        write(f"{folder}/physical_package_id", str(cpu % 4 // 2))
        write(f"{folder}/core_id", str(cpu % 2))
    write("sys/devices/system/node/node0/cpulist", "0-1,4-5")
    write("sys/devices/system/node/node1/cpulist", "2-3,6-7")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-2,8", (0, 1, 2, 8)), ("3", (3,)), ("", ()), ("0,2,4-5", (0, 2, 4, 5))]
)
def test_numbers_of_cpus_are_read_and_written_as_linux_does(text, cpus):
    assert (parse_cpus(text), format_cpus(cpus)) == (cpus, text)


@pytest.mark.parametrize(
    ("affinity", "cores"),
    [(range(8), (0, 1, 2, 3)), ({1, 4, 5}, (1, 4))],
    ids=["by its first thread", "by its second, where the first is not ours"],
)
def test_two_threads_of_a_core_count_once(two_sockets, affinity, cores):
    assert read_machine(two_sockets, affinity=affinity).cores == cores


def test_dies_of_a_socket_may_number_their_cores_alike(write, tmp_path):
    for cpu in (0, 1):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        write(f"{folder}/physical_package_id", "0")
        write(f"{folder}/die_id", str(cpu))
        write(f"{folder}/core_id", "0")
    assert read_machine(tmp_path, affinity={0, 1}).cores == (0, 1)


def test_every_cpu_is_a_core_of_one_node_where_linux_tells_of_none(tmp_path):
    machine = read_machine(tmp_path, affinity={0, 1, 5})
    assert (machine.cores, machine.nodes) == ((0, 1, 5), {0: (0, 1, 5)})


@pytest.mark.parametrize(
    ("affinity", "nodes"),
    [(range(8), {0: (0, 1, 4, 5), 1: (2, 3, 6, 7)}), ({2, 3}, {1: (2, 3, 6, 7)})],
    ids=["all", "without one that has no CPU of ours"],
)
def test_nodes_are_read_with_their_cpus(two_sockets, write, affinity, nodes):
    write("sys/devices/system/node/node2/cpulist", "")  # Memory alone.
    assert read_machine(two_sockets, affinity=affinity).nodes == nodes


@pytest.mark.parametrize(
    ("cgroup", "files", "quota"),
    [
        ("0::/job", {"job/cpu.max": "150000 100000"}, 1.5),
        ("0::/job/step", {"job/cpu.max": "100000 100000", "job/step/cpu.max": "max 100000"}, 1.0),
        ("0::/job/step", {"job/cpu.max": "100000 100000", "job/step/cpu.max": "50000 100000"}, 0.5),
        ("0::/not/mounted", {"cpu.max": "200000 100000"}, 2.0),
        ("0::/job", {"job/cpu.max": "max 100000"}, None),
        ("0::/job", {}, None),
        (
            "3:cpu,cpuacct:/job\n0::/",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("0::/job", {"unified/job/cpu.max": "100000 100000"}, 1.0),
    ],
    ids=["v2", "parent", "child", "container", "max", "no controller", "v1", "v1 none", "hybrid"],
)
def test_the_tightest_quota_of_the_control_groups_counts(write, tmp_path, cgroup, files, quota):
    write("proc/self/cgroup", cgroup)
    for name, text in files.items():
        write(f"sys/fs/cgroup/{name}", text)
    assert read_machine(tmp_path, affinity=range(4)).quota == quota


@pytest.mark.parametrize(
    ("quota_us", "usable"), [(50000, 1), (199999, 1), (200000, 2), (400000, 4), (900000, 4)]
)
def test_a_quota_leaves_whole_cores_and_at_least_one(two_sockets, write, quota_us, usable):
    write("proc/self/cgroup", "0::/")
    write("sys/fs/cgroup/cpu.max", f"{quota_us} 100000")
    assert read_machine(two_sockets, affinity=range(8)).usable_cores == usable


@pytest.mark.parametrize(
    ("file", "text", "limit"),
    [
        ("job/memory.max", "1048576", 1048576),
        ("job/memory.max", "max", None),
        ("memory/job/memory.limit_in_bytes", "1048576", 1048576),
        ("memory/job/memory.limit_in_bytes", "9223372036854771712", None),
    ],
)
def test_memory_is_limited_by_the_control_group(write, tmp_path, file, text, limit):
    write("proc/meminfo", "MemTotal:        2048 kB")
    write("proc/self/cgroup", "4:memory:/job\n0::/job")
    write(f"sys/fs/cgroup/{file}", text)
    machine = read_machine(tmp_path, affinity={0})
    assert (machine.memory_bytes, machine.memory_limit_bytes) == (2097152, limit)


@pytest.mark.parametrize(
    ("architecture", "folder"),
    [("x86_64", "usr/lib/x86_64-linux-gnu"), ("aarch64", "usr/lib/aarch64-linux-gnu")],
)
def test_libraries_are_found_where_debian_puts_them(
    write, tmp_path, monkeypatch, architecture, folder
):
    monkeypatch.setattr("platform.machine", lambda: architecture)
    files = {
        "tcmalloc": write(f"{folder}/libtcmalloc_minimal.so.4", ""),
        "jemalloc": write(f"{folder}/libjemalloc.so.2", ""),
    }
    assert read_machine(tmp_path, affinity={0}).libraries == files


def test_openmp_is_found_where_pip_puts_it(write, tmp_path):
    file = write(f"{sys.prefix.lstrip('/')}/lib/libiomp5.so", "")
    assert read_machine(tmp_path, affinity={0}).libraries == {"iomp5": file}


def test_the_own_folders_of_the_user_come_first(write, tmp_path, monkeypatch):
    write("usr/lib/libjemalloc.so.2", "")
    file = write("opt/own/libjemalloc.so.2", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/own")
    assert read_machine(tmp_path, affinity={0}).libraries == {"jemalloc": file}


def test_a_library_goes_by_the_name_of_its_file_and_not_of_a_link(write, tmp_path):
    file = write("usr/lib/libtcmalloc.so.4.5.10", "")
    (file.parent / "libtcmalloc.so").symlink_to(file.name)
    assert read_machine(tmp_path, affinity={0}).libraries == {"tcmalloc": file}


@pytest.mark.parametrize(
    ("script", "unbound"),
    [
        (None, "numactl is not installed"),
        ("exit 0", ""),
        (
            "echo set_mempolicy: Operation not permitted >&2; exit 1",
            "numactl does not work on this machine: set_mempolicy: Operation not permitted",
        ),
        ("exit 3", "numactl does not work on this machine: it exits with code 3"),
    ],
)
def test_numactl_is_tried_before_it_is_trusted(write, tmp_path, monkeypatch, script, unbound):
    monkeypatch.setenv("PATH", f"/opt/bin{os.pathsep}{os.environ['PATH']}")
    if script is not None:
        write("opt/bin/numactl", f"#!/bin/sh\n{script}").chmod(0o755)
    assert read_machine(tmp_path, affinity={0}).unbound == unbound


def test_the_model_of_the_cpu_is_read(write, tmp_path):
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Xeon Platinum 8480+\nflags\t: fpu")
    assert read_machine(tmp_path, affinity={0}).model == "Xeon Platinum 8480+"


def test_a_machine_that_tells_nothing_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    machine = read_machine(tmp_path)
    assert len(machine.cores) == os.cpu_count()
    assert (machine.quota, machine.memory_bytes, machine.libraries) == (None, None, {})


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system binds no process")
def test_only_cpus_that_this_process_may_use_are_counted():
    cpu = max(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, [{cpu}]);"
        " from roadseg.system.machine import read_machine;"
        "machine = read_machine(); print(machine.cpus, machine.usable_cores)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == f"({cpu},) 1\n"
