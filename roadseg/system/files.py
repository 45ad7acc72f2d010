"""Write files whole or not at all, several processes at once if necessary."""

import errno
import hashlib
import logging
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from roadseg.errors import ConfigError, OutputError, RoadsegError
from roadseg.system.text import one_line

_log = logging.getLogger(__name__)

# Suffixes of rasters in which a pixel says whether there is a road.
MASK_SUFFIXES = (
    *(".tif", ".tiff", ".png", ".jpg", ".jpeg", ".vrt", ".jp2", ".img", ".bmp", ".gif"),
)

# Further suffixes of the parts of a Shapefile.
SHAPEFILE_PARTS = (".shx", ".dbf", ".prj", ".cpg", ".qix", ".sbn", ".sbx")

PARQUET_SUFFIXES = (".parquet", ".geoparquet")

# Suffixes of files of lines, packed or not; of files of one name the first counts.
LINE_SUFFIXES = (
    *(".gpkg", ".fgb", *PARQUET_SUFFIXES, ".shp", ".geojson", ".geojsonl", ".geojsons", ".kml"),
    *(".kmz", ".gml", ".gpx", ".osm", ".pbf", ".gz", ".zip"),
)
ROAD_SUFFIXES = (*LINE_SUFFIXES, ".json")  # Other data is often kept as .json, too.

# Suffixes of folders that are a file to their readers.
FOLDER_SUFFIXES = (".gdb",)

# The name of a file that is being written begins with this; machine, process and the final name
# follow.
_PARTIAL = ".partial-"
_PARTIAL_NAME = re.compile(r"\.partial-([0-9a-f]{8})-(\d+)-")
_ABANDONED_S = 86_400.0  # Seconds; a partial file of another machine is abandoned after this time.
_SQLITE_ENDS = ("", "-journal", "-wal", "-shm")  # Ends of the names that SQLite writes together.
# Errors of file systems on which a folder cannot be synced.
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
_IN_ARCHIVE = re.compile(r"(/vsi(?:zip|tar|7z|rar)/\{)(/.+?)(\}.*)")
_UMASK = os.umask(0o077)  # It can only be read by setting it.
os.umask(_UMASK)
_cleaned: set[Path] = set()  # Folders that `remove_partial` was given.
_ENOUGH_BYTES = 2**20  # Bytes; a disk with more than this free is not full.


def with_home(path: Path | str) -> Path:
    """Return a path with the home folder in the place of ~ or ~name.

    Raises:
        ConfigError: if no file can have such a name, or nobody such a home.
    """
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r:.200}: a path cannot contain the character NUL")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{path!s:.200}: this user has no known home folder; write the full path"
        ) from error


def require_suffix(path: Path | None, *suffixes: str, option: str = "") -> None:
    """Refuse an output whose name does not end in one of some suffixes; None passes.

    Args:
        option: that named it, such as "--output".

    Raises:
        ConfigError: if so.
    """
    if path is not None and path.suffix.lower() not in suffixes:
        ends = " or ".join(suffixes)
        raise ConfigError(f"{option} {path}: use a file name that ends in {ends}".lstrip())


def refuse_to_overwrite(path: Path | None, *inputs: Path | None, option: str = "") -> None:
    """Refuse to write an output over one of the files that a command reads.

    Args:
        inputs: files; None is no input.
        option: that named the output, such as "--output".

    Raises:
        ConfigError: if so.
    """
    read = {each.resolve() for each in inputs if each and not is_virtual(each)}
    if path is not None and path.resolve() in read:
        raise ConfigError(f"{option} {path}: is a file to read; write to another one".lstrip())


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a partial file beside `path` to write; rename it to `path` if the block succeeds.

    The partial name belongs to this process: of several that write one file, the last to end
    wins. It keeps the suffix, because some writers choose the format by it. Whatever goes wrong
    inside the block, nothing stays behind under either name; what killed processes left in the
    folder is removed first.

    Raises:
        OutputError: if the file cannot be written (a full disk, a read-only folder).
    """
    partial = partial_path(path)
    with _in_place_of(path, *(partial.with_name(f"{partial.name}{end}") for end in _SQLITE_ENDS)):
        yield partial
        rename_into_place(partial, path)


@contextmanager
def atomic_write_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write to; put it in the place of `folder` when the block ends well.

    A process that is killed between the two leaves no folder, but never half of one.

    Raises:
        OutputError: if it cannot be written (a full disk, a read-only folder).
    """
    partial, former = partial_path(folder), partial_path(folder, "former-")
    with _in_place_of(folder, partial, former):
        partial.mkdir()
        yield partial
        for written in partial.rglob("*"):
            _open_to_others(written)
            _sync(written)
        _put_folder(partial, folder, former)


@contextmanager
def atomic_write_parts(path: Path, *ends: str) -> Iterator[Path]:
    """Yield a name for several files to write; move them beside `path` if the block succeeds.

    They are written in a folder of their own, where a library may also leave what it no longer
    needs. A process that is killed while they are moved leaves no `path`, which is moved last, but
    never one with parts of another.

    Args:
        path: the file by which all are known, such as `city.shp`.
        ends: suffixes of its other parts. Those that are not written anew are removed.

    Raises:
        OutputError: if they cannot be written (a full disk, a read-only folder).
    """
    folder = partial_path(path, "parts-")
    with _in_place_of(path, folder):
        folder.mkdir()
        yield folder / path.name
        path.unlink(missing_ok=True)
        for end in ends:
            part = path.with_suffix(end)
            part.unlink(missing_ok=True)
            if (folder / part.name).exists():
                rename_into_place(folder / part.name, part)
        rename_into_place(folder / path.name, path)


@contextmanager
def _in_place_of(path: Path, *partial: Path) -> Iterator[None]:
    """Make room for partial files and folders of a path, and remove what is left of them after."""
    try:
        with writing(path):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:  # A file in the place of the folder is the fault.
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
            remove_partial_once(path.parent)
            _remove(partial)
            yield
            _log.debug("wrote %s", path)
    finally:
        with suppress(OSError):
            _remove(partial)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system refuses inside the block into one line that names a file or folder.

    Raises:
        OutputError: if it cannot be written (a full disk, a read-only folder).
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def rename_into_place(partial: Path, path: Path) -> None:
    """Rename a partial file to its final name once the disk holds it, so that no outage halves it.

    Raises:
        OSError: if it cannot be kept.
    """
    _open_to_others(partial)
    _sync(partial)
    partial.replace(path)
    # The new name is on the disk only once the folder is.
    _sync(path.parent)


def _put_folder(partial: Path, folder: Path, former: Path) -> None:
    """Rename a folder to its final name, after any that another process puts there meanwhile."""
    while True:
        # A folder that is not empty cannot be replaced, so the former one makes room first. Another
        # process may do the same between the two steps; then both are tried again.
        with suppress(FileNotFoundError):
            folder.rename(former)
        try:
            rename_into_place(partial, folder)
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
    for path in sorted(folder.glob(f"{_PARTIAL}*")):
        # Another process may be faster, or the file may be another user's.
        with suppress(OSError):
            if not _is_stale(path):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def remove_partial_once(folder: Path) -> None:
    """Call `remove_partial` for a folder, unless this process or its parent has done so before."""
    if folder not in _cleaned:
        remove_partial(folder)
        _cleaned.add(folder)


def is_gone(process: int) -> bool:
    """Return whether a process of this machine has ended; a zombie has."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # The process is another user's, or there is no /proc.
        return False
    # The state follows the name of the program, which stands in brackets and may hold others.
    return status.rpartition(")")[2].split()[0] == "Z"


def _is_stale(partial: Path) -> bool:
    """Return whether the process that wrote a partial file has ended, as far as that is known."""
    writer = _PARTIAL_NAME.match(partial.name)
    if writer is None:
        return True
    machine, process = writer.groups()
    if machine == _machine():
        return is_gone(int(process))
    return time.time() - partial.stat().st_mtime > _ABANDONED_S


@cache
def _machine() -> str:
    """Return a digest of the machine, or of the container, within which process numbers count."""
    # Containers on one machine count their processes apart; the namespace tells them apart.
    names = [socket.gethostname()]
    with suppress(OSError):
        names.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:8]


def _remove(partial: Iterable[Path]) -> None:
    for path in partial:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _open_to_others(path: Path) -> None:
    """Let others read a file as far as the umask does; some libraries write for one user only."""
    mode, usual = stat.S_IMODE(path.stat().st_mode), 0o666 & ~_UMASK
    # Some file systems have no modes.
    with suppress(PermissionError):
        if path.is_file() and mode | usual != mode:
            path.chmod(mode | usual)


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
    """Return whether a path is one of GDAL's into an archive or the network (`/vsizip/...`)."""
    return str(path).startswith("/vsi")


def parts_in_archive(path: Path | str) -> tuple[str, str, str] | None:
    """Return the beginning, the archive and the end of a path of GDAL's; None if it has no archive.

    They are such as `/vsizip/{`, `/data/images.zip` and `}/city.tif`.
    """
    parts = _IN_ARCHIVE.fullmatch(str(path))
    return (parts[1], parts[2], parts[3]) if parts else None


def moved_with(folder: Path, former: str, path: str) -> str:
    """Return where a file is to be found that a file in `folder` names, if both may have moved.

    Args:
        former: where it lay when it named the file; empty if unknown.

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
    """Return the error of a file that could not be written, with the reason.

    Libraries report a full disk in words of their own. Whether there is room, as on a disk with a
    quota, is therefore tried by writing to the folder.
    """
    folder = path.parent
    if folder.is_dir() and not os.access(folder, os.W_OK):
        return OSError(errno.EACCES, os.strerror(errno.EACCES))
    if folder.is_dir() and shutil.disk_usage(folder).free < _ENOUGH_BYTES:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(_ENOUGH_BYTES))
    except OSError as error:
        return error
    return OSError(errno.EIO, f"{one_line(reason):.200}")
