"""Task files: what a task reads and writes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TaskFiles:
    """The files of one task.

    Attributes:
        reads: files and folders that it may read; those that do not exist are left out.
        writes: files that it may write, and folders that it writes as a whole.
    """

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()


FilesOf = Callable[[Any], TaskFiles]


def no_files(_: object) -> TaskFiles:
    """Return the files of a task that needs none."""
    return TaskFiles()
