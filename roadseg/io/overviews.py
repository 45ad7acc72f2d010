"""Overviews of a raw raster, made several times faster than GDAL makes those of a COG."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from roadseg.core.overviews import halved, overview_factors
from roadseg.core.windows import Window, cut_blocks
from roadseg.io.pieces import Piece
from roadseg.io.raw_files import OpenRawFile, RawFile

_ROWS, _COLS = 64, 2048  # of blocks: lines are long, as each is a call, and what is made is small
_THREADS = 4  # each of which holds a block


def write_overviews(
    pieces: Iterable[Piece], folder: Path, *, height: int, width: int, bands: int
) -> list[RawFile]:
    """Write a raster in half the rows and columns, in a quarter, until it is small.

    Args:
        pieces: of the raster. Those above another one have as many rows as a multiple of the
            largest factor.
        folder: where the overviews go, a file each.
        height: rows of the raster.
        width: columns.
        bands: bytes of a pixel.

    Returns:
        The overviews, the largest first; none of a small raster.

    Raises:
        OSError: if a piece cannot be read, or an overview not be written.
    """
    factors = overview_factors(height, width)
    files = [
        RawFile(folder / f"overview-{factor}", -(-height // factor), -(-width // factor), bands)
        for factor in factors
    ]
    if not files:
        return []
    rows = max(_ROWS, factors[-1])
    blocks = [
        (piece, block)
        for piece in pieces
        for block in cut_blocks(piece.pixels.height, width, block_px=rows, width_px=_COLS)
    ]
    with ExitStack() as opened, ThreadPoolExecutor(_THREADS, "overviews") as pool:
        targets = [opened.enter_context(closing(OpenRawFile(file))) for file in files]
        try:
            for _ in pool.map(lambda found: _shrink(found[0], found[1], targets), blocks):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
    return files


def _shrink(piece: Piece, block: Window, targets: Iterable[OpenRawFile]) -> None:
    """Write a block of a piece into every overview."""
    pixels = piece.pixels.read(block)
    known = piece.gaps.read(block)[..., 0] > 0 if piece.gaps else None
    row, col = piece.row + block.row, block.col
    for target in targets:
        pixels, known = halved(pixels, known)
        row, col = row // 2, col // 2
        target.write(pixels, row, col)
