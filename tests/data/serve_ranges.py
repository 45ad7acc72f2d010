"""Serve a folder over HTTP with byte ranges, which GDAL needs and http.server does not give.

Usage: python serve_ranges.py FOLDER; prints the address, and serves until it is stopped.
"""

import functools
import re
import sys
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class RangeHandler(SimpleHTTPRequestHandler):
    """Gives the part of a file that is asked for."""

    def do_GET(self):
        """Answer with a whole file, or with a part of it."""
        self._answer(with_body=True)

    def do_HEAD(self):
        """Answer with the size of a file."""
        self._answer(with_body=False)

    def log_message(self, *_):
        """Say nothing of each request."""

    def _answer(self, *, with_body):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = path.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        self.send_response(HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK)
        if wanted:
            start, stop = int(wanted[1]), min(int(wanted[2] or len(body)) + 1, len(body))
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(body)}")
            body = body[start:stop]
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(RangeHandler, directory=sys.argv[1])
    )
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
