"""Agreement: processes that train together have the same settings, and see one run folder."""

import json
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadseg.errors import ConfigError
from roadseg.learn.hardware.distributed import Parallel

_SHOWN = 3  # Differences that an error names.
_LONGEST = 60  # Characters of a value in an error.


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
                f"{', '.join(differing[:_SHOWN])}{more}; all hosts need the same versions and "
                f"config as process 0 on {first['host']}"
            )


def require_shared(parallel: Parallel, folder: Path) -> None:
    """Check that all hosts see one folder; all processes call this.

    Raises:
        ConfigError: in all processes, if one of them does not see what the first one writes.
    """
    if parallel.local_size == parallel.size:
        return
    (name, *_) = parallel.gather(f".shared-{secrets.token_hex(8)}")
    mark = folder / name
    if parallel.first:
        mark.touch()
    parallel.wait()
    is_apart = parallel.any(not mark.exists())
    if parallel.first:
        mark.unlink(missing_ok=True)
    if is_apart:
        raise ConfigError(
            f"{folder}: not all hosts see the same run folder; put it on a disk that they share"
        )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
