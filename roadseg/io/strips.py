"""Strips: pieces of a raster of bytes, kept beside its place until the last one is there."""

import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from roadseg.core.grid import Grid
from roadseg.core.windows import Rows
from roadseg.errors import OutputError
from roadseg.io.files import put

_WAITING = 8  # parts that wait to be written
STRIP_PX = 2048  # rows; whole tiles of the raster that the strips become

_HIDDEN = ".strips-"
_SUFFIX = ".bip"
_GAPS = ".gaps"  # of the file that tells which pixels of a strip hold data, if not all
_HAS_DATA = 255  # of these, 0 of others
_HEADER = """ENVI
samples = {samples}
lines = {lines}
bands = {bands}
header offset = 0
data type = 1
interleave = bip
byte order = 0
"""
_SOURCE = """<SimpleSource>
<SourceFilename relativeToVRT="1">{name}</SourceFilename><SourceBand>{band}</SourceBand>
<SourceProperties RasterXSize="{width}" RasterYSize="{rows}" DataType="Byte" \
BlockXSize="{width}" BlockYSize="1"/>
<SrcRect xOff="0" yOff="0" xSize="{width}" ySize="{rows}"/>
<DstRect xOff="0" yOff="{start}" xSize="{width}" ySize="{rows}"/>
</SimpleSource>
"""


@dataclass(frozen=True)
class Strips:
    """The strips of a raster, each a file that is whole if it exists.

    A strip holds the pixels row by row: all bands of the first pixel, then those of the second
    (ENVI, interleaved by pixel). Where some hold no data, a file beside it tells which.
    Several processes may write strips of one raster at the same time, but not the same strip.

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
    def size(self) -> int:
        """Bytes of all strips."""
        return sum(map(self._bytes, self._all()))

    @property
    def missing(self) -> list[range]:
        """The rows of each strip that is not there, from top to bottom."""
        return [rows for rows in self._all() if not self._path(rows).exists()]

    @property
    def missing_bytes(self) -> int:
        """Size of the strips that are not there."""
        return sum(map(self._bytes, self.missing))

    def write(self, parts: Iterable[Rows]) -> None:
        """Write rows as they come into the strips that they belong to, from left to right.

        A thread writes what came while the next ones are made. A strip for which not all rows
        come is not kept.

        Raises:
            OSError: if they cannot be written (a full disk).
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with ExitStack() as opened, ThreadPoolExecutor(1, "writer") as thread:
                strips: dict[int, _OpenStrip] = {}
                writing: deque[Future[None]] = deque()
                for part in parts:
                    for rows, piece in self._split(part):
                        if rows.start not in strips:
                            strips[rows.start] = opened.enter_context(self._open(rows))
                        writing.append(thread.submit(strips[rows.start].write, piece))
                    while len(writing) > _WAITING:
                        writing.popleft().result()
                for each in writing:
                    each.result()
        finally:
            with suppress(OSError):
                self.folder.rmdir()  # which only an empty one allows

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
            files = [(self._path(rows), rows, self.bands) for rows in self._all()]
            files += [(self._gaps(rows), rows, 1) for rows in self._with_gaps()]
            for file, rows, bands in files:
                header = _HEADER.format(samples=self.width, lines=len(rows), bands=bands)
                file.with_name(f"{file.name}.hdr").write_text(header, encoding="ascii")
            path.write_text(self._vrt(grid, names, tags), encoding="utf-8")
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

    def _path(self, rows: range) -> Path:
        return self.folder / f"{rows.start:08d}{_SUFFIX}"

    def _open(self, rows: range) -> "_OpenStrip":
        return _OpenStrip(self._path(rows), self._gaps(rows), rows, self.width)

    def _gaps(self, rows: range) -> Path:
        return self._path(rows).with_suffix(_GAPS)

    def _with_gaps(self) -> list[range]:
        return [rows for rows in self._all() if self._gaps(rows).exists()]

    def _bytes(self, rows: range) -> int:
        return len(rows) * self.width * self.bands

    def _split(self, part: Rows) -> Iterator[tuple[range, Rows]]:
        """Cut rows at the edges of the strips; give each piece with the rows of its strip."""
        stop = part.start + part.known.shape[0]
        for rows in self._all():
            first, end = max(part.start, rows.start), min(stop, rows.stop)
            if first < end:
                kept = slice(first - part.start, end - part.start)
                yield rows, Rows(first, part.values[:, kept], part.known[kept], part.col)

    def _vrt(self, grid: Grid, names: Sequence[str], tags: Mapping[str, str]) -> str:
        bands = "".join(
            f'<VRTRasterBand dataType="Byte" band="{number}">\n'
            f"<Description>{escape(name)}</Description>\n{self._sources(number)}</VRTRasterBand>\n"
            for number, name in enumerate(names, 1)
        )
        items = "".join(
            f"<MDI key={quoteattr(key)}>{escape(value)}</MDI>\n" for key, value in tags.items()
        )
        place = ", ".join(repr(float(number)) for number in grid.transform.to_gdal())
        return (
            f'<VRTDataset rasterXSize="{self.width}" rasterYSize="{self.height}">\n'
            f"<SRS>{escape(grid.crs.to_wkt())}</SRS>\n<GeoTransform>{place}</GeoTransform>\n"
            f"<Metadata>\n{items}</Metadata>\n{bands}{self._mask()}</VRTDataset>\n"
        )

    def _mask(self) -> str:
        """Return the mask; none where all pixels hold data, as it makes overviews slow."""
        if not self._with_gaps():
            return ""
        sources = "".join(self._source(self._gaps(rows), rows, 1) for rows in self._with_gaps())
        return (
            '<MaskBand>\n<VRTRasterBand dataType="Byte">\n'
            f"<NoDataValue>{_HAS_DATA}</NoDataValue>\n{sources}</VRTRasterBand>\n</MaskBand>\n"
        )

    def _sources(self, band: int) -> str:
        return "".join(self._source(self._path(rows), rows, band) for rows in self._all())

    def _source(self, path: Path, rows: range, band: int) -> str:
        return _SOURCE.format(
            name=path.name, band=band, width=self.width, rows=len(rows), start=rows.start
        )


class _OpenStrip:
    """A strip that is being written; it gets its name when its last pixel is there."""

    def __init__(self, pixels: Path, gaps: Path, rows: range, width: int) -> None:
        self._rows, self._gaps_path = rows, gaps
        self._left = len(rows) * width
        self._pixels = _PixelFile(pixels, width)
        self._gaps: _PixelFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in filter(None, (self._pixels, self._gaps)):
            file.remove()

    def write(self, part: Rows) -> None:
        """Write the pixels of some rows and columns, which were not written before."""
        place = part.start - self._rows.start, part.col
        self._pixels.write(np.moveaxis(part.values, 0, -1), *place)
        if not part.known.all():
            if self._gaps is None:
                self._gaps = _PixelFile(self._gaps_path, self._pixels.width)
                self._gaps.fill(_HAS_DATA, len(self._rows))
            self._gaps.write((part.known * np.uint8(_HAS_DATA))[..., None], *place)
        self._left -= part.known.size
        if not self._left:
            if self._gaps:
                self._gaps.put()
            self._pixels.put()


class _PixelFile:
    """A file of pixels that is being written; it gets its name once they are all there."""

    def __init__(self, path: Path, width: int) -> None:
        self._path, self._partial = path, path.with_name(f"{path.name}.partial")
        self._file = self._partial.open("wb", buffering=0)
        self.width = width

    def fill(self, value: int, rows: int) -> None:
        """Write one value into all pixels, of one band."""
        line = memoryview(bytes([value]) * self.width)
        for _ in range(rows):
            _write_all(self._file, line)

    def write(self, pixels: NDArray[np.uint8], row: int, col: int) -> None:
        """Write pixels, shape (row, col, band), from a place on."""
        for number, line in enumerate(np.ascontiguousarray(pixels), row):
            self._file.seek((number * self.width + col) * pixels.shape[2])
            _write_all(self._file, line.data.cast("B"))

    def put(self) -> None:
        self._file.close()
        put(self._partial, self._path)

    def remove(self) -> None:
        self._file.close()
        with suppress(OSError):
            self._partial.unlink()


def _write_all(file: FileIO, data: memoryview) -> None:
    """Write bytes to an unbuffered file, which may take only some of them at once."""
    while data:
        data = data[file.write(data) :]


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
            f"{path}: making it takes {needed / 1e9:.2f} GB, but its disk has {free / 1e9:.2f} GB "
            "free; make room, or choose another place for the output"
        )
