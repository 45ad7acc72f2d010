"""Pieces: raw files, one below the other, as one raster that GDAL reads."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from roadseg.core.grid import Grid
from roadseg.io.raw_files import RawFile

HAS_DATA = 255  # in a file that tells which pixels hold data; 0 for those that do not
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
    """Rows of a raster: the first one, their pixels, and which of these hold data, if not all."""

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
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{number}">\n<Description>{escape(name)}'
        f"</Description>\n{_sources(pieces, number)}{_smaller(overviews, number)}"
        "</VRTRasterBand>\n"
        for number, name in enumerate(names, 1)
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
    """Describe the mask; none where all pixels hold data, as it makes overviews slow."""
    if not any(piece.gaps for piece in pieces):
        return ""
    sources = "".join(
        _source(piece.gaps or piece.pixels, piece.row, 1, values="" if piece.gaps else _ALL_DATA)
        for piece in pieces
    )
    return f'<MaskBand>\n<VRTRasterBand dataType="Byte">\n{sources}</VRTRasterBand>\n</MaskBand>\n'


def _sources(pieces: Sequence[Piece], band: int) -> str:
    return "".join(_source(piece.pixels, piece.row, band) for piece in pieces)


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


def _smaller(overviews: Sequence[RawFile], band: int) -> str:
    return "".join(_OVERVIEW.format(name=file.path.name, band=band) for file in overviews)
