"""Write files completely or not at all, even from several processes at once."""

import errno
import hashlib
import logging
import os
import re
import shutil
import socket
import stat
import sys
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
MASK_SUFFIXES = (".tif", ".tiff", ".png", ".jpg", ".jpeg", ".vrt", ".jp2", ".img", ".bmp", ".gif")

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
_ABANDONED_S = 86_400.0  # Seconds; a partial file of an unknown process is abandoned after them.
_SQLITE_ENDS = ("", "-journal", "-wal", "-shm")  # Ends of the names that SQLite writes together.
# Errors of systems on which a folder cannot be synced; Windows does not even open one.
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)
_IN_ARCHIVE = re.compile(r"(/vsi(?:zip|tar|7z|rar)/\{)(.+?)(\}.*)")
_UMASK = os.umask(0o077)  # It can only be read by setting it.
os.umask(_UMASK)
_cleaned: set[Path] = set()  # Folders that `remove_partial` was given.
_ENOUGH_BYTES = 2**20  # Bytes; a disk with more than this free is not full.


def in_folder(text: str, folder: Path) -> str:
    """Return a path or glob that starts at a folder, unless it is absolute or an address."""
    return text if text.startswith(("/", "~")) or "://" in text else str(folder / text)


def with_home(path: Path | str) -> Path:
    """Return a path with ~ or ~name replaced by the home folder.

    Raises:
        ConfigError: if the path is invalid, or the home folder is not known.
    """
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r:.200}: a path cannot contain the character NUL")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{path!s:.200}: this user has no known home folder; write the full path"
        ) from error


def user_cache() -> Path:
    """Return the folder of this user for what can be fetched or computed again.

    Raises:
        ConfigError: if the home folder is not known.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roadseg"
    except RuntimeError as error:
        raise ConfigError(
            "XDG_CACHE_HOME: not set, and this user has no known home folder; set it to a folder "
            "for the cache"
        ) from error


def is_mask_file(path: Path) -> bool:
    """Return whether a file of roads is a raster of a mask or probabilities, by its suffix."""
    return path.suffix.lower() in MASK_SUFFIXES


def require_suffix(path: Path | None, *suffixes: str) -> None:
    """Refuse a file for `--output` with another suffix than those given; accept None.

    Raises:
        ConfigError: if the suffix is another one.
    """
    if path is not None and path.suffix.lower() not in suffixes:
        ends = " or ".join(suffixes)
        raise ConfigError(f"--output {path}: use a file name that ends in {ends}")


def refuse_to_overwrite(path: Path | None, *inputs: Path | None, option: str = "") -> None:
    """Refuse to write an output over one of the files that a command reads.

    Args:
        inputs: files that are read; None is ignored.
        option: option that names the output, such as "--output".

    Raises:
        ConfigError: if the output is one of the inputs.
    """
    read = {each.resolve() for each in inputs if each and not is_virtual(each)}
    if path is not None and path.resolve() in read:
        raise ConfigError(f"{option} {path}: is a file to read; write to another one".lstrip())


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a partial file beside `path` to write; rename it to `path` if the block succeeds.

    The name of the partial file is unique to this process: if several processes write one file,
    the last to end wins. It keeps the suffix, because some writers choose the format by it. If the
    block fails, neither file remains. Partial files of killed processes are removed first.

    Raises:
        OutputError: if the file cannot be written (a full disk, a read-only folder).
    """
    partial = partial_path(path)
    with _in_place_of(path, *(partial.with_name(f"{partial.name}{end}") for end in _SQLITE_ENDS)):
        yield partial
        rename_into_place(partial, path)


@contextmanager
def atomic_write_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write to; replace `folder` by it if the block succeeds.

    A process that is killed in between may leave no folder, but never an incomplete one.

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
        # A folder that is not empty cannot be replaced, so the former one makes room first.
        with suppress(FileNotFoundError):
            folder.rename(former)
        rename_into_place(partial, folder)


@contextmanager
def atomic_write_parts(path: Path, *ends: str) -> Iterator[Path]:
    """Yield a path to write several files to; move them beside `path` if the block succeeds.

    They are written in a temporary folder, in which a library may also leave other files. A process
    that is killed while they are moved may leave no `path`, which is moved last, but never one with
    parts of an earlier version.

    Args:
        path: main file, such as `city.shp`.
        ends: suffixes of its other parts. Parts that are not written again are removed.

    Raises:
        OutputError: if the files cannot be written (a full disk, a read-only folder).
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
    """Make the folder of a path, and remove partial files before and after the block."""
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
    """Turn errors of the operating system inside the block into one line that names a file.

    Raises:
        OutputError: if the file cannot be written (a full disk, a read-only folder).
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error


def rename_into_place(partial: Path, path: Path) -> None:
    """Rename a partial file to its final name once it is on the disk, so that an outage is safe.

    Raises:
        OSError: if it cannot be written to the disk, or renamed.
    """
    _open_to_others(partial)
    _sync(partial)
    partial.replace(path)
    # The new name is on the disk only once the folder is.
    _sync(path.parent)


def partial_path(path: Path, before: str = "") -> Path:
    """Return the name of a partial file, which is unique to this process."""
    return path.with_name(f"{_PARTIAL}{_machine()}-{os.getpid()}-{before}{path.name}")


def remove_partial(folder: Path) -> None:
    """Remove the partial files of killed processes in a folder, if it exists.

    Those of another machine, and all on Windows, are removed if they have not changed for a day.
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


def is_gone(process: int) -> bool | None:
    """Return whether a process of this machine has ended; a zombie has. None if nobody knows."""
    if sys.platform == "win32":  # There, signal 0 is Ctrl-C.
        return None
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
    gone = is_gone(int(process)) if machine == _machine() else None
    return time.time() - partial.stat().st_mtime > _ABANDONED_S if gone is None else gone


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
    """Wait until a file or folder is on the disk; some systems do that for files only."""
    is_folder = path.is_dir()
    try:
        # Windows syncs only what may be written.
        opened = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if not (is_folder and error.errno in _NOT_SYNCED):
            raise


def is_virtual(path: Path) -> bool:
    """Return whether a path is a GDAL path into an archive or the network (`/vsizip/...`)."""
    return path.as_posix().startswith("/vsi")


def parts_in_archive(path: Path) -> tuple[str, str, str] | None:
    """Return the beginning, the archive and the end of a GDAL path; None if it has no archive.

    For example `/vsizip/{`, `/data/images.zip` and `}/city.tif`.
    """
    parts = _IN_ARCHIVE.fullmatch(path.as_posix())
    return (parts[1], parts[2], parts[3]) if parts else None


def moved_with(folder: Path, former: str, path: str) -> str:
    """Return the present path of a file that is named by another file, if both may have moved.

    Args:
        folder: present folder of the file that names it.
        former: earlier folder of that file, relative to which `path` was found; empty if unknown.
        path: path that was stored.

    Returns:
        If `path` was inside the earlier folder, the same path inside the present one; else the path
        with the same relation to the present folder, if such a file exists; else `path`.
    """
    old = Path(path)
    if not former or former == str(folder) or is_virtual(old) or old.anchor != Path(former).anchor:
        return path  # It is no path, or one on another drive.
    there = os.path.normpath(folder / os.path.relpath(path, former))
    is_inside = old.is_relative_to(former)
    return there if is_inside or os.path.lexists(there) else path


def write_error(path: Path, reason: str) -> OSError:
    """Return the error for a file that could not be written, with the reason.

    Libraries describe a full disk in different words. Therefore a test file is written to find out
    whether there is room, also on a disk with a quota.
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
