"""Numbers and addresses as servers and their documents name them: parsed here, or an error."""

from urllib.parse import SplitResult, urljoin, urlsplit

from roadseg.errors import DataError, RoadsegError
from roadseg.system.text import one_line
from roadseg.system.web.answers import BadAnswerError
from roadseg.system.web.keys import without_keys

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
        address: of any scheme, or the path of a file.
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
