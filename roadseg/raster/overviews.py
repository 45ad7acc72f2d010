"""Overviews of a raw raster, made several times faster than GDAL makes those of a COG."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Array, Bools, Bytes
from roadseg.raster.raw_strips import OpenRawFile, Piece, RawFile
from roadseg.raster.windows import Window, cut_blocks

# Sides of blocks: their lines are long, as each is a call, and what is made of one is small.
_ROWS, _COLS = 64, 2048
_THREADS = 4  # Each of them holds a block.


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
            for _ in pool.map(lambda job: _shrink(job[0], job[1], targets), blocks):
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


LARGEST_FACTOR = 2**9
_SMALL_PX = 512  # Pixels; rasters of no larger side need no overview.


def overview_factors(height: int, width: int) -> list[int]:
    """Return how many times smaller each overview of a raster is: 2, 4, 8, until it is small."""
    factors, factor = [], 1
    while max(height, width) > _SMALL_PX * factor and factor < LARGEST_FACTOR:
        factor *= 2
        factors.append(factor)
    return factors


def halved(pixels: Bytes, known: Bools | None) -> tuple[Bytes, Bools | None]:
    """Average two by two pixels, and what is left of them at the lower and right edge.

    Args:
        pixels: shape (row, col, band), 0 where they have no data.
        known: which have data, shape (row, col); None if all do.

    Returns:
        The same in half as many rows and columns, rounded up: the means of those that have data,
        halves rounded up.
    """
    if known is None:
        sums = _pairs_added(_even(pixels, "edge"))
        sums += 2
        sums >>= 2
        return sums.astype(np.uint8), None
    counts = _pairs_added(_even(known[..., None], "constant"))
    sums = _pairs_added(_even(pixels, "constant"))
    means = (sums + counts // 2) // np.maximum(counts, 1)
    return means.astype(np.uint8), counts[..., 0] > 0


def _pairs_added(values: NDArray[np.uint8 | np.bool_]) -> NDArray[np.uint16]:
    rows = np.add(values[::2], values[1::2], dtype=np.uint16)
    return rows[:, ::2] + rows[:, 1::2]


def _even(values: Array, side: Literal["edge", "constant"]) -> Array:
    """Repeat the last row or column of an array where a side is odd."""
    height, width = values.shape[:2]
    if height % 2 == width % 2 == 0:
        return values
    return np.pad(values, ((0, height % 2), (0, width % 2), (0, 0)), mode=side)
