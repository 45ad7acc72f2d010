"""Keys of services, which are read from the environment and hidden in all output."""

import os
import re
from urllib.parse import quote

from roadseg.errors import ConfigError

_PLACE = re.compile(r"\{env:([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LEAST = 4  # Characters; a shorter value occurs in texts by chance, and protects nothing.
_OF_ADDRESS = re.compile(r"(?<=//)[^/?#@\s]*@")  # The user name and password of an address.
# Parameters of a query that prove who asks; signed addresses have several of them.
_OF_QUERY = re.compile(
    r"([?&;][\w.%-]*(?:key|token|signature|secret|passw|auth|credential)[\w.%-]*=|[?&;]si?g=)"
    r"([^&#\s\"'<>{}]+)",
    re.IGNORECASE,
)
# Variables from which GDAL takes the keys of buckets.
_OF_BUCKETS = (
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GS_SECRET_ACCESS_KEY"),
    *("GS_OAUTH2_PRIVATE_KEY", "GS_OAUTH2_REFRESH_TOKEN", "GS_OAUTH2_CLIENT_SECRET"),
    *("AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_ACCESS_TOKEN", "AZURE_STORAGE_SAS_TOKEN"),
    "AZURE_STORAGE_CONNECTION_STRING",
)
_known: dict[str, str] = {}  # The place in which each value that was taken stood.


def with_keys(text: str, *, is_address: bool = True) -> str:
    """Return a text in which the places `{env:NAME}` are replaced by environment variables.

    From now on, `without_keys` hides their values.

    Args:
        text: an address, or a header.
        is_address: whether to escape special characters of addresses, except in a value at the
            start of the address.

    Raises:
        ConfigError: if a variable is not set, or is empty.
    """

    def value(place: re.Match[str]) -> str:
        plain = _value_of(place[1])
        escaped = quote(plain, safe="")
        _known.update({plain: place[0], escaped: place[0]})
        return escaped if is_address and place.start() else plain

    return _PLACE.sub(value, text)


def places_of_keys(text: str) -> set[str]:
    """Return the places `{env:NAME}` in a text."""
    return {place[0] for place in _PLACE.finditer(text)}


def without_keys(text: str) -> str:
    """Return a text with `{env:NAME}` instead of keys from the environment, and *** for other keys.

    Other keys are passwords before an @, and parameters of an address with the name of a key.
    """
    of_buckets = {os.environ.get(name, ""): f"{{env:{name}}}" for name in _OF_BUCKETS}
    known = of_buckets | _known
    # A longer value may contain a shorter one.
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _LEAST:
            text = text.replace(secret, known[secret])
    return _OF_QUERY.sub(r"\1***", _OF_ADDRESS.sub("***@", text))


def _value_of(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{{env:{name}}}: expected the name of an environment variable, such as {{env:MY_KEY}}"
        )
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"the environment variable {name} is not set; put the key into it")
    if not value.isprintable():
        raise ConfigError(f"the environment variable {name} has characters that a key cannot have")
    return value
