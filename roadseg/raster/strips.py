"""Strips: pieces of a raster of bytes, kept beside its place until the last one is there."""

import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from roadseg.errors import OutputError
from roadseg.raster.grid import Grid
from roadseg.raster.overviews import write_overviews
from roadseg.raster.raw_strips import HAS_DATA, OpenRawFile, Piece, RawFile, vrt_of
from roadseg.raster.windows import Rows
from roadseg.system.files import partial_path, put, remove_partial_once
from roadseg.system.text import size_text

_WAITING = 8  # Parts that wait to be written, at most.
STRIP_PX = 2048  # Rows of a strip; whole tiles of the raster that the strips become.

_HIDDEN = ".strips-"
_SUFFIX = ".bip"
_GAPS = ".gaps"  # Suffix of the file that tells which pixels of a strip have data, if not all.
_JOINED_PX = 2048  # Columns of parts that are written together, as every line is a call.


@dataclass(frozen=True)
class Strips:
    """The strips of a raster, each a file that is whole if it exists.

    A strip holds the pixels row by row: all bands of the first pixel, then those of the second
    (ENVI, interleaved by pixel). Where some have no data, a file beside it tells which. Several
    processes may write strips of one raster at the same time, even the same strip.

    Attributes:
        folder: hidden folder beside the raster, named by its file and its key.
        height: rows of the raster.
        width: columns.
        bands: of the raster.
    """

    folder: Path
    height: int
    width: int
    bands: int

    @classmethod
    def beside(cls, path: Path, key: str, *, height: int, width: int, bands: int) -> "Strips":
        """Name the strips of a raster that is to become the file `path`, and touch none."""
        return cls(path.with_name(f"{_HIDDEN}{path.name}-{key}"), height, width, bands)

    @property
    def is_begun(self) -> bool:
        """Whether any strip is there."""
        return any(self._pixels(rows).path.exists() for rows in self._all())

    def files(self, rows: range) -> tuple[Path, ...]:
        """Return the files of the strips of some rows; that of the pixels of each comes last."""
        strips = [strip for strip in self._all() if strip.start in rows]
        files = [(_gaps_of(pixels), pixels) for pixels in map(self._pixels, strips)]
        return tuple(file.path for pair in files for file in pair)

    @property
    def size(self) -> int:
        """Bytes of all strips."""
        return sum(self._pixels(rows).size for rows in self._all())

    @property
    def missing(self) -> list[range]:
        """The rows of each strip that is not there, from top to bottom."""
        return [rows for rows in self._all() if not self._pixels(rows).path.exists()]

    @property
    def missing_bytes(self) -> int:
        """Size of the strips that are not there."""
        return sum(self._pixels(rows).size for rows in self.missing)

    def write(self, parts: Iterable[Rows]) -> None:
        """Write rows as they come into the strips that they belong to, from left to right.

        A thread writes what came while the next ones are made. A strip for which not all rows
        come is not kept.

        Raises:
            OSError: if they cannot be written (a full disk).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_partial_once(self.folder)
        try:
            with ExitStack() as opened, ThreadPoolExecutor(1, "writer") as thread:
                strips: dict[int, _OpenStrip] = {}
                writing: deque[Future[None]] = deque()
                for part in parts:
                    for rows, piece in self._split(part):
                        if rows.start not in strips:
                            strip = _OpenStrip(self._pixels(rows), rows.start)
                            strips[rows.start] = opened.enter_context(strip)
                        writing.append(thread.submit(strips[rows.start].write, piece))
                    while len(writing) > _WAITING:
                        writing.popleft().result()
                for each in writing:
                    each.result()
        finally:
            with suppress(OSError):
                self.folder.rmdir()  # Only an empty folder allows that.

    @contextmanager
    def described(
        self, grid: Grid, *, names: Sequence[str], tags: Mapping[str, str]
    ) -> Iterator[tuple[Path, Path]]:
        """Let GDAL see all strips as one raster.

        Args:
            grid: where the pixels lie.
            names: descriptions of the bands.
            tags: metadata of the raster.

        Yields:
            The file to open, and a name beside it for a draft of what is made of it. When the
            block ends, only the strips are left.

        Raises:
            OSError: if it cannot be written.
        """
        path, draft = self.folder / "raster.vrt", self.folder / "draft.tif"
        try:
            pieces = [self._piece(rows) for rows in self._all()]
            overviews = write_overviews(
                pieces, self.folder, height=self.height, width=self.width, bands=self.bands
            )
            files = [file for piece in pieces for file in piece[1:] if file]
            for file in (*files, *overviews):
                file.describe()
            path.write_text(vrt_of(pieces, overviews, grid, names, tags), encoding="utf-8")
            yield path, draft
        finally:
            for other in self.folder.iterdir():
                if other.suffix not in (_SUFFIX, _GAPS):
                    other.unlink()

    def remove(self) -> None:
        """Remove all strips."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_others(self) -> None:
        """Remove strips of the same raster with another key."""
        path, _, key = self.folder.name.rpartition("-")
        for folder in self.folder.parent.glob(f"{_HIDDEN}*"):
            name, _, other = folder.name.rpartition("-")
            if name == path and other != key:
                shutil.rmtree(folder, ignore_errors=True)

    def _all(self) -> Iterator[range]:
        for start in range(0, self.height, STRIP_PX):
            yield range(start, min(start + STRIP_PX, self.height))

    def _pixels(self, rows: range) -> RawFile:
        path = self.folder / f"{rows.start:08d}{_SUFFIX}"
        return RawFile(path, len(rows), self.width, self.bands)

    def _piece(self, rows: range) -> Piece:
        pixels = self._pixels(rows)
        gaps = _gaps_of(pixels)
        return Piece(rows.start, pixels, gaps if gaps.path.exists() else None)

    def _split(self, part: Rows) -> Iterator[tuple[range, Rows]]:
        """Cut rows at the edges of the strips; give each piece with the rows of its strip."""
        stop = part.start + part.known.shape[0]
        for rows in self._all():
            first, end = max(part.start, rows.start), min(stop, rows.stop)
            if first < end:
                kept = slice(first - part.start, end - part.start)
                yield rows, Rows(first, part.values[:, kept], part.known[kept], part.col)


class _OpenStrip:
    """A strip that is being written; it gets its name when its last pixel is there.

    Parts that come from left to right are written together.
    """

    def __init__(self, strip: RawFile, row: int) -> None:
        self._strip, self._row = strip, row
        self._left = strip.height * strip.width
        self._pixels = _begin(strip)
        self._gaps: OpenRawFile | None = None
        self._waiting: list[Rows] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for opened in filter(None, (self._pixels, self._gaps)):
            opened.close()
            with suppress(OSError):
                opened.file.path.unlink()

    def write(self, part: Rows) -> None:
        """Write the pixels of some rows and columns, which were not written before."""
        if self._waiting and not _is_right_of(self._waiting[-1], part):
            self._write_waiting()
        self._waiting.append(part)
        self._left -= part.known.size
        if sum(waiting.known.shape[1] for waiting in self._waiting) >= _JOINED_PX:
            self._write_waiting()
        if not self._left:
            self._write_waiting()
            if self._gaps:
                _finish(self._gaps, _gaps_of(self._strip))
            _finish(self._pixels, self._strip)

    def _write_waiting(self) -> None:
        parts, self._waiting = self._waiting, []
        if not parts:
            return
        place = parts[0].start - self._row, parts[0].col
        values = np.concatenate([np.moveaxis(part.values, 0, -1) for part in parts], axis=1)
        self._pixels.write(values, *place)
        known = np.concatenate([part.known for part in parts], axis=1)
        if not known.all():
            self._open_gaps().write((known * np.uint8(HAS_DATA))[..., None], *place)

    def _open_gaps(self) -> OpenRawFile:
        if self._gaps is None:
            self._gaps = _begin(_gaps_of(self._strip))
            self._gaps.fill(HAS_DATA)
        return self._gaps


def _is_right_of(part: Rows, other: Rows) -> bool:
    """Return whether the second part continues the first one in the same rows."""
    height, width = part.known.shape
    return (other.start, other.col, len(other.known)) == (part.start, part.col + width, height)


def _gaps_of(pixels: RawFile) -> RawFile:
    return replace(pixels, path=pixels.path.with_suffix(_GAPS), bands=1)


def _begin(file: RawFile) -> OpenRawFile:
    """Open a file under a partial name."""
    return OpenRawFile(replace(file, path=partial_path(file.path)))


def _finish(opened: OpenRawFile, file: RawFile) -> None:
    """Give it its name."""
    opened.close()
    put(opened.file.path, file.path)


def require_room(path: Path, needed: int) -> None:
    """Refuse to begin a file for which its disk clearly has too little room.

    Args:
        path: file to write.
        needed: bytes, its drafts included.

    Raises:
        OutputError: if fewer are free.
    """
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OutputError(
            f"{path}: needs {size_text(needed / 1e6)}, but its disk has only "
            f"{size_text(free / 1e6)} free; free some space, or choose another output folder"
        )
