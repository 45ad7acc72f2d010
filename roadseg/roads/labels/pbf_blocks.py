"""PBF blocks: whether a file of OpenStreetMap in PBF goes on to the end of its last block."""

from pathlib import Path
from typing import BinaryIO

from roadseg.errors import DataError

_LENGTH_BYTES = 4  # Before every block, the highest first: how long the header of the block is.
_MOST_HEADER_BYTES = 65_536
_FIRST = b"OSMHeader"  # Type of the first block.
_TYPE, _SIZE = 1, 3  # Fields of the header of a block.
_BYTES = 2  # Kind of a field that holds bytes; others here are numbers.
_KIND_BITS, _NUMBER_BITS = 3, 7  # Of a key, and of each byte of a number.


def check_pbf_blocks(path: Path) -> None:
    """Refuse a PBF file of OpenStreetMap that ends within a block.

    Only the headers of the blocks are read. GDAL and osmium take a file that ends in the first four
    bytes of a block for a smaller map. One that ends exactly between two blocks is a smaller map,
    as nothing in the format says how many follow. Other files with the suffix .pbf, such as vector
    tiles, and damaged ones are left to their readers.

    Source: https://wiki.openstreetmap.org/wiki/PBF_Format.

    Raises:
        DataError: if it is cut short.
        OSError: if it cannot be read.
    """
    size, start = path.stat().st_size, 0
    with path.open("rb") as file:
        while start < size:
            file.seek(start)
            length = int.from_bytes(file.read(_LENGTH_BYTES), "big")
            if size - start > _LENGTH_BYTES and not 0 < length <= _MOST_HEADER_BYTES:
                return
            body = start + _LENGTH_BYTES + length
            kind, body_bytes = _header(file, length) if body <= size else (b"", size)
            if start == 0 and kind != _FIRST:
                return
            if body + body_bytes > size or size - start <= _LENGTH_BYTES:
                raise DataError(
                    f"{path}: is cut short, as it ends within the block that begins at byte "
                    f"{start}; download or copy it again"
                )
            start = body + body_bytes


def _header(file: BinaryIO, length: int) -> tuple[bytes, int]:
    """Return the type of a block, and how many bytes it has behind its header."""
    header = file.read(length)
    kind, size, at = b"", 0, 0
    while at < len(header):
        key, at = _number(header, at)
        value, at = _number(header, at)
        if key >> _KIND_BITS == _SIZE:
            size = value
        if key & (1 << _KIND_BITS) - 1 == _BYTES:
            if key >> _KIND_BITS == _TYPE:
                kind = header[at : at + value]
            at += value
    return kind, size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, seven bits in each byte, and where it ends."""
    value = shift = 0
    while at < len(data):
        value |= (data[at] & (1 << _NUMBER_BITS) - 1) << shift
        at, shift = at + 1, shift + _NUMBER_BITS
        if data[at - 1] < 1 << _NUMBER_BITS:
            break
    return value, at
