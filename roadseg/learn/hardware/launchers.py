"""Launchers: restart the command on chosen cores, with chosen libraries, in one process or several.

This process is replaced by the command or, with `quiet_launcher`, by PyTorch's run_cpu or torchrun.
Nothing here imports torch, because cores and libraries have to be chosen before that. Processes of
a launcher end with it, and write lines that all of them have only once.
"""

import hashlib
import logging
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roadseg.errors import ConfigError, DeviceError
from roadseg.system.machine import Machine, format_cpus, parse_cpus, read_machine
from roadseg.system.text import count

_log = logging.getLogger(__name__)
LAUNCHED = "ROADSEG_LAUNCHED"  # Variable that keeps the command from starting a launcher again.
INTERRUPTED = 128 + signal.SIGINT  # Exit code of a command that Ctrl-C ended, as shells give it.
TERMINATED = 128 + signal.SIGTERM
LAST_LINES: dict[object, str] = {
    INTERRUPTED: "interrupted; run the same command to resume\n",
    TERMINATED: "terminated; run the same command to resume\n",
}
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # Its folder lies in one that all processes share.
_LOOK_S = 1.0
_CPUS = "ROADSEG_CPUS"  # Variable with the CPUs that the processes of this machine share.
_QUIET = (sys.executable, "-m", "roadseg.learn.hardware.quiet_launcher")
_END = "--"  # End of a launcher's options; it would take ours that begin like them.
INSTALL = {
    "tcmalloc": "apt install libtcmalloc-minimal4, or conda install -c conda-forge gperftools",
    "jemalloc": "apt install libjemalloc2, or conda install -c conda-forge jemalloc",
    "iomp5": "pip install intel-openmp, or conda install intel-openmp",
}
_SETTINGS = {
    # Threads bound one by one leave only one core to processes that they start (data loaders).
    "iomp5": {"KMP_AFFINITY": "none", "KMP_BLOCKTIME": "1"},
    # The next step needs the memory that one frees; given back, each page is cleared again.
    "jemalloc": {
        "MALLOC_CONF": "background_thread:true,metadata_thp:auto,"
        "dirty_decay_ms:-1,muzzy_decay_ms:-1"
    },
}


@dataclass(frozen=True)
class LaunchOptions:
    """Options for starting the command; None for an option that is not given.

    Attributes:
        launcher: "none", "pin" or "run_cpu", for one process; by default "pin".
        ncores: number of physical cores to use; by default all.
        nodes: NUMA nodes to use; by default all.
        allocator: "tcmalloc", "jemalloc", "default" (glibc) or "auto": tcmalloc if it is found.
        omp: OpenMP library: "intel", "gnu", or "auto" for the one of torch.
        processes: number of processes that train together, which torchrun starts.
    """

    launcher: str | None = None
    ncores: int | None = None
    nodes: tuple[int, ...] = ()
    allocator: str | None = None
    omp: str | None = None
    processes: int | None = None


@dataclass(frozen=True)
class Command:
    """A command to run: its words, its environment variables, and the CPUs to bind it to first."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return it as a line for a shell."""
        bind = ["taskset", "-c", format_cpus(self.cpus)] if self.cpus else []
        variables = [f"{name}={value}" for name, value in self.variables.items()]
        return shlex.join([*bind, "env", *variables, *self.words])


def launch(options: LaunchOptions, arguments: Sequence[str], *, start: bool = True) -> None:
    """Replace this process by `roadseg` with these arguments, and by its exit code.

    Return if no option is given, if this process was started by a launcher, or, without `start`,
    after the options have been checked.

    Raises:
        ConfigError: if options contradict each other, or ask for more than the machine has.
        DeviceError: if this system cannot bind processes to cores.
    """
    launcher = _launcher(options)
    if launcher == "none" or LAUNCHED in os.environ or "LOCAL_RANK" in os.environ:
        return
    machine = read_machine()
    command = plan(options, machine, arguments, environment=os.environ)
    if launcher != "torchrun" and not hasattr(os, "sched_setaffinity"):
        raise DeviceError(
            f"--launcher {launcher}: {sys.platform} cannot bind processes to cores; omit "
            "--launcher, --ncores, --nodes, --allocator and --omp"
        )
    if not start:
        return
    if machine.unbound and (options.nodes or len(machine.nodes) > 1):
        _log.info("memory is not bound to NUMA nodes: %s", machine.unbound)
    _log.info("launching: %s", command)
    bind(command.cpus)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvpe(command.words[0], command.words, {**os.environ, **command.variables})  # noqa: S606


def bind_to_share() -> None:
    """Bind a process of torchrun to its share of the cores that `launch` chose."""
    if is_bound():
        cpus = parse_cpus(os.environ[_CPUS])
        rank, processes = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
        bind(share_of_cpus(cpus, rank, processes))


def is_bound() -> bool:
    """Return whether this process of torchrun has a share of the cores that `launch` chose."""
    return bool(os.environ.get(_CPUS)) and "LOCAL_RANK" in os.environ


def shares_of_cores(machine: Machine, processes: int) -> list[tuple[int, ...]]:
    """Return the cores of each process, NUMA node by NUMA node; none if there are too few."""
    cores = _choose_cores(LaunchOptions(), machine)
    return [share_of_cpus(cores, number, processes) for number in range(processes)]


def share_of_cpus(cpus: Sequence[int], rank: int, processes: int) -> tuple[int, ...]:
    """Return the share of the CPUs for one of several processes; a remainder stays idle."""
    size = len(cpus) // processes
    return tuple(cpus[rank * size : (rank + 1) * size])


def plan(
    options: LaunchOptions,
    machine: Machine,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
) -> Command:
    """Return the command that starts `roadseg` with these options, without running it.

    Cores are taken node by node, so that they are on as few NUMA nodes as possible. Memory is bound
    to the same nodes if there are several, or if nodes were chosen, and numactl can do it;
    otherwise it is placed where it is first written, usually on the same nodes.

    Raises:
        ConfigError: if options contradict each other, or ask for more than the machine has.
    """
    launcher = _launcher(options)
    cpus = _choose_cores(options, machine)
    processes = 1 if options.processes is None else options.processes
    if not 1 <= processes <= len(cpus):
        raise ConfigError(
            f"--processes {processes}: expected 1 to {len(cpus)}, at most one per core; choose "
            "fewer processes or more cores"
        )
    variables = {
        LAUNCHED: launcher,
        "OMP_NUM_THREADS": environment.get("OMP_NUM_THREADS", str(len(cpus) // processes)),
        **_library_variables(options, machine, environment),
    }
    words = (sys.executable, "-m", "roadseg", *arguments)
    bound = _bound_nodes(options, machine, cpus)
    if launcher == "run_cpu":
        return Command((*_run_cpu(cpus, bound), *words), variables)
    if launcher == "torchrun":
        variables[_CPUS] = ",".join(map(str, cpus))
        torchrun = (*_QUIET, "torch.distributed.run", "--standalone")
        together = ("--nproc-per-node", str(processes), "-m", _END)
        return Command((*torchrun, *together, *words[2:]), variables, cpus)
    if bound:
        numactl = ("numactl", "-C", format_cpus(cpus), "-m", format_cpus(bound))
        return Command((*numactl, *words), variables)
    return Command(words, variables, cpus)


def _launcher(options: LaunchOptions) -> str:
    """Return the launcher that was chosen, or that the other options imply."""
    if options.processes is not None:
        if options.launcher is not None:
            raise ConfigError(
                f"--launcher {options.launcher} starts one process, got --processes "
                f"{options.processes}, which torchrun starts; omit one of the two"
            )
        return "torchrun"
    has_options = options != LaunchOptions(options.launcher)
    if options.launcher == "none" and has_options:
        raise ConfigError(
            "--ncores, --nodes, --allocator and --omp have no effect with --launcher none; omit "
            "them, or use --launcher pin"
        )
    return options.launcher or ("pin" if has_options else "none")


def _choose_cores(options: LaunchOptions, machine: Machine) -> tuple[int, ...]:
    """Return one CPU of each core to use, NUMA node by NUMA node."""
    missing = sorted(set(options.nodes) - set(machine.nodes))
    if missing:
        raise ConfigError(
            f"--nodes {format_cpus(missing)}: this process may use none of its cores; choose "
            f"from the NUMA nodes {format_cpus(machine.nodes)}"
        )
    nodes = options.nodes or tuple(machine.nodes)
    cores = [cpu for node in nodes for cpu in machine.nodes[node] if cpu in machine.cores]
    usable = min(len(cores), machine.usable_cores)
    ncores = usable if options.ncores is None else options.ncores
    if not 1 <= ncores <= usable:
        quota = f", CPU quota {machine.quota:g}" if usable < len(cores) else ""
        raise ConfigError(
            f"--ncores {ncores}: this process may use {count(usable, 'physical core')} (CPUs "
            f"{format_cpus(cores)}{quota}); choose 1 to {usable}, or omit the option to use all"
        )
    return tuple(cores[:ncores])


def _library_variables(
    options: LaunchOptions, machine: Machine, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that have to be set for the allocator and for OpenMP."""
    preset = environment.get("LD_PRELOAD", "")
    preload = _with_allocator(options, machine, preset.replace(":", " ").split())
    preload = _with_openmp(options, machine, preload)
    variables = {"LD_PRELOAD": ":".join(preload)} if preload or preset else {}
    for library, settings in _SETTINGS.items():
        if _loaded(preload, library):
            variables |= {name: environment.get(name, value) for name, value in settings.items()}
    return variables


def _loaded(preload: Sequence[str], *libraries: str) -> list[str]:
    """Return the entries of LD_PRELOAD for some libraries, in any version."""
    return [entry for entry in preload if any(f"lib{n}" in Path(entry).name for n in libraries)]


def _with_allocator(options: LaunchOptions, machine: Machine, preload: Sequence[str]) -> list[str]:
    choice = options.allocator or "auto"
    preset = _loaded(preload, "tcmalloc", "jemalloc")
    if choice == "auto" and (preset or "tcmalloc" not in machine.libraries):
        return list(preload)
    rest = [entry for entry in preload if entry not in preset]
    if choice == "default":
        return rest
    return [_library("--allocator", "tcmalloc" if choice == "auto" else choice, machine), *rest]


def _with_openmp(options: LaunchOptions, machine: Machine, preload: Sequence[str]) -> list[str]:
    if options.omp in (None, "auto"):
        return list(preload)
    preset = _loaded(preload, "iomp5")
    rest = [entry for entry in preload if entry not in preset]
    return rest if options.omp == "gnu" else [*rest, _library("--omp", "iomp5", machine)]


def _library(option: str, name: str, machine: Machine) -> str:
    if name not in machine.libraries:
        raise ConfigError(f"{option}: lib{name} is not found; install it ({INSTALL[name]})")
    return str(machine.libraries[name])


def _bound_nodes(options: LaunchOptions, machine: Machine, cpus: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes to bind memory to, none if that is needless or impossible."""
    if machine.unbound or not (options.nodes or len(machine.nodes) > 1):
        return ()
    return tuple(node for node, of_node in machine.nodes.items() if set(of_node) & set(cpus))


def _run_cpu(cpus: Sequence[int], bound: Sequence[int]) -> tuple[str, ...]:
    """Return the words of PyTorch's launcher before those of the program.

    The list of cores takes all words up to the next option, so it must not come last. The launcher
    gets the cores and libraries that were found here, because it ignores affinity and quota, and
    does not find libraries with a version in their names. Its `-m` works for files only.
    """
    words = [*_QUIET, "torch.backends.xeon.run_cpu"]
    words += ["--ncores-per-instance", str(len(cpus)), "--ninstances", "1"]
    words += ["--core-list", ",".join(map(str, cpus)), "--use-default-allocator", "--disable-iomp"]
    return (*words, *([] if bound else ["--disable-numactl"]), "--no-python", _END)


def bind(cpus: Sequence[int]) -> None:
    """Bind this process to CPUs, if there are any, and if the system supports it (not macOS)."""
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


def launcher_id() -> int | None:
    """Return the process id of roadseg's launcher, which reports how this process ended."""
    text = os.environ.get(LAUNCHED, "")
    return int(text) if text.isdecimal() else None


def end_with_launcher() -> None:
    """Let this process and its children be killed when its launcher has ended.

    The launcher is one of roadseg, or torchrun; without one, nothing is done.
    """
    launcher = launcher_id() or (os.getppid() if "LOCAL_RANK" in os.environ else None)
    if launcher is not None:
        threading.Thread(target=_end_after, args=(launcher,), daemon=True).start()


def _end_after(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(_LOOK_S)
    if sys.platform != "win32" and os.getpgrp() == os.getpid():  # PyTorch has made this group.
        os.killpg(0, signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


def is_first_to_write(line: str) -> bool:
    """Return whether this process is the first on its machine to write a line."""
    file = os.environ.get(_ERROR_FILE)
    if not file or "LOCAL_RANK" not in os.environ:
        return True
    name = hashlib.sha256(line.encode(errors="replace")).hexdigest()[:16]
    try:
        (Path(file).parents[1] / f"{name}.written").touch(exist_ok=False)
    except FileExistsError:
        return False
    except FileNotFoundError:
        pass  # The folder is gone with the launcher.
    return True
