"""Write files whole or not at all, several processes at once if need be."""

import errno
import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from roadseg.errors import ConfigError, OutputError, RoadsegError
from roadseg.system.text import one_line

MASK_SUFFIXES = (  # of rasters in which a pixel says whether there is a road
    *(".tif", ".tiff", ".png", ".jpg", ".jpeg", ".vrt", ".jp2", ".img", ".bmp", ".gif"),
)

PARQUET_SUFFIXES = (".parquet", ".geoparquet")

VECTOR_SUFFIXES = (  # of what GDAL reads vectors from, packed or not
    *(".geojson", ".json", ".geojsonl", ".geojsons", ".gpkg", ".shp", ".fgb", ".kml", ".kmz"),
    *(".gml", ".gpx", ".osm", ".pbf", ".gz", ".zip"),
)
ROAD_SUFFIXES = (*VECTOR_SUFFIXES, *PARQUET_SUFFIXES)

_PARTIAL = ".partial-"  # begins the names of files that are being written; machine, process and
_OF_PROCESS = re.compile(r"\.partial-([0-9a-f]{8})-(\d+)-")  # their own names follow
_ABANDONED_S = 86_400.0  # without a change, a file that a process elsewhere was writing
_BESIDE = ("", "-journal", "-wal", "-shm")  # ends of the names of what SQLite writes together
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # where a folder cannot be
_ENOUGH_BYTES = 2**20  # free on a disk that is not full


def with_home(path: Path | str) -> Path:
    """Return a path with the home folder in the place of ~ or ~name.

    Raises:
        ConfigError: if no file can have such a name, or nobody such a home.
    """
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r:.200}: no path can hold the character NUL")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{path!s:.200}: no home folder is known for this user; write the path in full"
        ) from error


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a partial name beside `path` to write to; rename it to `path` when the block ends well.

    The partial name belongs to this process: of several that write one file, the last to end
    wins. It keeps the suffix, because some writers choose the format by it. Whatever goes wrong
    inside the block, nothing stays behind under either name; what killed processes left in the
    folder is removed first.

    Raises:
        OutputError: if the file cannot be written (a full disk, a read-only folder).
    """
    partial = partial_path(path)
    try:
        _make(path.parent)
        tidy_once(path.parent)
        _remove(partial)
        yield partial
        put(partial, path)
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            _remove(partial)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write to; put it in the place of `folder` when the block ends well.

    A process that is killed between the two leaves no folder, but never half of one.

    Raises:
        OutputError: if it cannot be written (a full disk, a read-only folder).
    """
    partial, former = partial_path(folder), partial_path(folder, "former-")
    try:
        _make(folder.parent)
        tidy_once(folder.parent)
        for stale in (partial, former):
            shutil.rmtree(stale, ignore_errors=True)
        partial.mkdir()
        yield partial
        for written in partial.rglob("*"):
            _sync(written)
        _put_folder(partial, folder, former)
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        for stale in (partial, former):
            shutil.rmtree(stale, ignore_errors=True)


def put(partial: Path, path: Path) -> None:
    """Give what was written its final name once the disk holds it, so that no outage halves it.

    Raises:
        OSError: if it cannot be kept.
    """
    _sync(partial)
    partial.replace(path)
    _sync(path.parent)


def _put_folder(partial: Path, folder: Path, former: Path) -> None:
    """Give a folder its final name, after any that another process puts there meanwhile."""
    while True:
        with suppress(FileNotFoundError):
            folder.rename(former)
        try:
            put(partial, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(former, ignore_errors=True)
        else:
            return


def partial_path(path: Path, before: str = "") -> Path:
    """Return the name under which this process writes a file, and no other one does."""
    return path.with_name(f"{_PARTIAL}{_machine()}-{os.getpid()}-{before}{path.name}")


def remove_partial(folder: Path) -> None:
    """Remove what killed processes left half written in a folder, if there is such a folder.

    Of a process on another machine this is what has not changed for a day.
    """
    for path in folder.glob(f"{_PARTIAL}*"):
        with suppress(OSError):  # where another process is faster, or they are another user's
            if not _is_stale(path):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def tidy_once(folder: Path) -> None:
    """Do `remove_partial` where this process has not done it yet."""
    _tidy(folder, os.getpid())


def is_gone(process: int) -> bool:
    """Say whether a process of this machine has ended, even if nobody has asked how yet."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's, or there is no /proc
        return False
    return status.rpartition(")")[2].split()[0] == "Z"


@cache
def _tidy(folder: Path, _process: int) -> None:  # which a forked one is not
    remove_partial(folder)


def _is_stale(partial: Path) -> bool:
    found = _OF_PROCESS.match(partial.name)
    if found is None:
        return True
    if found[1] == _machine():
        return is_gone(int(found[2]))
    return time.time() - partial.stat().st_mtime > _ABANDONED_S


@cache
def _machine() -> str:
    """Return a digest of what the numbers of processes belong to: machine, or container of it."""
    names = [socket.gethostname()]
    with suppress(OSError):
        names.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:8]


def _make(folder: Path) -> None:
    """Make a folder if it is not there; a file in its place is what the error is about."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error


def _remove(partial: Path) -> None:
    for end in _BESIDE:
        partial.with_name(f"{partial.name}{end}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk; some file systems do that for files only."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if not (path.is_dir() and error.errno in _NOT_SYNCED):
            raise
    finally:
        os.close(opened)


def is_virtual(path: Path) -> bool:
    """Say whether a path is one of GDAL's into an archive or the network (`/vsizip/...`)."""
    return str(path).startswith("/vsi")


def moved_with(folder: Path, former: str, path: str) -> str:
    """Return where a file is to be found that a file in `folder` names, if both may have moved.

    Args:
        folder: where it lies now.
        former: where it lay when it named the file; empty if that is not known.
        path: absolute path that it named.

    Returns:
        The path in the folder as it lies now; or the one that is as far from it as before, if there
        is something; else `path`.
    """
    if not former or former == str(folder) or not path.startswith("/") or is_virtual(Path(path)):
        return path
    there = os.path.normpath(folder / os.path.relpath(path, former))
    is_inside = Path(path).is_relative_to(former)
    return there if is_inside or os.path.lexists(there) else path


def write_error(path: Path, reason: str) -> OSError:
    """Return the error of a file that could not be written: what its folder lacks, or a reason.

    A library says in words of its own what failed; whether it was for want of room, as on a disk
    with a quota, is seen by writing there.
    """
    folder = path.parent
    if folder.is_dir() and not os.access(folder, os.W_OK):
        return OSError(errno.EACCES, os.strerror(errno.EACCES))
    if folder.is_dir() and shutil.disk_usage(folder).free < _ENOUGH_BYTES:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return _refusal(folder) or OSError(errno.EIO, f"{one_line(reason):.200}")


def _refusal(folder: Path) -> OSError | None:
    """Return what the system says to a file of some size in a folder; None if it takes it."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_ENOUGH_BYTES))
    except OSError as error:
        return error
    return None
