#!/usr/bin/env python
"""Attack `roadseg graph --scheduler` with clusters that fail, and what is no cluster at all.

Each case is a real scheduler, worker or socket on this machine. A line for each says the case, the
seconds that the command took, its exit code and the last line that it said. A command that does
not end within --patience, or says more than one line, makes the script fail.
"""

import argparse
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import rasterio
from distributed import Client

_PART = "import sys; from distributed.cli import {0}; {0}.main()"
_OTHER = (
    "from distributed import versions as v; info = v.get_package_info; "
    "v.get_package_info = lambda names: info(names) | {}; "
)
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
_JOINS_S = 5.0
_PATIENCE_S = 150.0  # of which the scheduler may take 45, and a busy machine as much to begin
_SCENES = 12

Case = Callable[[ExitStack], str]


def main() -> int:
    """Run all cases; return 1 if one of them fell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, help="compute.scheduler_timeout_s; else as it is")
    parser.add_argument(
        "--patience", type=float, default=_PATIENCE_S, help="seconds for each command"
    )
    parser.add_argument("names", nargs="*", help="the only cases to try")
    given = parser.parse_args()
    sets = [f"--set=compute.scheduler_timeout_s={given.timeout}"] if given.timeout else []
    fallen = 0
    for name, ending, held in _tried(given.names or list(_cases()), sets, given.patience):
        print(f"{'held' if held else 'FELL'} {name}: {ending}", flush=True)
        fallen += not held
    return int(fallen > 0)


def attack(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield so many of the cases, drawn at random, each with why it fell; empty if it held."""
    names = list(_cases())
    drawn = random.Random(seed).sample(names, min(count, len(names)))  # noqa: S311 - not a secret
    for name, ending, held in _tried(drawn, [], _PATIENCE_S):
        yield name, "" if held else ending


def _tried(
    names: Iterable[str], sets: list[str], patience_s: float
) -> Iterator[tuple[str, str, bool]]:
    """Yield the outcome of each case, and whether it held."""
    cases = _cases()
    with tempfile.TemporaryDirectory() as folder:
        masks = list(_masks(Path(folder)))
        for name in names:
            case, expected = cases[name]
            with ExitStack() as parts:
                words = ["--output", f"{folder}/out", *sets, *map(str, masks)]
                yield name, *_try(["--scheduler", case(parts), *words], expected, patience_s)


def _try(words: list[str], expected: int, patience_s: float) -> tuple[str, bool]:
    begun = time.monotonic()
    command = [sys.executable, "-m", "roadseg", "-q", "graph", *words]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=patience_s, check=False
        )
        code, lines = ended.returncode, ended.stderr.splitlines()
    except subprocess.TimeoutExpired:
        code, lines = -1, ["did not end"]
    said = lines[-1] if lines else ""
    took_s = time.monotonic() - begun
    ending = f"{took_s:.1f} s, code {code}, {len(lines)} lines: {said}"
    return ending, code == expected and len(lines) <= 1


def _cases() -> dict[str, tuple[Case, int]]:
    """Return for each case what gives the address, and the exit code that is right."""
    none = '{"roadseg": None}'
    return {
        "no address": (lambda _: "nonsense", 2),
        "unknown protocol": (lambda _: "xyz://127.0.0.1:8786", 2),
        "nobody listens": (lambda _: f"tcp://127.0.0.1:{_port()}", 1),
        "tls without certificates": (lambda _: f"tls://127.0.0.1:{_port()}", 1),
        "http server": (_web, 1),
        "silent port": (lambda parts: parts.enter_context(_listening(lambda _: None)), 1),
        "closes at once": (lambda parts: parts.enter_context(_listening(lambda p: p.close())), 1),
        "answers http": (
            lambda parts: parts.enter_context(
                _listening(lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
            ),
            1,
        ),
        "sends rubbish": (
            lambda parts: parts.enter_context(
                _listening(lambda peer: peer.sendall(random.Random(0).randbytes(10_000)))  # noqa: S311
            ),
            1,
        ),
        "no workers": (lambda parts: _scheduler(parts)[1], 1),
        "workers join later": (lambda parts: _cluster(parts, after_s=_JOINS_S), 0),
        "one of two workers killed": (lambda parts: _cluster(parts, workers=2, kill=1), 0),
        "last worker killed": (lambda parts: _cluster(parts, kill=1), 1),
        "scheduler killed": (lambda parts: _cluster(parts, scheduler=signal.SIGKILL), 1),
        "scheduler halted": (lambda parts: _cluster(parts, scheduler=signal.SIGSTOP), 1),
        "worker without roadseg": (lambda parts: _cluster(parts, before=none), 1),
        "worker with another roadseg": (
            lambda parts: _cluster(parts, before='{"roadseg": "0.0.1"}'),
            1,
        ),
        "worker with another Python": (
            lambda parts: _cluster(parts, before='{"python": "3.9.1.final.0"}'),
            1,
        ),
        "after all of it": (_cluster, 0),
    }


def _masks(folder: Path) -> Iterator[Path]:
    """Draw masks whose graphs take a while."""
    roads = np.zeros((1500, 1500), dtype=np.uint8)
    roads[::40] = roads[:, ::40] = 1
    profile = {"driver": "GTiff", "height": 1500, "width": 1500, "count": 1, "dtype": "uint8"}
    for number in range(_SCENES):
        place = rasterio.Affine(1, 0, 660000 + 2000 * number, 0, -1, 4000000)
        path = folder / f"{number}.tif"
        with rasterio.open(path, "w", **profile, crs="EPSG:32611", transform=place) as target:
            target.write(roads, 1)
        yield path


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _start(parts: ExitStack, *words: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, *words], **_QUIET)  # type: ignore[call-overload]
    parts.callback(process.wait)
    parts.callback(process.kill)
    return process


def _wait_for(port: int) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)


def _web(parts: ExitStack) -> str:
    port = _port()
    _start(parts, "-m", "http.server", str(port), "--bind", "127.0.0.1")
    _wait_for(port)
    return f"tcp://127.0.0.1:{port}"


@contextmanager
def _listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    with ExitStack() as peers, socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    answer(peers.enter_context(server.accept()[0]))

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def _scheduler(parts: ExitStack) -> tuple["subprocess.Popen[bytes]", str]:
    port = _port()
    place = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    process = _start(parts, "-c", _PART.format("dask_scheduler"), *place)
    _wait_for(port)
    return process, f"tcp://127.0.0.1:{port}"


def _cluster(
    parts: ExitStack,
    *,
    workers: int = 1,
    before: str = "{}",
    after_s: float = 0.0,
    kill: int = 0,
    scheduler: signal.Signals | None = None,
) -> str:
    """Start a scheduler with workers; end some of them once the first graph is there."""
    process, address = _scheduler(parts)
    program = _OTHER.format(before) + _PART.format("dask_worker")
    words = ["-c", program, address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    begun: list[subprocess.Popen[bytes]] = []
    over = threading.Event()
    parts.callback(over.set)

    def act() -> None:
        over.wait(after_s)
        begun.extend(_start(parts, *words) for _ in range(workers))
        if not kill and scheduler is None:
            return
        while not over.is_set() and not _busy(address):
            over.wait(0.1)
        for worker in begun[:kill]:
            worker.kill()
        if scheduler is not None:
            process.send_signal(scheduler)

    threading.Thread(target=act, daemon=True).start()
    return address


def _busy(address: str) -> bool:
    """Return whether a worker of the scheduler is at work."""
    with suppress(OSError), Client(address, timeout=5, set_as_default=False) as client:
        return any(client.processing().values())
    return False


if __name__ == "__main__":
    sys.exit(main())
