"""Write a few OpenStreetMap ways as .osm (XML) or as .osm.pbf, which OGR can only read.

The layout of the latter is that of the OpenStreetMap wiki, page PBF Format: length, header and
blob of each block, as protocol buffers; here nothing is compressed.
"""

import struct
from pathlib import Path
from xml.sax.saxutils import quoteattr

Tags = dict[str, str]
Way = tuple[list[tuple[float, float]], Tags]  # lon and lat of its nodes, and its tags

_NANO = 100  # units of a coordinate, 1e-9 degrees


def write_osm(path: Path, ways: list[Way]) -> Path:
    """Write ways as XML, or as PBF where `path` ends with .pbf."""
    if path.suffix == ".pbf":
        path.write_bytes(_block("OSMHeader", _header()) + _block("OSMData", _data(ways)))
    else:
        path.write_text(_xml(ways), encoding="utf-8")
    return path


def _xml(ways: list[Way]) -> str:
    nodes, lines, number = [], [], 0
    for i, (points, tags) in enumerate(ways, start=1):
        refs = ""
        for lon, lat in points:
            number += 1
            nodes.append(f'<node id="{number}" version="1" lon="{lon}" lat="{lat}"/>')
            refs += f'<nd ref="{number}"/>'
        refs += "".join(f"<tag k={quoteattr(k)} v={quoteattr(v)}/>" for k, v in tags.items())
        lines.append(f'<way id="{i}" version="1">{refs}</way>')
    return "\n".join(['<osm version="0.6">', *nodes, *lines, "</osm>"])


def _block(kind: str, content: bytes) -> bytes:
    blob = _bytes(1, content)
    header = _bytes(1, kind.encode()) + _number(3, len(blob))
    return struct.pack(">I", len(header)) + header + blob


def _header() -> bytes:
    return _bytes(4, b"OsmSchema-V0.6")


def _data(ways: list[Way]) -> bytes:
    words: dict[str, int] = {"": 0}
    nodes, lines, number = b"", b"", 0
    for i, (points, tags) in enumerate(ways, start=1):
        refs = [number + 1] + [1] * (len(points) - 1)  # each after the first as a difference
        for lon, lat in points:
            number += 1
            places = _signed(8, round(lat * 1e9 / _NANO)) + _signed(9, round(lon * 1e9 / _NANO))
            nodes += _bytes(1, _signed(1, number) + places)
        keys, values = (
            b"".join(_varint(words.setdefault(word, len(words))) for word in side)
            for side in (tags.keys(), tags.values())
        )
        packed = b"".join(_varint(2 * ref) for ref in refs)
        lines += _bytes(3, _number(1, i) + _bytes(2, keys) + _bytes(3, values) + _bytes(8, packed))
    strings = b"".join(_bytes(1, word.encode()) for word in words)
    return _bytes(1, strings) + _bytes(2, nodes) + _bytes(2, lines)


def _varint(value: int) -> bytes:
    more = b""
    while value > 0x7F:
        more += bytes([value & 0x7F | 0x80])
        value >>= 7
    return more + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _signed(field: int, value: int) -> bytes:
    return _number(field, 2 * value if value >= 0 else -2 * value - 1)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
