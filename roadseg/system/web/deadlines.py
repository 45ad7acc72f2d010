"""Deadlines: an answer that takes too long is cut off, whatever the server sends meanwhile."""

import socket
import threading
import time
from contextlib import suppress
from typing import Any, Self

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_AGAIN_S = 0.02  # Seconds until a connection is looked at again.
_current = threading.local()


class Deadline:
    """The time within which an answer to a request of this thread has to come.

    Attributes:
        seconds: from the request to the end of the answer.
    """

    def __init__(self, seconds: float) -> None:
        """Wait for a request."""
        self.seconds, self.is_over = seconds, False
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        """Watch the request that this thread sends next."""
        _current.deadline = self
        return self

    def __exit__(self, *_: object) -> None:
        """Watch no longer."""
        self._ended.set()
        _current.deadline = None

    def extend(self, seconds: float) -> None:
        """Allow more time, because more of the answer has come."""
        self.seconds += seconds

    def begin(self, connection: socket.socket) -> None:
        """Begin to count, as a request has been sent."""
        threading.Thread(target=self._watch, args=(connection,), daemon=True).start()

    def _watch(self, connection: socket.socket) -> None:
        begun = time.monotonic()
        while (left := begun + self.seconds - time.monotonic()) > 0:
            if self._ended.wait(max(left, _AGAIN_S)):
                return
        self.is_over = True
        # To close it would not wake the thread that reads.
        with suppress(OSError, TypeError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Watched(HTTPConnection):
    def getresponse(self) -> Any:  # noqa: ANN401 - of urllib3
        if deadline := getattr(_current, "deadline", None):
            deadline.begin(self.sock)
        return super().getresponse()


class _WatchedSafe(_Watched, HTTPSConnection):
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Watched


class _SafePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _WatchedSafe


def watched(manager: urllib3.PoolManager) -> urllib3.PoolManager:
    """Return a manager whose connections keep to the deadline of the thread that asks."""
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SafePool}
    return manager
