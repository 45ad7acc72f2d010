"""Overviews of a raw raster, made several times faster than GDAL makes those of a COG."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from roadseg.core.overviews import halved, overview_factors
from roadseg.io.pieces import Piece
from roadseg.io.raw_files import OpenRawFile, RawFile

_ROWS, _COLS = 64, 2048  # of the blocks that are made smaller, which stay in the CPU's cache
_THREADS = 4  # at most: the files, not the CPU, are the limit


class _Block(NamedTuple):
    piece: Piece
    rows: range
    cols: range


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
    with ExitStack() as opened, ThreadPoolExecutor(_THREADS, "overviews") as pool:
        targets = [opened.enter_context(closing(OpenRawFile(file))) for file in files]
        rows = max(_ROWS, factors[-1])
        try:
            for _ in pool.map(lambda block: _shrink(block, targets), _blocks(pieces, rows)):
                pass
        finally:
            pool.shutdown(cancel_futures=True)
    return files


def _blocks(pieces: Iterable[Piece], rows: int) -> Iterator[_Block]:
    for piece in pieces:
        height, width = piece.pixels.height, piece.pixels.width
        for row in range(0, height, rows):
            for col in range(0, width, _COLS):
                yield _Block(
                    piece,
                    range(row, min(row + rows, height)),
                    range(col, min(col + _COLS, width)),
                )


def _shrink(block: _Block, targets: list[OpenRawFile]) -> None:
    """Write a block into every overview."""
    pixels = block.piece.pixels.read(block.rows, block.cols)
    gaps = block.piece.gaps
    known = None if gaps is None else gaps.read(block.rows, block.cols)[..., 0] > 0
    row, col = block.piece.row + block.rows.start, block.cols.start
    for target in targets:
        pixels, known = halved(pixels, known)
        row, col = row // 2, col // 2
        target.write(pixels, row, col)
