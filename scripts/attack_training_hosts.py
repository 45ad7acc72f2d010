#!/usr/bin/env python
"""Train over three hosts, lose hosts in the middle, and begin with hosts that do not fit.

The hosts are network namespaces of Linux with a bridge between them, each with a host name, and
share a disk. That needs root and `ip`, and it takes some minutes. The curves have to be those of
one process within 1e-5; whatever cannot go on has to end with one line, within --patience seconds.
"""

import argparse
import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from roadseg.commands.tools import demo

_SETTINGS = {
    "imagery.gsd_m": "null",
    "train.encoder": "tu-test_resnet",
    "train.encoder_weights": "null",
    "train.window_px": 96,
    "train.batch_size": 5,
    "train.windows_per_chip": 4,
    "train.validation_windows": 12,
    "train.epochs": 6,
    # Large rates multiply what is rounded, with any change of the order of sums, and so does Adam.
    "train.learning_rate": 0.00001,
    "train.warmup_steps": 0,
    "compute.precision": "fp32",
    "compute.workers": 0,
    "compute.save_minutes": 0,
    "compute.wait_minutes": 0.3,
}
_NUMBERS = ("train_loss", "val_loss")
_WITHIN = 1e-5
_NET = "10.213.7"
_PORT = 29400
_TEMPFAIL = 75
_NAME = f"rs{os.getpid() % 100_000}"  # of namespaces and links, which have at most 15 letters
_BRIDGE = f"{_NAME}b"
_IP = shutil.which("ip") or "ip"


class Host:
    """A network namespace with an address and a name."""

    def __init__(self, number: int, folder: Path) -> None:
        """Make the namespace and connect it to the bridge."""
        self.number, self.folder = number, folder
        self.space, self.link = f"{_NAME}{number}", f"{_NAME}v{number}"
        self.address = f"{_NET}.{number}"
        _ip("netns", "add", self.space)
        _ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        _ip("link", "set", self.link, "master", _BRIDGE, "up")
        for words in (
            ["addr", "add", f"{self.address}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
        ):
            _ip("-n", self.space, *words)
        _ip("-n", self.space, "link", "set", "lo", "up")

    def start(
        self, *words: str, own_disk: bool = False, variables: str = ""
    ) -> "subprocess.Popen[str]":
        """Start a command of roadseg on this host."""
        disk = self.folder / f"disk{self.number}"
        setup = f"hostname host{self.number}; "
        if own_disk:
            setup += f"mount --bind {disk} {self.folder / 'work'}; "
        command = f"{variables} exec {sys.executable} -m roadseg {' '.join(words)}"
        line = f"{setup} cd {self.folder / 'work'}; {command}"
        unshared = ["ip", "netns", "exec", self.space, "unshare", "-m", "-u", "sh", "-c", line]
        log = (self.folder / f"log{self.number}").open("w")
        return subprocess.Popen(
            unshared, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def said(self) -> list[str]:
        """Return the lines that the last command said."""
        log = self.folder / f"log{self.number}"
        return log.read_text().splitlines() if log.exists() else []

    def cut(self, *, off: bool = True) -> None:
        """Take the network of the host away, or give it back."""
        _ip("link", "set", self.link, "down" if off else "up")

    def kill(self) -> None:
        """Kill all that runs on the host, as when its power fails, and cut it off."""
        self.cut()
        found = subprocess.run(
            [_IP, "netns", "pids", self.space], capture_output=True, text=True, check=True
        )
        for process in map(int, found.stdout.split()):
            os.kill(process, signal.SIGKILL)

    def remove(self) -> None:
        """End all that runs in the namespace and remove it."""
        self.kill()
        _ip("link", "delete", self.link)
        _ip("netns", "delete", self.space)


def _ip(*words: str) -> None:
    subprocess.run([_IP, *words], check=True)


@contextmanager
def _three_hosts(folder: Path) -> Iterator[list[Host]]:
    _ip("link", "add", _BRIDGE, "type", "bridge")
    hosts: list[Host] = []
    try:
        _ip("addr", "add", f"{_NET}.254/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        hosts.extend(Host(number, folder) for number in (1, 2, 3))
        yield hosts
    finally:
        for host in hosts:
            host.remove()
        _ip("link", "delete", _BRIDGE)


class Site:
    """Three hosts with the prepared data, and what a process alone has learned from it."""

    def __init__(self, folder: Path, prepared: Path, hosts: list[Host], patience_s: float) -> None:
        """Take the prepared data, and a folder for the disks of the hosts."""
        self.prepared = prepared
        self.folder, self.hosts, self.patience_s = folder, hosts, patience_s
        self.expected: list[list[float]] = []

    def fresh(self) -> None:
        """Give every host the network, and the prepared data without a training."""
        for place in ("work", "disk3"):
            target = self.folder / place
            for old in target.glob("*"):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            shutil.copytree(self.prepared, target, dirs_exist_ok=True)
        for host in self.hosts:
            host.cut(off=False)
            (self.folder / f"log{host.number}").unlink(missing_ok=True)

    def words(self, hosts: str, meeting: int = 1, **more: str) -> list[str]:
        """Return the words of a training over hosts."""
        settings = {**_SETTINGS, **{key.replace("__", "."): value for key, value in more.items()}}
        sets = [f"--set={key}={value}" for key, value in settings.items()]
        at = ["--rendezvous", f"{_NET}.{meeting}:{_PORT}"] if hosts else []
        return ["-q", "train", "--fold", "0", *sets, *(["--hosts", hosts, *at] if hosts else [])]

    def start(self, words: list[str]) -> "list[subprocess.Popen[str]]":
        """Start the same training on all hosts."""
        return [host.start(*words) for host in self.hosts]

    def end(self, processes: "list[subprocess.Popen[str]]", expected: int = 0) -> float:
        """Wait for the end of processes; return how long that took."""
        begun = time.monotonic()
        for process in processes:
            code = process.wait(max(self.patience_s - (time.monotonic() - begun), 1))
            _check(code == expected, f"exit code {code}, expected {expected}: {self.last_lines()}")
        return time.monotonic() - begun

    def last_lines(self) -> list[str]:
        """Return what the hosts said last."""
        return [host.said()[-1] if host.said() else "" for host in self.hosts]

    def rows(self) -> list[list[float]]:
        """Return the numbers of each epoch in the run."""
        path = self.folder / "work" / "run" / "checkpoints" / "fold-0" / "metrics.csv"
        if not path.exists():
            return []
        with path.open() as file:
            return [[float(row[name]) for name in _NUMBERS] for row in csv.DictReader(file)]

    def reach(self, epochs: int) -> None:
        """Wait until the run has so many epochs."""
        begun = time.monotonic()
        while len(self.rows()) < epochs:
            _check(
                time.monotonic() - begun < self.patience_s,
                f"the run has {len(self.rows())} epochs: {self.last_lines()}",
            )
            time.sleep(0.05)

    def same(self) -> str:
        """Compare curves with those of one process; return the largest difference."""
        rows = self.rows()
        _check(len(rows) == len(self.expected), f"the run has {len(rows)} epochs")
        pairs = zip(chain(*rows), chain(*self.expected), strict=True)
        largest = max(abs(a - b) for a, b in pairs)
        _check(largest <= _WITHIN, f"curves differ by {largest:.1e}")
        return f"curves within {largest:.1e}"


def alone(site: Site) -> str:
    """Train in one process on one host."""
    site.end([site.hosts[0].start(*site.words(""))])
    site.expected = site.rows()
    shutil.copytree(site.folder / "work", site.folder / "straight")
    return f"train_loss {site.expected[0][0]:.4f} to {site.expected[-1][0]:.4f}"


def together(site: Site) -> str:
    """Train over three hosts."""
    seconds = site.end(site.start(site.words("3")))
    return f"{site.same()}, {seconds:.0f} s"


def _lost(site: Site, lose: Callable[[Host], None], lost: int, meeting: int) -> str:
    processes = site.start(site.words("2:3", meeting))
    left = [number for number in (1, 2, 3) if number != lost]
    site.reach(2)
    lose(site.hosts[lost - 1])
    begun, before = time.monotonic(), len(site.rows())
    site.reach(before + 2)  # the next epoch may have been on its way
    went_on_s = time.monotonic() - begun
    site.end([processes[number - 1] for number in left])
    said = site.hosts[left[0] - 1].said()
    return f"{site.same()}, went on after {went_on_s:.0f} s; said: {said}"


def killed(site: Site) -> str:
    """Lose a host to a power failure: the other two go on."""
    return _lost(site, Host.kill, lost=3, meeting=1)


def cut_off(site: Site) -> str:
    """Lose a host whose cable is pulled out: the other two go on, and it ends with one line."""
    found = _lost(site, Host.cut, lost=3, meeting=1)
    return f"{found}; cut off said: {site.hosts[2].said()}"


def first_lost(site: Site) -> str:
    """Lose the host of the first process, which does not host the rendezvous."""
    return _lost(site, Host.kill, lost=1, meeting=3)


def meeting_lost(site: Site) -> str:
    """Lose the host where all meet: the others end with a line; the two resume at another one."""
    processes = site.start(site.words("2:3"))
    site.reach(2)
    site.hosts[0].kill()
    seconds = site.end(processes[1:], _TEMPFAIL)
    lines = site.hosts[1].said()
    words = site.words("2", meeting=2)
    again = [host.start(*words) for host in site.hosts[1:]]
    site.end(again)
    return f"ended after {seconds:.0f} s: {lines}; resumed: {site.same()}"


def waits(site: Site) -> str:
    """Lose one of three hosts without which the others wait; it comes back."""
    words = site.words("3")
    processes = site.start(words)
    site.reach(2)
    site.hosts[2].kill()
    time.sleep(5)
    site.hosts[2].cut(off=False)
    processes[2] = site.hosts[2].start(*words)
    site.end(processes)
    return site.same()


def comes_back(site: Site) -> str:
    """Lose one of two to three hosts, and have it back later: all three go on."""
    words = site.words("2:3")
    processes = site.start(words)
    site.reach(1)
    site.hosts[2].kill()
    site.reach(3)
    site.hosts[2].cut(off=False)
    processes[2] = site.hosts[2].start(*words)
    site.end(processes)
    return site.same()


def _refused(site: Site, changed: Callable[[Host], "subprocess.Popen[str]"], code: int) -> str:
    """Let the third host begin otherwise; all have to end with one line each."""
    words = site.words("3")
    processes = [host.start(*words) for host in site.hosts[:2]]
    processes.append(changed(site.hosts[2]))
    seconds = site.end(processes, code)
    for host in site.hosts:
        lines = host.said()
        _check(len(lines) == 1, f"host {host.number} said {lines}")
    return f"after {seconds:.0f} s: {site.hosts[2].said()[0]}"


def other_config(site: Site) -> str:
    """Begin with another config on one host."""
    words = site.words("3", train__learning_rate="0.02")
    return _refused(site, lambda host: host.start(*words), 2)


def other_version(site: Site) -> str:
    """Begin with another version of torch on one host."""
    other = site.folder / "other" / "sitecustomize.py"
    code = (
        "import importlib.metadata as m\nv = m.version\n"
        "m.version = lambda name: '2.0.1' if name == 'torch' else v(name)\n"
    )
    other.parent.mkdir()
    other.write_text(code)
    path = f"PYTHONPATH={other.parent}:$PYTHONPATH"
    return _refused(site, lambda host: host.start(*site.words("3"), variables=path), 2)


def other_disk(site: Site) -> str:
    """Begin with a disk of its own on one host."""
    return _refused(site, lambda host: host.start(*site.words("3"), own_disk=True), 2)


def other_count(site: Site) -> str:
    """Begin with another number of hosts on one of them."""
    return _refused(site, lambda host: host.start(*site.words("2:3")), 2)


def _one(site: Site, words: list[str], code: int) -> str:
    process = site.hosts[1].start(*words)
    seconds = site.end([process], code)
    lines = site.hosts[1].said()
    _check(len(lines) == 1, f"said {lines}")
    return f"after {seconds:.0f} s: {lines[0]}"


def nobody_there(site: Site) -> str:
    """Name the address of a host that does not exist."""
    return _one(site, site.words("3", meeting=77), _TEMPFAIL)


def nothing_there(site: Site) -> str:
    """Name a host on which no training waits."""
    return _one(site, site.words("3", meeting=1), _TEMPFAIL)


def unknown_name(site: Site) -> str:
    """Name a host that nobody knows."""
    words = [word.replace(f"{_NET}.1", "node.invalid") for word in site.words("3")]
    return _one(site, words, 2)


def port_in_use(site: Site) -> str:
    """Meet at a port that something else uses."""
    server = ["ip", "netns", "exec", site.hosts[1].space, sys.executable, "-m", "http.server"]
    with subprocess.Popen([*server, str(_PORT)], stderr=subprocess.DEVNULL) as other:
        time.sleep(2)
        try:
            return _one(site, site.words("3", meeting=2), 1)
        finally:
            other.kill()


def no_training_there(site: Site) -> str:
    """Meet at a port of another host where a web server listens."""
    server = ["ip", "netns", "exec", site.hosts[0].space, sys.executable, "-m", "http.server"]
    with subprocess.Popen([*server, str(_PORT)], stderr=subprocess.DEVNULL) as other:
        time.sleep(2)
        try:
            return _one(site, site.words("3", meeting=1), _TEMPFAIL)
        finally:
            other.kill()


_CASES = (
    *(together, killed, cut_off, first_lost, meeting_lost, waits, comes_back),
    *(other_config, other_version, other_disk, other_count),
    *(nobody_there, nothing_there, no_training_there, unknown_name, port_in_use),
)


def main() -> int:
    """Run the cases; return 1 if one of them fell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patience", type=float, default=240, help="seconds for each wait")
    parser.add_argument("--prepared", type=Path, help="keep the prepared data here for other runs")
    parser.add_argument("names", nargs="*", help="the only cases to try")
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    fallen = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared = given.prepared or folder / "prepared"
        if not (prepared / "run" / "folds.json").exists():
            _prepare(prepared)
        for place in ("work", "disk3"):
            (folder / place).mkdir()
        with _three_hosts(folder) as hosts:
            site = Site(folder, prepared, hosts, given.patience)
            for case in (alone, *_CASES):
                if given.names and case.__name__ not in {*given.names, "alone"}:
                    continue
                site.fresh()
                begun = time.monotonic()
                try:
                    outcome, held = case(site), True
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    outcome, held = f"{error} {[host.said()[-3:] for host in hosts]}", False
                for host in hosts:
                    host.kill()
                seconds = time.monotonic() - begun
                print(
                    f"{'held' if held else 'FELL'} {case.__name__} ({seconds:.0f} s): {outcome}",
                    flush=True,
                )
                fallen += not held
    return int(fallen > 0)


def _prepare(folder: Path) -> None:
    """Draw the city of the demo and prepare it for a training."""
    demo.run(folder)
    sets = [f"--set={key}={value}" for key, value in _SETTINGS.items()]
    for stage in ("prepare", "split"):
        command = [sys.executable, "-m", "roadseg", "-q", stage, *sets]
        subprocess.run(command, cwd=folder, check=True)


def _check(holds: bool, problem: str) -> None:  # noqa: FBT001 - like assert
    if not holds:
        raise AssertionError(problem)


if __name__ == "__main__":
    sys.exit(main())
