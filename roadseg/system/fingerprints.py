"""Fingerprints of the contents of files, independent of their location and time."""

import hashlib
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import rasterio
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError

from roadseg.errors import ConfigError
from roadseg.system.files import is_virtual, parts_in_archive, user_cache
from roadseg.system.progress import counted

GONE = "missing"

_DIGITS = 32  # Hexadecimal digits of a fingerprint, which are 128 bits.
_REMEMBERED_BYTES = 2**20  # Bytes; a smaller file is read again, in a millisecond at most.
_SETTLED_S = 2.0  # Seconds; after these, a new change has a new time on any file system.
_MEMORY = "digests"  # File of remembered digests in the user's cache folder.
_MEMORY_BYTES = 2**25  # Bytes; with some 200,000 digests this file is full.
_THREADS = 4  # Files are hashed in parallel, as hashing releases the interpreter's lock.
_OF_SHAPEFILE = (".shx", ".dbf", ".prj", ".cpg")
# World files and headers. Viewers add .aux.xml to any raster, so that one does not count.
_OF_RASTER = (".hdr", ".tfw", ".tifw", ".jgw", ".pgw", ".j2w", ".wld")
_SQLITE = b"SQLite format 3\0"  # The first bytes of an SQLite file, whatever its name.
_HEADER_BYTES = 100  # Bytes of its header.
_COUNTERS = ((18, 20), (24, 28), (92, 100))  # Bytes of this header that opening a file can change.


def fingerprint(path: Path) -> str:
    """Return a digest of the contents of a file, independent of its name, folder and time.

    Files that belong to it are included: the files in a folder (FileGDB), the parts of a shapefile,
    the world file of an image, and the sources of a VRT. Counters in the header of an SQLite file
    (GeoPackage) are left out, because programs change them when they open the file. Of a GDAL path
    into an archive, the contents of the archive and the path inside it count; of a file on the
    network, only the address.

    Digests of large files are stored in the user's cache folder by path, size, inode, and times of
    the last change, so that each file is read once.

    The fingerprint of a missing file is `GONE`, that of an unreadable file the text of the error.
    """
    try:
        return _fingerprint(path)
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as error:
        return str(error.strerror)


def _fingerprint(path: Path) -> str:
    if is_virtual(path):
        parts = parts_in_archive(path)
        return f"{_fingerprint(Path(parts[1]))}{parts[2][1:]}" if parts else str(path)
    # A file without parts has the digest of its bytes; else a digest of all digests counts.
    digests = [f"{name} {_known_digest(part)}" for name, part in parts_of(path)]
    if len(digests) == 1 and not path.is_dir():
        return digests[0].lstrip()
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()[:_DIGITS]


def fingerprints(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the fingerprint of each file; several are read at once."""
    wanted = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(_THREADS) as threads:
        work = threads.map(fingerprint, wanted)
        digests = counted(work, "check for changes", total=len(wanted), unit="files")
        return dict(zip(wanted, digests, strict=True))


def stamp(path: Path) -> str:
    """Return path, size and time of a file; they differ after the file was changed."""
    if is_virtual(path):
        return str(path)
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def parts_of(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that belong to one, each with a name that does not change when all move."""
    if path.is_dir():
        inside = (part for part in path.rglob("*") if part.is_file() and part.suffix != ".lock")
        yield from ((part.relative_to(path).as_posix(), part) for part in inside)
        return
    yield "", path
    ends = _OF_SHAPEFILE if path.suffix.lower() == ".shp" else _OF_RASTER
    for end in ends:
        beside = {path.with_suffix(end), path.with_suffix(end.upper())} - {path}
        yield from ((end, part) for part in sorted(beside) if part.is_file())
    if path.suffix.lower() == ".vrt":
        yield from ((f"{number} {part.name}", part) for number, part in enumerate(_sources(path)))


def _sources(vrt: Path) -> list[Path]:
    """Return the files on disk that are sources of a VRT; none if it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(vrt) as source:
                files = [Path(name) for name in source.files]
    except RasterioIOError:
        return []
    return [file for file in files if file != vrt and file.is_file()]


def _known_digest(path: Path) -> str:
    """Return the digest of a file; the stored one if it has not changed since it was read."""
    status = path.stat()
    if status.st_size < _REMEMBERED_BYTES:
        return digest_of(path)
    times = f"{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"
    key = f"{path.absolute()} {status.st_size} {times}"
    if known := remembered().get(key):
        return known
    # The age counts from before the file is read: a change while it is read must not be missed.
    is_settled = time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED_S
    digest = digest_of(path)
    if is_settled:
        _remember(key, digest)
    return digest


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of all bytes of a file, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(path: Path) -> str:
    """Return the digest of the contents of a single file, without the counters of SQLite."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
        if not header.startswith(_SQLITE):
            return file_sha256(path)[:_DIGITS]
        # The header is hashed with its counters blank; `file_digest` continues with the rest.
        # Source: "Database File Format", section 1.3, of SQLite's documentation.
        blanked = bytearray(header)
        for start, stop in _COUNTERS:
            blanked[start:stop] = bytes(stop - start)
        digest = hashlib.sha256(blanked)
        return hashlib.file_digest(file, lambda: digest).hexdigest()[:_DIGITS]


@lru_cache(maxsize=1)
def remembered() -> dict[str, str]:
    """Return the stored digests; damaged lines are left out."""
    try:
        text = (user_cache() / _MEMORY).read_text(encoding="utf-8", errors="replace")
    except (OSError, ConfigError):
        return {}
    pairs = (line.rpartition(" ") for line in text.splitlines())
    return {key: digest for key, _, digest in pairs if key and len(digest) == _DIGITS}


def _remember(key: str, digest: str) -> None:
    """Store a digest; if that is not possible, the file is read again the next time."""
    remembered()[key] = digest
    with suppress(OSError, ConfigError, UnicodeEncodeError):
        path = user_cache() / _MEMORY
        path.parent.mkdir(parents=True, exist_ok=True)
        is_full = path.exists() and path.stat().st_size > _MEMORY_BYTES
        with path.open("w" if is_full else "a", encoding="utf-8") as file:
            file.write(f"{' '.join(key.splitlines())} {digest}\n")
