"""A client of web services: polite and bounded; incomplete answers are refused."""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Self, TypeVar, cast
from urllib.parse import SplitResult
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout, make_headers, parse_url

from roadseg.errors import ConfigError, DataError
from roadseg.system.records import installed_version
from roadseg.system.text import count, one_line, size_text
from roadseg.system.web.answers import (
    Answer,
    BadAnswerError,
    Failure,
    failure_of,
    join_address,
    refusal,
    split_address,
    whole_number,
)
from roadseg.system.web.keys import places_of_keys, with_keys, without_keys

Value = TypeVar("Value")

LARGEST_BYTES = 2**26  # Bytes of an answer, unless its reader expects more.
_MISSING = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)

_log = logging.getLogger(__name__)

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_PIECE_BYTES = 2**16
_PLACE = re.compile(r"\{[^{}]*\}")  # In a template, what differs from address to address.
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class RequestPolicy:
    """Limits for the requests of a client.

    Attributes:
        per_second: largest number of requests per second, of all threads together.
        tries: number of tries before a request fails.
        first_wait_s: seconds before the second try, doubled for each further one.
        longest_wait_s: longest wait that a server may demand, seconds; more is an error.
        connect_s: longest time to connect, seconds.
        quiet_s: longest pause within an answer, seconds.
        hosts: hosts beside the first one to which a server may redirect.
    """

    per_second: float = 10.0
    tries: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = 120.0
    connect_s: float = 10.0
    quiet_s: float = 30.0
    hosts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Request:
    """A request: its address with keys, the largest answer in bytes, and the form to send."""

    url: str
    largest: int = LARGEST_BYTES
    headers: Mapping[str, str] = field(default_factory=dict)
    form: bytes | None = None


@dataclass
class Client:
    """A client of web services, for any number of threads.

    Attributes:
        home: address, template or other source, as the user gave it. The headers of `extra`, and
            the keys for its places `{env:NAME}`, are sent to its host only.
        extra: headers such as `X-Key: {env:MY_KEY}`.
        most_bytes: largest number of bytes to receive; None for no limit.
        received: bytes of all bodies so far.
    """

    home: str = ""
    extra: Iterable[str] = ()
    policy: RequestPolicy = field(default_factory=RequestPolicy)
    most_bytes: int | None = None
    received: int = 0

    def __post_init__(self) -> None:
        """Prepare without connecting."""
        self._headers = dict(_header(line) for line in self.extra)
        home = _PLACE.sub("*", with_keys(self.home))
        self._host = _host(split_address(home, ConfigError))
        self._places = places_of_keys(self.home)
        self._pace = _Pace(self.policy.per_second)
        self._lock = threading.Lock()
        self._pools: dict[str, urllib3.PoolManager] = {}

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop other threads from waiting, and close the connections."""
        self._pace.stopped.set()
        for pool in self._pools.values():
            pool.clear()

    def with_keys(self, address: str) -> str:
        """Return an address with keys in its places, if the user gave these places for this host.

        Raises:
            DataError: if it has other places, with which a service could ask for any key, or if it
                is on another host, which could ask for the key of this one.
            ConfigError: if a key is not in the environment.
        """
        places = places_of_keys(address)
        if others := places - self._places:
            raise DataError(
                f"{without_keys(address):.200}: asks for {min(others)}, which is not in the "
                "address that you gave; do not use this service if it named this address"
            )
        filled = with_keys(address)
        if places and not self._is_home(split_address(filled)):
            raise DataError(
                f"{without_keys(address):.200}: asks for {min(places)}, which you gave for another "
                "host; to send it to this one, write its address yourself"
            )
        return filled

    def _is_home(self, parts: SplitResult) -> bool:
        """Return whether an address is on the host that the user gave."""
        return fnmatchcase(_host(parts), self._host)

    def get(
        self,
        address: str,
        read: Callable[[Answer], Value],
        *,
        largest: int = LARGEST_BYTES,
        headers: Mapping[str, str] | None = None,
        form: bytes | None = None,
    ) -> Value:
        """Request something that must exist, and read the answer.

        Args:
            address: address with http or https; places `{env:NAME}` are replaced by keys.
            read: function from the answer to a value. If it raises BadAnswerError, the request is
                repeated.
            largest: largest number of bytes of the answer.
            form: body to send by POST, in the encoding of forms; None for GET.

        Raises:
            ConfigError: if the address is invalid, or its key is not in the environment.
            DataError: if there is no valid answer after all tries.
        """
        request = _Request(self.with_keys(address), largest, headers or {}, form)
        return cast("Value", self._ask(request, read))

    def find(self, address: str, read: Callable[[Answer], Value]) -> Value | None:
        """Request something that may be missing; None if the server says so (204, 404, 410).

        Arguments and errors are those of `get`.
        """
        return self._ask(_Request(self.with_keys(address)), read, _MISSING)

    def _ask(
        self, request: _Request, read: Callable[[Answer], Value], missing: Iterable[int] = ()
    ) -> Value | None:
        """Repeat a request until an answer can be read, or further tries are pointless."""
        url = request.url
        parts = split_address(url)
        if parts.scheme not in _PORTS or not parts.hostname or url.split() != [url]:
            raise ConfigError(
                f"{without_keys(url)[:200]}: expected an address such as https://example.org/tiles"
            )
        for attempt in range(1, self.policy.tries + 1):
            try:
                answer = self._once(request, missing)
                return None if answer is None else read(answer)
            except BadAnswerError as error:
                failure = Failure(str(error))
            except Failure as error:
                failure = error
            except HTTPError as error:
                failure = failure_of(error, url)
            wait_s = failure.wait_s or self.policy.first_wait_s * 2 ** (attempt - 1)
            if attempt >= min(failure.tries, self.policy.tries):
                break
            if wait_s > self.policy.longest_wait_s:
                failure.reason += f", and asks to wait {wait_s:.0f} s; run the command again later"
                break
            _log.debug("%s: %s; again in %.1f s", without_keys(url), failure.reason, wait_s)
            self._pace.wait_after_failure(wait_s, all_threads=failure.wait_s is not None)
        times = f" (asked {count(attempt, 'time')})" if attempt > 1 else ""
        raise DataError(one_line(without_keys(f"{url}: {failure.reason}{times}")))

    def _once(self, request: _Request, missing: Iterable[int]) -> Answer | None:
        """Send a request once, following redirects that stay on the host."""
        start = split_address(request.url)
        for _ in range(_MOST_REDIRECTS + 1):
            self._pace.wait()
            with closing(self._open(request)) as response:
                if response.status in _REDIRECTS and response.headers.get("location"):
                    url = self._redirect(start, request.url, response.headers["location"])
                    form = None if response.status == HTTPStatus.SEE_OTHER else request.form
                    request = replace(request, url=url, form=form)
                    continue
                if response.status in missing:
                    return None
                body = self._body(response, request.largest)
            received = {name.lower(): value for name, value in response.headers.items()}
            kind = received.get("content-type", "").partition(";")[0].strip().lower()
            answer = Answer(without_keys(request.url), kind, received, body)
            if response.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                raise refusal(response, answer)
            return answer
        raise Failure(f"redirects more than {_MOST_REDIRECTS} times", tries=1)

    def _open(self, request: _Request) -> urllib3.BaseHTTPResponse:
        parts, form = split_address(request.url), request.form
        own = self._headers if self._is_home(parts) else {}
        sent = {"User-Agent": f"roadseg/{installed_version('roadseg') or 'unknown'}"}
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        return self._pool(parts).request(
            "GET" if form is None else "POST",
            request.url,
            body=form,
            headers={"Accept-Encoding": "gzip, deflate"} | sent | dict(request.headers) | own,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=Timeout(connect=self.policy.connect_s, read=self.policy.quiet_s),
        )

    def _body(self, response: urllib3.BaseHTTPResponse, largest: int) -> bytes:
        """Read a whole body, unless it is too large."""
        if self.most_bytes is not None and self.received > self.most_bytes:
            raise Failure(
                f"more than {size_text(self.most_bytes / 1e6)} have come, the limit of --limit-mb; "
                "what has come is in the cache",
                tries=1,
            )
        body, promised = bytearray(), 0
        # A length that is not a number promises nothing; the end of the connection is the end.
        with suppress(BadAnswerError):
            promised = whole_number(response.headers.get("content-length", ""))
        while len(body) <= largest and promised <= largest:
            piece = response.read1(_PIECE_BYTES, decode_content=True)
            if not piece:
                with self._lock:
                    self.received += len(body)
                return bytes(body)
            body += piece
        raise Failure(
            f"the answer is larger than expected (more than {size_text(largest / 1e6)})", tries=1
        )

    def _redirect(self, start: SplitResult, url: str, location: str) -> str:
        try:
            to = join_address(url, location)
            parts = split_address(to)
        except DataError as error:
            raise Failure(f"redirects to {location:.200}, an invalid address", tries=1) from error
        if parts.scheme not in _PORTS or (start.scheme == "https" and parts.scheme == "http"):
            raise Failure(f"redirects to {to:.200}, which is not encrypted", tries=1)
        if parts.hostname not in {start.hostname, *self.policy.hosts}:
            raise Failure(
                f"redirects to another host, {parts.hostname}; allow it with "
                f"--allow-host {parts.hostname} if you trust it",
                tries=1,
            )
        return to

    def _pool(self, parts: SplitResult) -> urllib3.PoolManager:
        """Return the connections to a host: direct ones, or those through its proxy."""
        proxy = getproxies().get(parts.scheme, "")
        if not proxy or proxy_bypass(parts.netloc):
            proxy = ""
        with self._lock:
            if proxy not in self._pools:
                self._pools[proxy] = _connections(proxy)
            return self._pools[proxy]


class _Pace:
    """The earliest times for the requests of all threads."""

    def __init__(self, per_second: float) -> None:
        self._every_s = 1 / per_second
        self._next = 0.0
        self._lock = threading.Lock()
        self.stopped = threading.Event()

    def wait(self) -> None:
        """Wait for the turn of a request."""
        with self._lock:
            begin = max(time.monotonic(), self._next)
            self._next = begin + self._every_s
        self._sleep(begin - time.monotonic())

    def wait_after_failure(self, seconds: float, *, all_threads: bool) -> None:
        """Wait before another try; if the server demands a pause, all threads wait."""
        if all_threads:
            with self._lock:
                self._next = max(self._next, time.monotonic() + seconds)
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        if self.stopped.wait(max(seconds, 0)):
            raise DataError("stopped, because the work of which this is a part has ended")


def _connections(proxy: str) -> urllib3.PoolManager:
    """Return connections, through a proxy if its address is not empty."""
    if not proxy:
        return urllib3.PoolManager(maxsize=32)
    try:
        auth = parse_url(proxy).auth
        headers = make_headers(proxy_basic_auth=auth) if auth else None
        return urllib3.ProxyManager(proxy, proxy_headers=headers, maxsize=32)
    except (HTTPError, ValueError) as error:
        raise ConfigError(
            f"the proxy {without_keys(proxy)} cannot be used ({one_line(error)}); check HTTP_PROXY "
            "and HTTPS_PROXY"
        ) from error


def _header(line: str) -> tuple[str, str]:
    """Parse a header such as `X-Key: {env:MY_KEY}`."""
    name, colon, value = line.partition(":")
    if not colon or not name.strip().replace("-", "").isalnum():
        raise ConfigError(
            f'--header {name.strip()[:40]}: expected a name, a colon and a value, such as "X-Key: '
            '{env:MY_KEY}"'
        )
    sent = with_keys(value.strip(), is_address=False)
    if not (sent.isascii() and (sent.isprintable() or not sent)):
        raise ConfigError(f"--header {name.strip()}: its value has invalid characters")
    return name.strip(), sent


def _host(parts: SplitResult) -> str:
    """Return the scheme, host and port of an address."""
    return f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}"
