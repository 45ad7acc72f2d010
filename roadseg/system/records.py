"""JSON records and CSV tables: write and read them; keys and versions in records."""

import csv
import hashlib
import json
import platform
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from roadseg.errors import DataError
from roadseg.system.files import atomic_write

_VERSIONS_OF = ("roadseg", "torch", "segmentation-models-pytorch", "rasterio", "geopandas", "numpy")


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - a record is any JSON value
    """Write a record so that a reader never sees half a file."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    with atomic_write(path) as partial:
        # JSON escapes what is not a letter, half a surrogate pair, as Python does.
        partial.write_bytes(text.encode(errors="backslashreplace"))


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a table of at least one row; columns stand in the order in which rows name them.

    What a row does not name, or names None, is empty.
    """
    with atomic_write(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        table.writeheader()
        table.writerows(rows)


def read_json(path: Path) -> Any:  # noqa: ANN401 - a record is any JSON value
    """Read a record.

    Raises:
        DataError: if the file is missing, or contains no JSON, or deeper JSON than any record.
    """
    try:
        return parse_json(path)
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist; run its stage again") from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: not a readable JSON file ({error}); delete it, and run its stage again"
        ) from error


def parse_json(source: Path | str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON file or text of no more than 200 levels.

    Args:
        source: a file in UTF-8, with or without a byte order mark, or the text itself.

    Raises:
        ValueError: if it is not JSON, or too deep.
        OSError: if the file cannot be read.
    """
    if isinstance(source, str):
        return from_json(source)
    # Some editors of Windows put a byte order mark before the text.
    return from_json(source.read_bytes().removeprefix(BOM_UTF8))


def key_of(settings: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Return a short digest of settings and inputs: equal keys mean equal outputs.

    Args:
        inputs: fingerprint of each input, by a name that does not change when files move.
    """
    # Sorted keys make the digest independent of the order in which settings are declared.
    text = json.dumps([settings, inputs], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def known_settings(
    settings: Mapping[str, Any], earlier: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings as an earlier version would have written them.

    New settings with their defaults are left out. Retired settings of the earlier version are added
    if they had the value that is fixed now.

    Args:
        settings: JSON values by name; a section is a dictionary of such values.
        earlier: settings of the earlier version.
        defaults: defaults of settings, and the fixed values of retired ones.
    """
    known = {
        name: value
        for name, value in earlier.items()
        if name not in settings and name in defaults and is_fixed(value, defaults[name])
    }
    for name, value in settings.items():
        if isinstance(value, dict) and isinstance(earlier.get(name), dict):
            known[name] = known_settings(value, earlier[name], defaults.get(name, {}))
        elif name in earlier or name not in defaults or value != defaults[name]:
            known[name] = value
    return known


def is_fixed(value: object, fixed: object) -> bool:
    """Return whether a retired setting, or all of a section, has its fixed value."""
    if isinstance(value, dict) and isinstance(fixed, dict):
        return all(name in fixed and is_fixed(value[name], fixed[name]) for name in value)
    return value == fixed


def by_dotted_key(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested records by dotted keys, after a prefix."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        is_section = isinstance(value, dict) and value
        dotted = f"{prefix}{key}"
        flat |= by_dotted_key(value, f"{dotted}.") if is_section else {dotted: value}
    return flat


def changes(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the values in which nested records differ: dotted key, old and new; None if missing."""
    for key in {**before, **now}:
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from changes(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key}", old, new


def with_texts(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value in which all texts are changed, but for keys."""
    if isinstance(value, dict):
        return {key: with_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_texts(inner, change) for inner in value]
    return change(value) if isinstance(value, str) else value


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries on which results depend."""
    of_packages = {name: installed_version(name) or "not installed" for name in _VERSIONS_OF}
    return {"python": platform.python_version()} | of_packages


@cache  # To read it takes milliseconds, and every epoch and every stage names all.
def installed_version(package: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
