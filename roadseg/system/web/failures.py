"""Failures of requests: why a question was not answered, and whether asking again may help."""

import http.client
import ssl
from http import HTTPStatus
from urllib.request import getproxies

import urllib3
from urllib3 import exceptions
from urllib3.util import Retry

from roadseg.system.text import one_line
from roadseg.system.web.answers import Answer, split_address

# The server is busy, or something between it and us is; the same question may be answered later.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_MANY = 1000  # Tries; more than any client makes.
# A name server may miss a question, but a machine without a network is to be told soon.
_NAME_TRIES, _NAME_WAIT_S = 2, 1.0


class Failure(Exception):  # noqa: N818 - not shown, a reason that may pass
    """Why a question was not answered."""

    def __init__(self, reason: str, *, tries: int = _MANY, wait_s: float | None = None) -> None:
        """Keep the reason, the tries that make sense, and the seconds to wait before the next."""
        super().__init__(reason)
        self.reason, self.tries, self.wait_s = reason, tries, wait_s


def refusal(response: urllib3.BaseHTTPResponse, answer: Answer) -> Failure:
    """Return what a status other than that of success says."""
    status = response.status
    known = {each.value: each.phrase for each in HTTPStatus}
    detail = (
        f": {answer.what}"
        if answer.body and answer.kind.startswith(("text/", "application/"))
        else ""
    )
    reason = f"the server answers {status} {known.get(status, '')}".rstrip() + detail
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        reason += (
            "; check the key, which the environment holds: {env:NAME} in the address or --header"
        )
    tries = _MANY if status in _PASSING else 1
    return Failure(reason, tries=tries, wait_s=_requested_wait(response))


def _requested_wait(response: urllib3.BaseHTTPResponse) -> float | None:
    """Return the seconds that a server asks to wait by its header Retry-After."""
    try:
        seconds = Retry().get_retry_after(response)
        return None if seconds is None else float(seconds)
    except (exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def failure_of(
    error: exceptions.HTTPError, url: str, *, connect_s: float, quiet_s: float
) -> Failure:
    """Return what an error of a connection means.

    Args:
        connect_s: seconds that were allowed for connecting.
        quiet_s: seconds without a byte that were allowed.
    """
    parts, chain = split_address(url), _chain(error)
    # The innermost reason, in the words of the system.
    host, why = parts.netloc, one_line(getattr(chain[-1], "strerror", None) or chain[-1])[:200]
    reasons: dict[type[Exception], str] = {
        exceptions.ProxyError: f"the proxy {getproxies().get(parts.scheme, '')} cannot be "
        f"used ({why}); check HTTP_PROXY and HTTPS_PROXY",
        ssl.SSLCertVerificationError: f"the certificate of {host} is not trusted ({why}); if it is "
        "of an authority of your own, name its file in SSL_CERT_FILE",
        exceptions.SSLError: f"no encrypted connection with {host} ({why})",
        exceptions.NameResolutionError: f"the host {host} is not known; check the address and the "
        "network",
        exceptions.NewConnectionError: f"{host} cannot be reached ({why})",
        exceptions.ReadTimeoutError: f"sent nothing for {quiet_s:g} s",
        exceptions.ConnectTimeoutError: f"no connection within {connect_s:g} s",
        exceptions.InvalidHeader: f"not a valid answer ({why})",
        exceptions.DecodeError: f"the answer cannot be decompressed ({why})",
        http.client.IncompleteRead: "the answer was cut short",
        exceptions.InvalidChunkLength: "the answer was cut short",
        ConnectionError: f"the connection failed ({why})",
        http.client.HTTPException: f"not a valid answer ({why})",
    }
    # The error itself, or the one inside of it that says more.
    kinds = [type(each) for each in chain]
    kind = next((k for k in reasons if any(issubclass(each, k) for each in kinds)), None)
    reason = reasons[kind] if kind else f"the connection failed ({why})"
    if kind is exceptions.NameResolutionError:
        return Failure(reason, tries=_NAME_TRIES, wait_s=_NAME_WAIT_S)
    return Failure(reason, tries=1 if kind is ssl.SSLCertVerificationError else _MANY)


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that caused it."""
    chain = [error]
    for cause in (getattr(error, "reason", None), error.__cause__, *error.args):
        if isinstance(cause, BaseException):
            chain += _chain(cause)
    return chain
