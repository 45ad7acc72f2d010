"""Values of other libraries as files, for functions that read files."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from roadseg.errors import RoadsegError

AnyPath = str | Path


@contextmanager
def as_file(write: Callable[[Path], object], suffix: str, *, name: str) -> Iterator[Path]:
    """Give a temporary file inside the block, and let errors speak of the value instead of it.

    Args:
        write: writes the value to the path that it is given.
        suffix: of the file, such as ".gpkg".
        name: what the value is called in errors, such as "the array".
    """
    with tempfile.TemporaryDirectory(prefix="roadseg-") as folder:
        path = Path(folder) / f"value{suffix}"
        try:
            write(path)
            yield path
        except RoadsegError as error:
            raise type(error)(str(error).replace(str(path), name)) from error
