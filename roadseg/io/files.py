"""Write files whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roadseg.errors import OutputError, RoadsegError

MASK_SUFFIXES = (  # of rasters in which a pixel says whether there is a road
    *(".tif", ".tiff", ".png", ".jpg", ".jpeg", ".vrt", ".jp2", ".img", ".bmp", ".gif"),
)

_PARTIAL = ".partial-"  # begins the names of files that are being written
_ENOUGH_BYTES = 2**20  # free on a disk that is not full


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a partial name beside `path` to write to; rename it to `path` when the block ends well.

    The partial name keeps the suffix, because some writers choose the format by it. Whatever
    goes wrong inside the block, nothing stays behind under either name; what a killed process
    left under the partial name is overwritten by the next one.

    Raises:
        OutputError: if the file cannot be written (a full disk, a read-only folder).
    """
    partial = path.with_name(f"{_PARTIAL}{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(path)
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write to; put it in the place of `folder` when the block ends well.

    Raises:
        OutputError: if it cannot be written (a full disk, a read-only folder).
    """
    partial = folder.with_name(f"{_PARTIAL}{folder.name}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as error:
        if isinstance(error, RoadsegError):
            raise
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_partial(folder: Path) -> None:
    """Remove what killed processes left half written in a folder, if there is such a folder."""
    for path in folder.glob(f"{_PARTIAL}*"):
        path.unlink(missing_ok=True)


def is_virtual(path: Path) -> bool:
    """Say whether a path is one of GDAL's into an archive or the network (`/vsizip/...`)."""
    return str(path).startswith("/vsi")


def write_error(path: Path, reason: str) -> OSError:
    """Return the error of a file that could not be written: what its folder lacks, or a reason."""
    folder = path.parent
    if folder.is_dir() and not os.access(folder, os.W_OK):
        return OSError(errno.EACCES, os.strerror(errno.EACCES))
    if folder.is_dir() and shutil.disk_usage(folder).free < _ENOUGH_BYTES:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return OSError(errno.EIO, reason)
