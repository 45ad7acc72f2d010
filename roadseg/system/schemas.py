"""Schemas of JSON files; other contents are refused with an error of one line.

A dataclass or model with the config `STRICT` is the schema of its file. Numbers must be numbers
(no text, no true, no NaN) within limits, and unknown keys are refused, because this version has
not written them. Facts that are exchanged between versions use `TOLERANT`: a newer version may add
keys, and uses another format if it changes the meaning of a key.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from roadseg.errors import DataError
from roadseg.system.records import read_json
from roadseg.system.text import count, one_line

# Faults of lists: the words for their limit, and where pydantic keeps it.
_LENGTHS = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}

T = TypeVar("T")

STRICT = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)
TOLERANT = STRICT | ConfigDict(extra="ignore")

_LARGEST_COUNT = 2**53  # JSON numbers above this are not exact.
_adapter_of = cache(TypeAdapter)
_SHOWN = 3  # Faults of a file that an error names.


def _leads_nowhere_else(name: str) -> str:
    if name in ("", ".", "..") or PurePath(name).name != name or "\0" in name:
        raise ValueError(f"expected a name without a path to another folder, got {name!r:.60}")
    return name


def _stays_inside(path: str) -> str:
    there = PurePath(path)
    if not there.parts or there.anchor or ".." in there.parts or "\0" in path:
        raise ValueError(f"expected the path of a file inside the folder, got {path!r:.60}")
    return path


def _has_no_null(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError(f"expected a path without null bytes, got {str(path)!r:.60}")
    return path


Count = Annotated[int, Field(ge=0, le=_LARGEST_COUNT)]
Band = Annotated[int, Field(ge=1, le=2**16)]  # GDAL has no more.
Share = Annotated[float, Field(ge=0, le=1)]
Metres = Annotated[float, Field(ge=1e-3, le=1e5)]  # Ground size of a pixel.
FileName = Annotated[str, AfterValidator(_leads_nowhere_else)]
InsidePath = Annotated[str, AfterValidator(_stays_inside)]
FilePath = Annotated[Path, AfterValidator(_has_no_null)]
Digest = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]  # SHA-256


def read_strict(path: Path, schema: type[T], *, advice: str) -> T:
    """Read a JSON file by its schema.

    Args:
        schema: a dataclass, a model, or a type such as `dict[str, int]`.
        advice: what to do if the file does not fit the schema, for the error.

    Raises:
        DataError: if the file is not JSON, or a value is missing or invalid.
    """
    try:
        return check(read_json(path), schema)
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: {error}; {advice}") from error


def check(values: Any, schema: type[T]) -> T:  # noqa: ANN401 - whatever a file contains
    """Convert the values of a JSON file to the types of its schema.

    Raises:
        ValueError: with the first faults in one line: key, what was expected and what was found.
    """
    try:
        # Strict JSON takes a list for a tuple and a text for a path; strict Python would not.
        adapter = _adapter_of(schema)  # type: ignore[arg-type] # mypy takes no type for hashable
        checked: T = adapter.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ValueError(first_faults(error, _describe, most=_SHOWN)) from error
    return checked


def first_faults(
    error: ValidationError, describe: Callable[[dict[str, Any]], str], *, most: int
) -> str:
    """Return the first faults in one line, and the number of others.

    Args:
        describe: function from one of pydantic's faults to its description.
        most: largest number of faults to describe.
    """
    faults = error.errors(include_url=False)
    # A list with a wrong item counts as too short as well, which explains nothing.
    lists = {fault["loc"][:end] for fault in faults for end in range(len(fault["loc"]))}
    faults = [f for f in faults if f["type"] != "too_short" or f["loc"] not in lists]
    more = f"; and {len(faults) - most} more" if len(faults) > most else ""
    return "; ".join(describe(dict(fault)) for fault in faults[:most]) + more


def expected_and_got(fault: Mapping[str, Any]) -> str:
    """Return what pydantic expected and what it got: `expected a valid integer, got '3'`."""
    if fault["type"] in _LENGTHS:
        word, limit = _LENGTHS[fault["type"]]
        items = f"{len(fault['input'])}: {fault['input']!r:.60}"
        return f"expected {word} {count(fault['ctx'][limit], 'item')}, got {items}"
    if fault["type"] == "path_type":
        return f"expected a path, got {fault['input']!r:.60}"
    return f"{fault['msg'].replace('Input should be', 'expected')}, got {fault['input']!r:.60}"


def _describe(fault: dict[str, Any]) -> str:
    key = one_line(".".join(map(str, fault["loc"])) or "the whole file")
    if fault["type"] == "missing":
        return f"{key:.120}: missing"
    if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{key:.120}: unknown key"
    # The errors of our own validators say already what was expected and what they got.
    is_ours = fault["type"] == "value_error"
    message = str(fault["ctx"]["error"]) if is_ours else expected_and_got(fault)
    return one_line(f"{key:.120}: {message:.400}")
