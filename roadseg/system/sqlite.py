"""SQLite files, whose views are queries that somebody else wrote: checked before they are run."""

import os
import sqlite3
import time
from collections import deque
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from roadseg.errors import DataError
from roadseg.system.text import one_line

MAGIC = b"SQLite format 3\0"  # The first bytes of every file, whatever its name.

_LEAST_S, _BYTES_PER_S = 5.0, 5e6  # What the views of a file may take: seconds, and more by size.
_REASONS = {"interrupted": "it takes too long", "not authorized": "it is recursive"}
_AT_ONCE = 10_000  # Steps of SQLite between two looks at the clock.
_LEAST_LENGTH = 1_000_000  # Bytes of a value that a query makes; else no more than the file has.


def check_views(path: Path) -> None:
    """Refuse a SQLite file with a view that may not end, or cannot be read; other files pass.

    GDAL runs views as soon as it is asked what layers there are, and cannot be interrupted. Here
    each is run first, with a limit that the size of the file justifies. Recursive ones are refused.

    Raises:
        DataError: if there is such a view, or the file cannot be checked.
    """
    if not (path.is_file() and os.access(path, os.R_OK)):
        return
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return
    status = path.stat()
    if fault := _fault(path.absolute(), status.st_size, status.st_mtime_ns):
        raise DataError(f"{path}: {fault}")


@lru_cache(maxsize=1000)
def _fault(path: Path, size: int, _changed: int) -> str:
    """Return what is wrong with the views of a file; empty for nothing."""
    # Only with a log beside it is more to be read than the file, and something written there.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    view, until = "", time.monotonic() + _LEAST_S + size / _BYTES_PER_S
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)) as file:
        try:
            entries = file.execute("SELECT name, type FROM sqlite_master").fetchall()
            file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(size, _LEAST_LENGTH), 10**9))
            file.set_progress_handler(lambda: time.monotonic() > until, _AT_ONCE)
            file.set_authorizer(_permission)
            for view in (name for name, kind in entries if kind == "view"):
                _run(file, view)
        except sqlite3.Error as error:
            why = one_line(error)
            if not view:
                return f"not a readable SQLite file ({why}); download or copy it again"
            if why == "interrupted" and time.monotonic() <= until:
                raise KeyboardInterrupt from error  # A signal came, which SQLite does not pass on.
            return (
                f"its view {view} cannot be read ({_REASONS.get(why, why)}); write its rows to a "
                f"table in another file: ogr2ogr roads.gpkg {path.name} {view}"
            )
    return ""


def _permission(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_RECURSIVE else sqlite3.SQLITE_OK


def _run(file: sqlite3.Connection, view: str) -> None:
    """Go through all rows of a view, of whose values only the types are found."""
    name = view.replace('"', '""')
    columns = [each[0] for each in file.execute(f'SELECT * FROM "{name}" LIMIT 0').description]  # noqa: S608 - the same
    types = ", ".join('typeof("{}")'.format(column.replace('"', '""')) for column in columns)
    deque(file.execute(f'SELECT {types} FROM "{name}"'), maxlen=0)  # noqa: S608 - its own names
