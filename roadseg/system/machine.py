"""The machine: CPUs, memory and libraries that are available to this process."""

import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/")
# Each library with the names with which its file may begin; the first that there is counts.
_LIBRARIES = {
    "tcmalloc": ("libtcmalloc_minimal.so", "libtcmalloc.so"),
    "jemalloc": ("libjemalloc.so",),
    "iomp5": ("libiomp5.so",),
}
_TOPOLOGY = ("physical_package_id", "die_id", "core_id")


@dataclass(frozen=True)
class Machine:
    """Resources of the machine that this process may use.

    Attributes:
        model: name of the CPU.
        cpus: numbers of the logical CPUs that this process may run on.
        cores: one of these CPUs for each physical core.
        nodes: CPUs of every NUMA node with one of `cpus`; a single node if Linux knows of none.
        quota: CPU time that the control group allows, in cores; None without a limit.
        memory_bytes: memory of the machine; None if it cannot be read.
        memory_limit_bytes: memory that the control group allows; None without a limit.
        libraries: files of tcmalloc, jemalloc and iomp5 (Intel's OpenMP) that were found, by name.
        unbound: reason why numactl cannot bind memory to a node; empty if it can.
    """

    model: str
    cpus: tuple[int, ...]
    cores: tuple[int, ...]
    nodes: Mapping[int, tuple[int, ...]]
    quota: float | None
    memory_bytes: int | None
    memory_limit_bytes: int | None
    libraries: Mapping[str, Path]
    unbound: str

    @property
    def usable_cores(self) -> int:
        """Physical cores that can be busy at once: what affinity and quota leave, at least 1."""
        quota = math.inf if self.quota is None else self.quota
        return max(1, int(min(len(self.cores), quota)))


def read_machine(root: Path = _ROOT, *, affinity: Collection[int] | None = None) -> Machine:
    """Read the resources that are available to this process; some can be read on Linux only.

    Args:
        root: folder that contains proc, sys and libraries.
        affinity: numbers of the logical CPUs to use; by default those of this process.
    """
    cpus = tuple(sorted(_affinity() if affinity is None else affinity))
    nodes = _nodes(root, cpus)
    memory = _memory_bytes(root)
    return Machine(
        model=_cpu_model(root),
        cpus=cpus,
        cores=_cores(root, cpus),
        nodes=nodes,
        quota=min(_quotas(root), default=None),
        memory_bytes=memory,
        memory_limit_bytes=min(_memory_limits(root, memory), default=None),
        libraries=_libraries(root),
        unbound=_unbound(root, nodes),
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parse numbers and ranges as Linux writes them: "0-2,8" is (0, 1, 2, 8)."""
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return tuple(n for first, _, last in ranges for n in range(int(first), int(last or first) + 1))


def format_cpus(cpus: Iterable[int]) -> str:
    """Write numbers, with ranges for successive ones: (0, 1, 2, 8) is "0-2,8"."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1].append(cpu)
        else:
            ranges.append([cpu])
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in ranges)


def _affinity() -> Collection[int]:
    if sys.platform == "linux":
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _text(path: Path) -> str:
    """Return the text of a file of the kernel; empty if it is missing, or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _cpu_model(root: Path) -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", _text(root / "proc/cpuinfo"), re.MULTILINE)
    return model[1] if model else platform.processor() or platform.machine()


def _cores(root: Path, cpus: Iterable[int]) -> tuple[int, ...]:
    """Return the first CPU of each physical core; all CPUs if Linux does not know the cores."""
    first: dict[object, int] = {}
    for cpu in cpus:
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        # Logical CPUs of one core share package, die and number of the core.
        place = tuple(_text(folder / name) for name in _TOPOLOGY)
        first.setdefault(place if place[-1] else cpu, cpu)
    return tuple(first.values())


def _nodes(root: Path, cpus: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Return the CPUs of each NUMA node, without nodes that have none of `cpus`."""
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    all_nodes = {int(folder.name[4:]): parse_cpus(_text(folder / "cpulist")) for folder in folders}
    nodes = {n: of_node for n, of_node in sorted(all_nodes.items()) if set(of_node) & set(cpus)}
    return nodes or {0: cpus}


def _quotas(root: Path) -> Iterator[float]:
    """Yield the limits of CPU time, in cores, of the control groups of this process."""
    for folder in _groups(root, "cpu"):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        # Version 2 of control groups has both numbers in one file, version 1 in two.
        if not quota:
            quota = _text(folder / "cpu.cfs_quota_us")
            period = _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal():
            yield int(quota) / int(period)


def _memory_limits(root: Path, memory_bytes: int | None) -> Iterator[int]:
    """Yield the memory limits of the control groups; without a limit, version 1 has a huge one."""
    for folder in _groups(root, "memory"):
        limit = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
        if limit.isdecimal() and int(limit) < (memory_bytes or math.inf):
            yield int(limit)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups for a controller, up to the root.

    In a container, the path may not be mounted; its limits are then at the root.
    """
    base = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        # A line without controllers is the group of version 2.
        if not controllers:
            mounts = [base / "unified" if (base / "unified").is_dir() else base]
        elif controller in controllers.split(","):
            mounts = [base / controllers, base / controller]
        else:
            continue
        inner = Path(path.lstrip("/"))
        yield from (mount / part for mount in mounts for part in (inner, *inner.parents))


def _memory_bytes(root: Path) -> int | None:
    total = re.search(r"^MemTotal:\s*(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if total:
        return int(total[1]) * 1024
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):  # A system may have other names for these values.
        return None


def _libraries(root: Path) -> dict[str, Path]:
    """Find the libraries, with or without a version in their names.

    Links are resolved, because launchers remove libraries that they know by name from LD_PRELOAD.
    """
    folders = [_inside(root, folder) for folder in _library_folders()]
    paths_of = {
        name: [path for f in folders for start in starts for path in sorted(f.glob(f"{start}*"))]
        for name, starts in _LIBRARIES.items()
    }
    return {name: paths[0].resolve() for name, paths in paths_of.items() if paths}


def _library_folders() -> list[str]:
    conda = os.environ.get("CONDA_PREFIX")
    own = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    debian = f"/usr/lib/{platform.machine()}-linux-gnu"
    usual = [debian, "/usr/lib64", "/usr/lib", "/usr/local/lib64", "/usr/local/lib"]
    return [*filter(None, own), f"{sys.prefix}/lib", *([f"{conda}/lib"] if conda else []), *usual]


def _inside(root: Path, folder: str) -> Path:
    path = Path(folder)
    return root / path.relative_to(path.anchor)


def _unbound(root: Path, nodes: Mapping[int, tuple[int, ...]]) -> str:
    """Try to bind memory with numactl; return why it fails, or an empty text."""
    folders = os.pathsep.join(str(_inside(root, folder)) for folder in os.get_exec_path())
    numactl = shutil.which("numactl", path=folders)
    if numactl is None:
        return "numactl is not installed"
    node, cpus = next(iter(nodes.items()))
    words = [numactl, "-C", str(cpus[0]), "-m", str(node), "true"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    output = tried.stderr.strip().splitlines() or [f"it exits with code {tried.returncode}"]
    return f"numactl does not work on this machine: {output[-1]}" if tried.returncode else ""
