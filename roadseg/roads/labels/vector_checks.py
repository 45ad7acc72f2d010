"""Checks of vector files for what OGR passes over in silence."""

import gzip
import itertools
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.parsers import expat

from roadseg.errors import DataError
from roadseg.roads import xml

_HEAD_BYTES = 65536  # of a GeoJSON file, before its features
_TAIL_BYTES = 4096  # of it, after them
_DEGREES = "EPSG:4326"
_SHP_MAGIC = bytes.fromhex("0000270a")
_RECORD = b"\x1e"  # RFC 8142


def check_shapefile(path: Path) -> None:
    """Refuse a Shapefile that is cut short or lacks a part.

    OGR gives null geometries for what is cut off, and no attributes where there is no .dbf.

    Raises:
        DataError: saying what is missing.
        OSError: if it cannot be read.
    """
    for part, holds in ((".shx", "where each shape lies"), (".dbf", "the attributes")):
        if not any(path.with_suffix(name).exists() for name in (part, part.upper())):
            raise DataError(
                f"{path}: its {part} is missing, which holds {holds}; copy all parts of the "
                "Shapefile: .shp, .shx, .dbf and .prj"
            )
    with path.open("rb") as file:
        header = file.read(28)
    expected, found = 2 * int.from_bytes(header[24:], "big"), path.stat().st_size
    if header.startswith(_SHP_MAGIC) and found < expected:
        raise DataError(f"{path}: cut short, {found} of {expected} bytes; get it again")


def check_xml(path: Path) -> None:
    """Refuse XML that is not well-formed; OGR finds no features in a GPX file that is cut short.

    Raises:
        DataError: saying where.
    """
    try:
        with _opened(path) as file:
            xml.check_xml(file)
    except (expat.ExpatError, ValueError) as error:
        raise DataError(f"{path}: damaged or cut short ({error}); get it again") from error


def check_xml_start(path: Path) -> None:
    """Refuse XML that begins with a document type; what else is wrong, OGR says.

    Raises:
        DataError: if so.
        OSError: if it cannot be read.
    """
    try:
        with path.open("rb") as file, suppress(expat.ExpatError):
            xml.check_xml(file, only_start=True)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def geojson_crs(path: Path) -> str | None:
    """Return the CRS that a GeoJSON file names, as text; None if it names none.

    OGR takes a CRS that it does not know for EPSG:4326. The name is looked for before the
    features, and, in a file that is not compressed, after them.
    """
    head, tail = _ends(path)
    for text in (head.partition('"features"')[0], tail.rpartition("]")[2]):
        if key := re.search(r'"crs"\s*:\s*', text):
            return _crs_name(_member(text, key.end()))
    return None


def sequence_length(path: Path) -> int:
    """Return how many records a GeoJSON text sequence has; OGR skips those it cannot read."""
    with _opened(path) as file:
        first = next(file, b"")
        lines = itertools.chain([first], file)
        if first.startswith(_RECORD):
            return sum(line.count(_RECORD) for line in lines)
        return sum(bool(line.strip()) for line in lines)


def _opened(path: Path) -> Any:  # noqa: ANN401 - gzip's file or a plain one
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _ends(path: Path) -> tuple[str, str]:
    with _opened(path) as file:
        head = tail = file.read(_HEAD_BYTES)
        if len(head) == _HEAD_BYTES and path.suffix.lower() != ".gz":
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read()
    return head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")


def _member(text: str, start: int) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except RecursionError as error:
        raise ValueError("its crs is nested too deep") from error


def _crs_name(member: Any) -> str | None:  # noqa: ANN401 - any JSON value
    if member is None or isinstance(member, str):
        return member
    try:
        return str(member["properties"]["name"])
    except (KeyError, TypeError):
        return json.dumps(member)
