"""XML: values as text inside it, and bounds for XML that comes from elsewhere."""

import re
from collections.abc import Callable
from typing import IO, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LARGEST_BYTES = 2**32
_DEEPEST = 100  # Elements in each other; road files have fewer than ten.
_CHUNK_BYTES = 2**16
Look = Callable[[str, dict[str, str]], None]
_QUOTES = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def xml_text(value: object) -> str:
    """Return a value as text for an element or for an attribute in double quotes.

    Characters that XML cannot hold, such as those of control, are left out.
    """
    return escape(_FORBIDDEN.sub("", str(value)), _QUOTES)


def check_xml(file: IO[bytes], *, only_start: bool = False, look: Look | None = None) -> None:
    """Refuse XML that is not well-formed, or is made to exhaust its reader.

    A document type is refused as well: it can hold entities that grow, or that name other files,
    and no format of roads needs one.

    Args:
        file: the XML, from its start.
        only_start: read no further than to the first element, before which a document type is.
        look: called with the name and the attributes of each element.

    Raises:
        ValueError: if it has a document type, or more bytes or levels than any road file.
        ExpatError: if it is not well-formed.
    """
    bounds = _Bounds(look)
    left = _LARGEST_BYTES
    while chunk := file.read(_CHUNK_BYTES):
        bounds.read(chunk)
        left -= len(chunk)
        if left < 0:
            raise ValueError(f"more than {_LARGEST_BYTES} bytes of XML")
        if only_start and bounds.depth:
            return
    bounds.parser.Parse(b"", True)  # noqa: FBT003 - expat takes it by place


class _Bounds:
    """A parser that knows how deep it is, and goes no further than it should."""

    def __init__(self, look: Look | None) -> None:
        self.depth = 0
        self._look = look
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._down
        self.parser.EndElementHandler = self._up
        self.parser.StartDoctypeDeclHandler = _refuse_type

    def read(self, chunk: bytes) -> None:
        try:
            self.parser.Parse(chunk)
        except LookupError as error:  # Its encoding is one that Python does not have.
            raise ValueError(str(error)) from error

    def _down(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"XML nested more than {_DEEPEST} levels deep")
        if self._look:
            self._look(name, attributes)

    def _up(self, _name: str) -> None:
        self.depth -= 1


def _refuse_type(*_: object) -> NoReturn:
    raise ValueError(
        "XML with a document type (DTD), which can contain harmful entities; remove it"
    )
