"""Answers of servers, with descriptions of unexpected ones, and failures of requests.

A failure says why a request was not answered, and whether it is worth repeating.
"""

import html
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies

import urllib3
from urllib3 import exceptions
from urllib3.util import Retry

from roadseg.errors import DataError, RoadsegError
from roadseg.system.text import one_line, size_text
from roadseg.system.web.keys import without_keys

_START_BYTES = 2**16  # Of a body, in which its first words stand.
# What a reader does not see of a page.
_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_LONGEST = 40  # Characters of a number.
_LETTERS = 120  # Characters of a page that stands in the place of an answer.
# The server is busy, or something between it and us is; the same question may be answered later.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_MANY = 1000  # Tries; more than any client makes.


class BadAnswerError(ValueError):
    """An answer is not what was requested; the message says what it is instead."""


@dataclass(frozen=True)
class Answer:
    """The answer of a server, complete according to its headers.

    Attributes:
        address: address without keys.
        kind: media type, such as image/png; empty if it is not stated.
        headers: headers by name, in lower case.
        body: decompressed body.
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
    def description(self) -> str:
        """Description of the body, with its first words if it is a page or a text."""
        start = self.body[:_START_BYTES].decode("utf-8", errors="replace").lstrip("\ufeff \r\n\t")
        is_page = start[:1] == "<" or "html" in self.kind
        if not self.body:
            return "an empty answer"
        if not is_page and not self.kind.startswith(("text/", "application/json")):
            return f"{size_text(len(self.body) / 1e6)} of {self.kind or 'an unknown type'}"
        # What a reader of a page or of XML sees, its title first.
        seen = one_line(html.unescape(_MARKUP.sub(" ", start))) if is_page else ""
        words = without_keys(seen or one_line(start))[:_LETTERS]
        kind = "a web page" if "<html" in start[:1000].lower() or "html" in self.kind else "a text"
        return f'{kind} that begins "{words}"'


def whole_number(text: str, *, least: int = 0) -> int:
    """Return the whole number in a text of digits.

    Raises:
        BadAnswerError: if there is no number, or one below `least`.
    """
    value = int(text) if text.isdecimal() and len(text) <= _LONGEST else -1
    if value < least:
        raise BadAnswerError(f"found {text:.40}, expected a whole number from {least} on")
    return value


def split_address(address: str, error: type[RoadsegError] = DataError) -> SplitResult:
    """Return the parts of an address, with a valid host and port.

    Args:
        error: type of the error to raise; ConfigError for an address that the user gave.

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
    """Return the complete address for one that may be relative to another one.

    Raises:
        DataError: if it cannot be split.
    """
    split_address(address)
    return urljoin(base, address)


class Failure(Exception):  # noqa: N818 - not shown, a reason that may pass
    """The reason why a request was not answered."""

    def __init__(self, reason: str, *, tries: int = _MANY, wait_s: float | None = None) -> None:
        """Set the reason, the number of tries that make sense, and the seconds before the next."""
        super().__init__(reason)
        self.reason, self.tries, self.wait_s = reason, tries, wait_s


def refusal(response: urllib3.BaseHTTPResponse, answer: Answer) -> Failure:
    """Return the failure for a status other than success."""
    status = response.status
    known = {each.value: each.phrase for each in HTTPStatus}
    is_told = answer.body and answer.kind.startswith(("text/", "application/"))
    detail = f": {answer.description}" if is_told else ""
    reason = f"the server answers {status} {known.get(status, '')}".rstrip() + detail
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        reason += (
            "; check the key, which the environment holds: {env:NAME} in the address or --header"
        )
    tries = _MANY if status in _PASSING else 1
    return Failure(reason, tries=tries, wait_s=_requested_wait(response))


def _requested_wait(response: urllib3.BaseHTTPResponse) -> float | None:
    """Return the seconds that a server demands to wait, from its header Retry-After."""
    try:
        seconds = Retry().get_retry_after(response)
        return None if seconds is None else float(seconds)
    except (exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def failure_of(error: exceptions.HTTPError, url: str) -> Failure:
    """Return the failure for an error of a connection."""
    parts, chain = split_address(url), _chain(error)
    # The innermost reason, in the words of the system.
    host, why = parts.netloc, one_line(getattr(chain[-1], "strerror", None) or chain[-1])[:200]

    def is_a(kind: type[Exception]) -> bool:
        return any(isinstance(each, kind) for each in chain)

    if is_a(exceptions.ProxyError):
        proxy = getproxies().get(parts.scheme, "")
        return Failure(
            f"the proxy {proxy} cannot be used ({why}); check HTTP_PROXY and HTTPS_PROXY"
        )
    if is_a(ssl.SSLCertVerificationError):
        return Failure(
            f"the certificate of {host} is not trusted ({why}); if it is of an authority of your "
            "own, name its file in SSL_CERT_FILE",
            tries=1,
        )
    if is_a(exceptions.NameResolutionError):
        return Failure(f"the host {host} is not known; check the address and the network", tries=2)
    return Failure(f"no whole answer from {host} ({why})")


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes."""
    chain = [error]
    for cause in (getattr(error, "reason", None), error.__cause__, *error.args):
        if isinstance(cause, BaseException):
            chain += _chain(cause)
    return chain
