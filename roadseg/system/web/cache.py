"""A cache of verified answers, in files whose names reveal nothing."""

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import OutputError
from roadseg.system.files import partial_path, remove_partial_once


@dataclass(frozen=True)
class Cache:
    """Bodies of answers on disk, which any number of processes may share.

    Only answers that have been checked are stored. A file is found by its request, without keys.
    """

    folder: Path

    def path(self, question: str) -> Path:
        """Return the file for the answer to a request, which is a text without keys."""
        name = hashlib.sha256(question.encode()).hexdigest()
        return self.folder / name[:2] / name[2:]

    def read(self, question: str) -> bytes | None:
        """Return the body of an answer; None if there is none."""
        try:
            return self.path(question).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OutputError(
                f"{self.folder}: the cache cannot be read: {error.strerror}"
            ) from error

    def write(self, question: str, body: bytes) -> None:
        """Store the body of an answer that was checked.

        Raises:
            OutputError: if it cannot be written.
        """
        path = self.path(question)
        partial = partial_path(path, f"{threading.get_ident()}-")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_partial_once(path.parent)
            # The disk may take its time: what an outage cuts short is noticed by its reader.
            partial.write_bytes(body)
            partial.replace(path)
        except OSError as error:
            with suppress(OSError):
                partial.unlink()
            raise OutputError(
                f"{self.folder}: the cache cannot be written: {error.strerror}; name another "
                "folder with --cache"
            ) from error

    def forget(self, question: str) -> None:
        """Remove an answer that has been damaged on the disk."""
        with suppress(OSError):
            self.path(question).unlink()
