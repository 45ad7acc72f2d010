"""Packing: values for a process whose files lie in another folder, or that has none.

Values are pickled, as by Dask and `multiprocessing`: only between a command and its own workers.
"""

import importlib
import io
import pickle
from pathlib import Path
from typing import Any

from roadseg.system.files import parts_in_archive


def pack(value: Any, *, root: Path | None = None) -> bytes:  # noqa: ANN401 - any work or result
    """Pickle a value so that its paths can be moved when it is unpacked.

    Args:
        value: work, an item or a result.
        root: folder of this process that stands for the other's `/`; None if both are one.
    """
    cloudpickle = importlib.import_module("cloudpickle")  # It comes with Dask.
    file = io.BytesIO()
    packer = cloudpickle.Pickler(file)
    packer.persistent_id = lambda part: _name(part, root) if isinstance(part, Path) else None
    packer.dump(value)
    return file.getvalue()


def unpack(data: bytes, *, root: Path | None = None) -> Any:  # noqa: ANN401 - what was packed
    """Return a value that was packed by the other process.

    Args:
        data: what `pack` returned there.
        root: folder of this process that stands for the other's `/`; None if both are one.
    """
    unpacker = pickle.Unpickler(io.BytesIO(data))  # noqa: S301 - from the own command or worker
    unpacker.persistent_load = lambda name: place(name, root)  # type: ignore[method-assign]
    return unpacker.load()


def place(name: str, root: Path | None) -> Path:
    """Return where a file of the other process lies here.

    Paths of GDAL into an archive lead into the archive here; those on the network stay.

    Args:
        name: its absolute path there.
        root: folder of this process that stands for the other's `/`; None if both are one.
    """
    if root is None:
        return Path(name)
    if parts := parts_in_archive(name):
        begin, archive, end = parts
        return Path(f"{begin}{root}{archive}{end}")
    return Path(name) if name.startswith("/vsi") else Path(f"{root}{name}")


def original(text: str, root: Path | None) -> str:
    """Return a text, such as an error message, with the other process's paths in place of ours."""
    return text if root is None else text.replace(f"{root}/", "/")


def _name(path: Path, root: Path | None) -> str:
    name = str(path)
    return original(name if name.startswith("/vsi") else str(path.absolute()), root)
