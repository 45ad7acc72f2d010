"""Agreement: processes that train together have the same data, settings and saved state."""

import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roadseg.errors import ConfigError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.system.files import atomic_write

_SHOWN = 3  # Differences that an error names.
_LONGEST = 60  # Characters of a value in an error.

Saved = tuple[int, int, str]  # Epochs and steps of a training, and the digest of its state.


def require_same(parallel: Parallel, facts: Mapping[str, Any]) -> None:
    """Compare facts between processes, which all call this.

    Args:
        parallel: the processes that train together.

    Raises:
        ConfigError: in all processes, if a fact differs in one of them; it names the first one.
    """
    mine = {"host": socket.gethostname(), "facts": facts}
    first, *others = map(json.loads, parallel.gather(json.dumps(mine, sort_keys=True)))
    for rank, other in enumerate(others, start=1):
        differing = [
            f"{name} {_short(other['facts'].get(name))} (in process 0 {_short(value)})"
            for name, value in first["facts"].items()
            if other["facts"].get(name) != value
        ]
        if differing:
            more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
            raise ConfigError(
                f"process {rank} of {parallel.size} on {other['host']} has "
                f"{', '.join(differing[:_SHOWN])}{more}; all hosts need the same versions, config "
                f"and prepared data as process 0 on {first['host']}"
            )


def keeping_copies(parallel: Parallel, folder: Path) -> Parallel:
    """Let one process of each host write the run, if the hosts have separate disks.

    All processes call this.

    Args:
        parallel: the processes that train together.
        folder: the run folder, which exists in all of them.
    """
    if parallel.local_size == parallel.size:
        return parallel
    (name, *_) = parallel.gather(f".shared-{secrets.token_hex(8)}")
    mark = folder / name
    if parallel.first:
        mark.touch()
    parallel.wait()
    sees_first = mark.exists()
    parallel.wait()
    if parallel.first:
        mark.unlink(missing_ok=True)
    return replace(parallel, has_copy=parallel.local_rank == 0 and not sees_first)


def copy_furthest(
    parallel: Parallel, folder: Path, saved: Callable[[], Saved], names: Sequence[str]
) -> None:
    """Give all hosts the state of the training that has come furthest on one of them.

    All processes call this. Hosts differ if one of them was lost for a while, or is new.

    Args:
        parallel: the processes that train together, as `keeping_copies` returned them.
        saved: returns how far the training in the folder of this process has come.
        names: files of the folder to copy, the one last by which the others count.

    Raises:
        OutputError: if a file cannot be written.
    """
    if not parallel.any(parallel.has_copy):
        return
    states: list[Saved] = [tuple(json.loads(text)) for text in parallel.gather(json.dumps(saved()))]
    furthest = max(states, key=lambda each: each[:2])
    if all(each == furthest for each in states):
        return
    owner = states.index(furthest)
    needed = parallel.keeps and states[parallel.rank] != furthest
    for name in names:
        path = folder / name
        content = path.read_bytes() if parallel.rank == owner and path.exists() else b""
        content = parallel.send(content, owner)
        if needed and content:
            with atomic_write(path) as partial:
                partial.write_bytes(content)
    parallel.wait()


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
