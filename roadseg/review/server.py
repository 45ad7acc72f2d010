"""Server: the page of a review, and nothing else, for one browser on this machine."""

import hmac
import html
import json
import logging
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from roadseg.errors import RoadsegError
from roadseg.report.page import csp_digest, filled, one_script, page_file
from roadseg.review.session import RequestError, ReviewSession

_log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_MOST_BYTES = 4096  # Of the body of a request; those of the page have less than 200.
_PATIENCE_S = 5.0  # Seconds in which a whole request has to arrive.
_MOST_AT_ONCE = 32  # Requests that are answered at once; browsers send six.
_JSON = "application/json"
_FOLDER = "review"
# Scripts of the report and of the review, each after those that it needs.
_SHARED = "elements units lines colours viewport drawing pointers"
_OWN = "roads tiles hands review"
_POLICY = (
    "default-src 'none'; img-src data:; connect-src 'self'; style-src '{style}'; "
    "script-src '{script}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class ReviewServer(ThreadingHTTPServer):
    """Answers requests that know its token, come from its own page, and are small and quick.

    Attributes:
        address: of the page, with the token.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, session: ReviewSession, *, title: str) -> None:
        """Listen on a free port of this machine alone."""
        super().__init__((_HOST, 0), _Answer)
        self.session = session
        self.token = secrets.token_urlsafe(24)
        self.host = f"{_HOST}:{self.server_port}"
        self.page, self.policy = _review_page(title)
        self.data = _encoded(session.describe())  # Once: it takes longer than a page may wait.
        self._places = threading.BoundedSemaphore(_MOST_AT_ONCE)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.host}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as its base
        """Answer in a thread of its own, unless too many are answered already."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer, and make room for another request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """Log a fault; a browser that went away is none."""
        level = logging.DEBUG if isinstance(sys.exc_info()[1], OSError) else logging.ERROR
        _log.log(level, "a request was not answered", exc_info=True)


class _Answer(BaseHTTPRequestHandler):
    server: ReviewServer
    server_version, sys_version = "roadseg", ""

    def setup(self) -> None:
        """Cut the connection off if the request takes too long to arrive, however it drips."""
        super().setup()
        self._deadline = threading.Timer(_PATIENCE_S, self._cut_off)
        self._deadline.daemon = True
        self._deadline.start()

    def finish(self) -> None:
        self._deadline.cancel()
        super().finish()

    def do_GET(self) -> None:
        """Give the page, what it shows, or a picture."""
        self._deadline.cancel()
        session, (path, query) = self.server.session, self._path_and_query()
        if path is None:
            return
        if path == "":
            self._send(200, self.server.page.encode(), "text/html; charset=utf-8")
        elif path == "data":
            self._send(200, self.server.data, _JSON)
        elif path == "changes":
            self._answer(session.changes)
        elif path == "picture":
            self._answer(lambda: _picture(session, query))
        else:
            self._refuse(404, "There is nothing here.")

    def do_POST(self) -> None:
        """Do an edit, undo or redo one, or end the review."""
        session, (path, _) = self.server.session, self._path_and_query()
        if path is None:
            return
        if self.headers.get("Origin") != f"http://{self.server.host}":
            self._refuse(403, "This is for the page of roadseg alone.")
        elif self.headers.get("Content-Type") != _JSON:
            self._refuse(415, f"Expected {_JSON}.")
        elif (size := self._size()) is None:
            self._refuse(411, "Expected a Content-Length.")
        elif size > _MOST_BYTES:
            self._refuse(413, f"Expected at most {_MOST_BYTES} bytes.")
        else:
            body = self.rfile.read(size)
            self._deadline.cancel()
            actions = {"undo": session.undo, "redo": session.redo}
            if path == "edit":
                self._answer(lambda: session.edit(_request(body)))
            elif path in actions:
                self._answer(actions[path])
            elif path == "finish":
                self._answer(dict)
                # It waits for the loop of the server, which goes on meanwhile.
                threading.Thread(target=self.server.shutdown, daemon=True).start()
            else:
                self._refuse(404, "There is nothing here.")

    def _path_and_query(self) -> tuple[str | None, str]:
        """Return the path below the token, and the query; refuse a request without the token."""
        parts = urlsplit(self.path)
        _, token, *rest = [*parts.path.split("/", maxsplit=2), "", ""]
        knows_token = hmac.compare_digest(token.encode(), self.server.token.encode())
        origin = self.headers.get("Origin", f"http://{self.server.host}")
        is_own = (
            self.headers.get_all("Host") == [self.server.host]
            and origin == f"http://{self.server.host}"
            and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        )
        if knows_token and is_own:
            return rest[0], parts.query
        self._refuse(403, "Open the whole address that `roadseg review` printed.")
        return None, ""

    def _size(self) -> int | None:
        text = self.headers.get("Content-Length", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004

    def _answer(self, work: Callable[[], dict[str, Any] | None]) -> None:
        try:
            answer = work()
        except RequestError as error:
            self._refuse(400, str(error))
        except RoadsegError as error:
            _log.warning("%s", error)
            self._refuse(503, str(error))
        else:
            if answer is None:
                self._refuse(404, "There is nothing here.")
            else:
                self._send(200, _encoded(answer), _JSON)

    def _refuse(self, code: int, reason: str) -> None:
        self._send(code, json.dumps({"error": reason}).encode(), _JSON)

    def _send(self, code: int, content: bytes, kind: str) -> None:
        self.send_response(code)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": self.server.policy,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Connection": "close",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its base
        """Log without the address, whose token is a secret."""
        _log.debug("request answered: %s", args[1] if len(args) > 1 else format)

    def _cut_off(self) -> None:
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("a slow connection had ended")


def _review_page(title: str) -> tuple[str, str]:
    """Return the page, and the Content-Security-Policy with which it has to be sent.

    The policy allows its one script and one style by their digests, and questions to the server
    that sent the page.
    """
    style = f"\n{page_file('report.css')}\n{page_file('review.css', _FOLDER)}\n"
    scripts = [page_file(f"{name}.js") for name in _SHARED.split()]
    script = one_script(scripts + [page_file(f"{name}.js", _FOLDER) for name in _OWN.split()])
    policy = _POLICY.format(style=csp_digest(style), script=csp_digest(script))
    texts = {"title": html.escape(title), "style": style, "script": script}
    return filled(page_file("review.html", _FOLDER), texts), policy


def _encoded(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()


def _request(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError("Expected JSON.") from error
    if not isinstance(value, dict):
        raise RequestError("Expected an object of JSON.")
    return value


def _picture(session: ReviewSession, query: str) -> dict[str, Any] | None:
    try:
        asked = parse_qs(query, max_num_fields=8)
        names = ("sheet", "scene", "level", "row", "col")
        sheet, scene, level, row, col = (int(asked[name][0]) for name in names)
        layer = asked["layer"][0]
    except (KeyError, ValueError) as error:
        raise RequestError("Expected sheet, scene, layer, level, row and col.") from error
    found: dict[str, Any] | None = session.picture((sheet, scene), layer, (level, row, col))
    return found
