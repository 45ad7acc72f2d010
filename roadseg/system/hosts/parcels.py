"""Parcels: tasks, their files and their outputs, on the way to workers and back."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from roadseg.system.files import is_virtual, parts_in_archive
from roadseg.system.fingerprints import known_digest, parts_of

PIECE_BYTES = 2**23  # Bytes that are sent at once: they are in memory several times on their way.
_BESIDE = (".aux.xml", ".ovr", ".msk")  # Ends that GDAL adds to the names of rasters.


@dataclass(frozen=True)
class Content:
    """What a file of the command contains.

    Attributes:
        path: absolute path of the file; empty for what was never in a file.
        digest: of its bytes, as `fingerprints` has it.
        size: bytes.
        modified: time of its last change, in nanoseconds.
    """

    path: str
    digest: str
    size: int
    modified: int = 0

    @property
    def is_here(self) -> bool:
        """Whether this process sees the file, unchanged, under the same path."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.modified)


@dataclass(frozen=True)
class Parcel:
    """One task on its way to a worker.

    Attributes:
        job: secret name of the job that it is of.
        number: of the task.
        work: what is done with its item, packed.
        item: packed.
        reads: files that it may read.
        writes: absolute paths that it may write.
        markers: files beside these that hold the name of the job; a worker that sees them writes
            to the disk of the command.
    """

    job: str
    number: int
    work: Content
    item: bytes
    reads: tuple[Content, ...]
    writes: tuple[str, ...]
    markers: tuple[str, ...]

    @property
    def is_on_one_disk(self) -> bool:
        """Whether this process sees the files of the command."""
        return all(content.is_here for content in self.reads) and all(
            _reads_as(Path(marker), self.job) for marker in self.markers
        )


@dataclass(frozen=True)
class Output:
    """A file that a task has written on a worker.

    Attributes:
        write: which of the paths that the task may write.
        name: of the file inside it if it is a folder, else empty.
        size: bytes.
        data: the bytes; None if they are still to be fetched.
    """

    write: int
    name: str
    size: int
    data: bytes | None


@dataclass(frozen=True)
class Answer:
    """What became of a task on a worker.

    Attributes:
        worker: its address.
        outcome: packed.
        outputs: files that the command does not see yet.
        fault: why the worker could not do the task; empty if it could.
    """

    worker: str
    outcome: bytes = b""
    outputs: tuple[Output, ...] = ()
    fault: str = ""


class Contents:
    """The contents that workers may ask for: of the inputs of one job, and of no other file."""

    def __init__(self) -> None:
        """Have none yet."""
        self._known: dict[tuple[Path, int, int], Content] = {}
        self._by_digest: dict[str, Content | bytes] = {}

    def of_files(self, paths: Iterable[Path]) -> tuple[Content, ...]:
        """Add files with the parts that belong to each, and return what they contain."""
        files = dict.fromkeys(file for path in paths for file in _files(path.absolute()))
        return tuple(self._of_file(file) for file in files)

    def of_bytes(self, data: bytes) -> Content:
        """Add bytes."""
        digest = sha256(data).hexdigest()[:32]
        self._by_digest[digest] = data
        return Content("", digest, len(data))

    def piece(self, digest: str, offset: int) -> bytes:
        """Return up to `PIECE_BYTES` from an offset on.

        Raises:
            ValueError: if this is not the digest of an input, or its file has changed.
            OSError: if the file cannot be read.
        """
        content = self._by_digest.get(digest)
        if content is None:
            raise ValueError(f"{digest!s:.40} is no input of this job")
        if isinstance(content, bytes):
            return content[offset : offset + PIECE_BYTES]
        if not content.is_here:
            raise ValueError(f"{content.path} was changed during the work")
        with Path(content.path).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)

    def _of_file(self, path: Path) -> Content:
        status = path.stat()
        key = path, status.st_size, status.st_mtime_ns
        if key not in self._known:
            content = Content(str(path), known_digest(path), *key[1:])
            self._known[key] = content
            self._by_digest[content.digest] = content
        return self._known[key]


def _files(path: Path) -> Iterator[Path]:
    """Yield the files without which one cannot be read as it is here; none if it is missing."""
    if is_virtual(path):
        parts = parts_in_archive(path)
        yield from _files(Path(parts[1])) if parts else ()
        return
    if not path.exists():
        return
    for _, part in parts_of(path):
        yield part
        beside = (part.with_name(part.name + end) for end in _BESIDE)
        yield from (other for other in beside if other.is_file())


def _reads_as(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False
