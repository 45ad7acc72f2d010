"""Answers of servers, and what stands in them where something else was expected."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

from roadseg.errors import DataError, RoadsegError
from roadseg.system.text import one_line, size_text
from roadseg.system.web.keys import without_keys

_START_BYTES = 2**16  # Of a body, in which its first words stand.
# What a reader does not see of a page.
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_LETTERS = 120  # Characters of a page that stands in the place of an answer.


class BadAnswerError(ValueError):
    """An answer is not what was asked for; the message says what it is instead."""


@dataclass(frozen=True)
class Answer:
    """The answer of a server, whole as far as its headers tell.

    Attributes:
        address: that gave it, without keys.
        kind: media type, such as image/png; empty if it is not named.
        headers: by name in lower case.
        body: decompressed.
    """

    address: str
    kind: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def what(self) -> str:
        """What the body is, with its first words if it is a page or a text."""
        start = self.body[:_START_BYTES].decode("utf-8", errors="replace").lstrip("\ufeff \r\n\t")
        is_page = start[:1] == "<" or "html" in self.kind
        if not self.body:
            return "an empty answer"
        if not is_page and not self.kind.startswith(("text/", "application/json")):
            return f"{size_text(len(self.body) / 1e6)} of {self.kind or 'an unknown type'}"
        words = without_keys(_words(start) if is_page else one_line(start))[:_LETTERS]
        kind = "a web page" if "<html" in start[:1000].lower() or "html" in self.kind else "a text"
        return f'{kind} that begins "{words}"'


def _words(page: str) -> str:
    """Return the words that a reader of a page or of XML sees, its title first."""
    return one_line(html.unescape(_MARKUP.sub(" ", page))) or one_line(page)


_LONGEST = 40  # Characters of a number.
_MOST = 2**62  # The largest whole number, unless its reader expects less.


def number(text: str, *, least: float, most: float) -> float:
    """Return the number in a text.

    Raises:
        BadAnswerError: if there is none from `least` to `most`.
    """
    try:
        value = float(text) if len(text) <= _LONGEST else float("nan")
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise BadAnswerError(f"found {text:.40}, expected a number from {least:g} to {most:g}")
    return value


def whole_number(text: str, *, least: int = 0, most: int = _MOST) -> int:
    """Return the whole number in a text of digits.

    Raises:
        BadAnswerError: if there is none from `least` to `most`.
    """
    value = int(text) if text.isdecimal() and len(text) <= _LONGEST else -1
    if not least <= value <= most:
        raise BadAnswerError(f"found {text:.40}, expected a whole number from {least} to {most}")
    return value


def split_address(address: str, error: type[RoadsegError] = DataError) -> SplitResult:
    """Return the parts of an address, whose host and port can be used.

    Args:
        error: to raise; for an address that the user gave, ConfigError.

    Raises:
        RoadsegError: of that type, if it cannot be split.
    """
    try:
        address.encode()
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as wrong:
        shown = without_keys(address.encode(errors="replace").decode())
        raise error(f"{shown:.200}: not a valid address ({one_line(wrong):.100})") from wrong
    return parts


def join_address(base: str, address: str) -> str:
    """Return an address that may be relative to another one, as a whole.

    Raises:
        DataError: if it cannot be split.
    """
    split_address(address)
    return urljoin(base, address)
