"""Objects of OpenStreetMap's XML that an editor has marked as deleted."""

import bz2
import gzip
import re
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast
from xml.parsers import expat

_MARKS = re.compile(rb"""\saction=["']delete["']|\svisible=["']false["']""")
_CHUNK_BYTES = 2**20
_LONGEST = 32  # Bytes of a mark, at most.


def deleted_objects(path: Path) -> set[tuple[str, int]]:
    """Return kind ("node", "way" or "relation") and id of the objects that are marked as deleted.

    JOSM keeps what it deletes in the file until it is uploaded. Files that are no XML of
    OpenStreetMap have no such marks; what is wrong with one that is damaged, its reader says.
    """
    name = path.name.lower()
    if not name.endswith((".osm", ".osm.gz", ".osm.bz2")) or not path.is_file():
        return set()
    deleted: set[tuple[str, int]] = set()

    def look(kind: str, attributes: dict[str, str]) -> None:
        if attributes.get("action") == "delete" or attributes.get("visible") == "false":
            deleted.add((kind, int(attributes["id"])))

    with suppress(OSError, EOFError, expat.ExpatError, ValueError, KeyError), opened(path) as file:
        if _has_marks(file):
            file.seek(0)
            parser = expat.ParserCreate()
            parser.StartElementHandler = look
            parser.ParseFile(file)
    return deleted


def opened(path: Path) -> IO[bytes]:
    """Open a file for its bytes, which may be packed as .gz or .bz2."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix.lower(), open)
    return cast("IO[bytes]", opener(path, "rb"))


def _has_marks(file: IO[bytes]) -> bool:
    """Return whether anything is marked, which is much quicker to find than what is."""
    end = b""
    while chunk := file.read(_CHUNK_BYTES):
        if _MARKS.search(end + chunk):
            return True
        end = chunk[-_LONGEST:]
    return False
