"""Write files whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roadseg.errors import RoadsegError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a partial name beside `path` to write to; rename it to `path` when the block ends well.

    The partial name keeps the suffix, because some writers choose the format by it. Whatever
    goes wrong inside the block, nothing stays behind under either name; what a killed process
    left under the partial name is overwritten by the next one.

    Raises:
        RoadsegError: if the file cannot be written (a full disk, a read-only folder).
    """
    partial = path.with_name(f".partial-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise RoadsegError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()
