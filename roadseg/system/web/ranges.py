"""Files on a server, read in parts by byte ranges."""

import io
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

from roadseg.errors import DataError, RoadsegError
from roadseg.system.text import size_text
from roadseg.system.web.answers import Answer, BadAnswerError, whole_number
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import LARGEST_BYTES, Client
from roadseg.system.web.keys import without_keys

_BLOCK = 2**19  # Bytes that are asked for at once.
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)", re.ASCII)
_HELD = 32  # Blocks in memory.


@dataclass
class RemoteFile:
    """A file on a server, whose parts are fetched when they are read, and kept in the cache.

    Attributes:
        failure: the error that ended reading inside of a library that does not pass errors on.
    """

    address: str
    client: Client
    cache: Cache
    failure: RoadsegError | None = None
    _blocks: dict[int, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Ask for the first part, which tells the size of the file.

        Raises:
            DataError: if the server does not give it.
        """
        self.size, self.version = 0, ""
        try:
            start = self.client.get(
                self.address, self._read_start, largest=LARGEST_BYTES, headers=_range(0)
            )
        except DataError as error:
            if "larger than expected" in str(error):
                raise DataError(
                    f"{without_keys(self.address)}: the server does not give parts of files, and "
                    f"this one has more than {size_text(LARGEST_BYTES / 1e6)}; download it "
                    "yourself, and use the file"
                ) from error
            raise
        if self.size != len(start):
            self._blocks[0] = start
            return
        for at in range(0, max(self.size, 1), _BLOCK):
            self.cache.write(self._question(at // _BLOCK), start[at : at + _BLOCK])

    @property
    def name(self) -> str:
        """The name under which GDAL opens it."""
        return Path(without_keys(self.address).partition("?")[0]).name or "raster"

    def open(self, path: str, mode: str = "rb") -> io.RawIOBase:  # noqa: ARG002 - as GDAL calls it
        """Open it as rasterio's `opener`; there are no other files."""
        if not path.endswith(self.name):
            raise FileNotFoundError(path)
        return _Reader(self)

    def block(self, number: int) -> bytes:
        """Return a part of the file.

        Raises:
            DataError: if the server does not give it, or the file has changed.
        """
        with self._lock:
            if (in_memory := self._blocks.get(number)) is not None:
                return in_memory
        question, size = self._question(number), min(_BLOCK, self.size - number * _BLOCK)
        body = self.cache.read(question)
        if body is None or len(body) != size:
            body = self.client.get(
                self.address,
                lambda answer: self._read_part(answer, number, size),
                largest=2 * _BLOCK,
                headers=_range(number),
            )
            self.cache.write(question, body)
        with self._lock:
            while len(self._blocks) >= _HELD:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[number] = body
        return body

    def _question(self, number: int) -> str:
        return f"part {number} of {_BLOCK} {without_keys(self.address)} {self.size} {self.version}"

    def _read_start(self, answer: Answer) -> bytes:
        """Take size and version of the file from the first answer."""
        if "html" in answer.kind or not answer.body:
            raise BadAnswerError(f"found {answer.description}, expected a raster")
        part, span = answer.headers.get("content-range", ""), _span(answer)
        if part and not span:
            raise BadAnswerError(f"found a part of a file without its size ({part:.60})")
        self.size = span[2] if span else len(answer.body)
        self.version = _version(answer)
        return self._read_part(answer, 0, min(_BLOCK, self.size)) if span else answer.body

    def _read_part(self, answer: Answer, number: int, size: int) -> bytes:
        """Check that an answer is the part that was asked for."""
        first = number * _BLOCK
        if _version(answer) != self.version:
            raise BadAnswerError("the file changed on the server while it was read; run it again")
        span = _span(answer)
        right = span and span[0] == first and span[2] == self.size
        if not right or len(answer.body) != size:
            raise BadAnswerError(
                f"found {len(answer.body)} bytes ({answer.headers.get('content-range')}), expected "
                f"{size} from {first}"
            )
        return answer.body


class _Reader(io.RawIOBase):
    """Reads a remote file from a position."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._file.size)
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return bytes; none if they cannot be fetched, because GDAL does not pass errors on."""
        end = self._file.size if size < 0 else min(self._at + size, self._file.size)
        parts = bytearray()
        try:
            while self._file.failure is None and self._at < end:
                number, start = divmod(self._at, _BLOCK)
                part = self._file.block(number)[start : start + end - self._at]
                parts += part
                self._at += len(part)
        except RoadsegError as error:
            self._file.failure = error
        return bytes(parts)


def _range(number: int) -> dict[str, str]:
    """Return the headers that ask for a part as it is, not compressed."""
    first = number * _BLOCK
    return {"Range": f"bytes={first}-{first + _BLOCK - 1}", "Accept-Encoding": "identity"}


def _span(answer: Answer) -> list[int] | None:
    """Return the first byte, the last one and the size that a part names; None for no part."""
    span = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    return [whole_number(each) for each in span.groups()] if span else None


def _version(answer: Answer) -> str:
    return answer.headers.get("etag") or answer.headers.get("last-modified") or ""
