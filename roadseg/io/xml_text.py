"""XmlText: values as text in XML."""

import re
from xml.sax.saxutils import escape

_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_QUOTES = {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def xml_text(value: object) -> str:
    """Return a value as text for an element or for an attribute in double quotes.

    Characters that XML cannot hold, such as those of control, are left out.
    """
    return escape(_FORBIDDEN.sub("", str(value)), _QUOTES)
