"""JSON records, and the record that every stage leaves to say what it was made from."""

import hashlib
import json
import platform
import time
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from roadseg.errors import DataError, MissingInputError
from roadseg.io.files import is_virtual, whole
from roadseg.io.machine import peak_memory_mb

_LARGEST_BYTES = 2**30  # of a record; that of 100,000 chips has 50 MB
_VERSIONS_OF = ("roadseg", "torch", "segmentation-models-pytorch", "rasterio", "geopandas", "numpy")


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - a record is any JSON value
    """Write a record so that a reader never sees half a file."""
    with whole(path) as partial:
        partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:  # noqa: ANN401 - a record is any JSON value
    """Read a record.

    Raises:
        DataError: if the file does not hold JSON, or more or deeper than any record.
    """
    try:
        return parse_json(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not a readable JSON file ({error}); delete it and run its stage again"
        ) from error


def parse_json(source: Path | str, *, largest: int = _LARGEST_BYTES) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a JSON file or text says; no more than 200 levels of it.

    Args:
        source: a file in UTF-8, with or without a byte order mark, or the text itself.
        largest: bytes that a file may have.

    Raises:
        ValueError: if it is no JSON, too deep or too large.
        OSError: if the file cannot be read.
    """
    if isinstance(source, str):
        return from_json(source)
    if (size := source.stat().st_size) > largest:
        raise ValueError(f"{size} bytes, expected at most {largest}")
    return from_json(source.read_bytes().removeprefix(BOM_UTF8))


def key_of(settings: Mapping[str, Any], inputs: Iterable[str]) -> str:
    """Return a short digest of settings and inputs: equal keys mean equal outputs."""
    text = json.dumps([settings, sorted(inputs)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_facts(paths: Iterable[Path]) -> list[str]:
    """Return name, size and modification time of files, to notice when they change.

    Of a GDAL path into an archive or the network only the name is known.
    """
    return [str(p) if is_virtual(p) else _file_fact(p) for p in paths]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that decide about results."""
    return {"python": platform.python_version()} | {n: _version(n) for n in _VERSIONS_OF}


class StageRecord:
    """What a stage was made from and what came out: `<stage>.json` in the run folder.

    It is written twice: as "started" before the first output and as "done" after the last.
    """

    def __init__(self, path: Path, *, settings: Mapping[str, Any], inputs: Iterable[str]) -> None:
        """Name the record file, the settings of the stage, and the facts of its inputs."""
        self.path = path
        self.settings = dict(settings)
        self.key = key_of(self.settings, inputs)
        self._begun = time.monotonic()

    def summary(self) -> dict[str, Any] | None:
        """Return the summary of an earlier run with this key that reached its end, else None."""
        found = self._found()
        return found.get("summary") if found.get("state") == "done" else None

    def begin(self) -> None:
        """Note that the stage starts, so that outputs from here on are not taken for finished."""
        self._write(state="started", summary=None)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Note that all outputs are there."""
        self._write(state="done", summary=dict(summary))

    def _found(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        found = read_json(self.path)
        return found if isinstance(found, dict) and found.get("key") == self.key else {}

    def _write(self, *, state: str, summary: Mapping[str, Any] | None) -> None:
        seconds = round(time.monotonic() - self._begun, 3)
        write_json(
            self.path,
            {
                "stage": self.path.stem,
                "state": state,
                "key": self.key,
                "settings": self.settings,
                "versions": versions(),
                "seconds": seconds,
                "peak_mb": peak_memory_mb(),
                "summary": summary,
            },
        )


def read_key(path: Path) -> str:
    """Return the key of a finished stage: what a later stage's outputs depend on.

    Scenes that failed and were skipped are part of it.

    Raises:
        MissingInputError: if the stage has not reached its end.
    """
    found = _finished(path)
    failed = found["summary"].get("failed")
    return key_of({"without": sorted(failed)}, [found["key"]]) if failed else str(found["key"])


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary of a finished stage.

    Raises:
        MissingInputError: if the stage has not reached its end.
    """
    return dict(_finished(path)["summary"])


def _file_fact(path: Path) -> str:
    found = path.stat()
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _finished(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError(f"{path}: no record of a stage; delete it and run its stage again")
    if found.get("state") != "done" or not isinstance(found.get("summary"), dict):
        raise MissingInputError(
            f"{path}: {path.stem} was interrupted; run `roadseg {path.stem}` again first"
        )
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
