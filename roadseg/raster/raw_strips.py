"""Raw files: the pixels of a raster of bytes and nothing else, which GDAL reads as they are."""

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from roadseg.arrays import Bytes
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window

_HEADER = """ENVI
samples = {samples}
lines = {lines}
bands = {bands}
header offset = 0
data type = 1
interleave = bip
byte order = 0
"""


@dataclass(frozen=True)
class RawFile:
    """A file of pixels row by row: all bands of the first pixel, then those of the second.

    Attributes:
        path: the file.
        height: rows.
        width: columns.
        bands: bytes of a pixel.
    """

    path: Path
    height: int
    width: int
    bands: int = 1

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.height * self.width * self.bands

    def describe(self) -> None:
        """Write the header beside it that GDAL looks for."""
        header = _HEADER.format(samples=self.width, lines=self.height, bands=self.bands)
        self.path.with_name(f"{self.path.name}.hdr").write_text(header, encoding="ascii")

    def read(self, window: Window) -> Bytes:
        """Read the pixels of a window, shape (row, col, band).

        Raises:
            OSError: if they cannot be read.
        """
        pixels = np.empty((window.height, window.width, self.bands), dtype=np.uint8)
        lines = pixels[None] if window.width == self.width else pixels
        with self.path.open("rb", buffering=0) as file:
            for row, line in enumerate(lines, window.row):
                file.seek(self.place(row, window.col))
                if file.readinto(line.data) != line.nbytes:
                    raise OSError(errno.EIO, "cut short", str(self.path))
        return pixels

    def place(self, row: int, col: int) -> int:
        """Return where a pixel begins, bytes."""
        return (row * self.width + col) * self.bands


class OpenRawFile:
    """A raw file that is being written, from any number of threads."""

    def __init__(self, file: RawFile) -> None:
        """Make it, or make it again.

        Raises:
            OSError: if it cannot be made.
        """
        self.file = file
        self._opened = file.path.open("wb", buffering=0)
        self._lock = Lock()

    def close(self) -> None:
        """End it."""
        self._opened.close()

    def fill(self, value: int) -> None:
        """Write one value into all pixels."""
        line = np.full((1, self.file.width, self.file.bands), value, dtype=np.uint8)
        for row in range(self.file.height):
            self.write(line, row, 0)

    def write(self, pixels: Bytes, row: int, col: int) -> None:
        """Write pixels, shape (row, col, band), from a place on.

        Raises:
            OSError: if they cannot be written (a full disk).
        """
        pixels = np.ascontiguousarray(pixels)
        with self._lock:
            if pixels.shape[1] == self.file.width:
                self._write(pixels, self.file.place(row, 0))
                return
            for number, line in enumerate(pixels, row):
                self._write(line, self.file.place(number, col))

    def _write(self, pixels: Bytes, place: int) -> None:
        """Write bytes, of which a file may take only some at once."""
        data = pixels.data.cast("B")
        self._opened.seek(place)
        while data:
            data = data[self._opened.write(data) :]


HAS_DATA = 255  # The value of pixels that have data, in the file of the gaps; others have 0.
_SOURCE = """<{kind}>{values}
<SourceFilename relativeToVRT="1">{name}</SourceFilename><SourceBand>{band}</SourceBand>
<SourceProperties RasterXSize="{width}" RasterYSize="{rows}" DataType="Byte" \
BlockXSize="{width}" BlockYSize="1"/>
<SrcRect xOff="0" yOff="0" xSize="{width}" ySize="{rows}"/>
<DstRect xOff="0" yOff="{start}" xSize="{width}" ySize="{rows}"/>
</{kind}>
"""
_ALL_DATA = f"<ScaleOffset>{HAS_DATA}</ScaleOffset><ScaleRatio>0</ScaleRatio>"
_OVERVIEW = """<Overview>
<SourceFilename relativeToVRT="1">{name}</SourceFilename><SourceBand>{band}</SourceBand>
</Overview>
"""


class Piece(NamedTuple):
    """Rows of a raster: the first one, their pixels, and which of these have data, if not all."""

    row: int
    pixels: RawFile
    gaps: RawFile | None


def vrt_of(
    pieces: Sequence[Piece],
    overviews: Sequence[RawFile],
    grid: Grid,
    names: Sequence[str],
    tags: Mapping[str, str],
) -> str:
    """Describe pieces as one raster, as XML of a VRT in the folder of the files.

    Args:
        pieces: from top to bottom.
        overviews: of the raster, the largest first. GDAL makes those of the mask.
        grid: where the pixels lie.
        names: descriptions of the bands.
        tags: metadata of the raster.
    """
    bands = ""
    for band, name in enumerate(names, 1):
        parts = [_source(piece.pixels, piece.row, band) for piece in pieces]
        parts += [_OVERVIEW.format(name=file.path.name, band=band) for file in overviews]
        bands += (
            f'<VRTRasterBand dataType="Byte" band="{band}">\n<Description>{escape(name)}'
            f"</Description>\n{''.join(parts)}</VRTRasterBand>\n"
        )
    items = "".join(
        f"<MDI key={quoteattr(key)}>{escape(value)}</MDI>\n" for key, value in tags.items()
    )
    place = ", ".join(repr(float(number)) for number in grid.transform.to_gdal())
    return (
        f'<VRTDataset rasterXSize="{grid.width}" rasterYSize="{grid.height}">\n'
        f"<SRS>{escape(grid.crs.to_wkt())}</SRS>\n<GeoTransform>{place}</GeoTransform>\n"
        f"<Metadata>\n{items}</Metadata>\n{bands}{_mask(pieces)}</VRTDataset>\n"
    )


def _mask(pieces: Sequence[Piece]) -> str:
    """Describe the mask; none where all pixels have data, as it makes overviews slow."""
    if not any(piece.gaps for piece in pieces):
        return ""
    sources = "".join(
        _source(piece.gaps or piece.pixels, piece.row, 1, values="" if piece.gaps else _ALL_DATA)
        for piece in pieces
    )
    return f'<MaskBand>\n<VRTRasterBand dataType="Byte">\n{sources}</VRTRasterBand>\n</MaskBand>\n'


def _source(file: RawFile, row: int, band: int, *, values: str = "") -> str:
    return _SOURCE.format(
        kind="ComplexSource" if values else "SimpleSource",
        values=values,
        name=file.path.name,
        band=band,
        width=file.width,
        rows=file.height,
        start=row,
    )
