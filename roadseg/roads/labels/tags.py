"""Tags: the attributes of label features as text, however their file keeps them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from roadseg.arrays import Array, Floats, Objects, Texts

PACKED = "other_tags"  # Where OGR keeps the tags of an OpenStreetMap file that are not columns.

# Columns of roadseg that a Shapefile, whose names have at most ten letters, calls otherwise.
SHAPEFILE_NAMES = {
    "travel_tim": "travel_time",
    "speed_know": "speed_known",
    "speed_sour": "speed_source",
    "motor_vehi": "motor_vehicle",
    "probabilit": "probability",
    "min_probab": "min_probability",
}

_Value = TypeVar("_Value")

_NULLS = {"", "None", "nan", "NaN", "NaT", "<NA>", "null", "NULL", "<Null>"}
_ESCAPED = re.compile(r"\\(.)")
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"(?:=>|: ?)"(?:[^"\\]|\\.)*"')
_RARE = 100  # A key that fewer than one in this many features has is rare.
_ITEM = re.compile(r"""[^\[\],'"]+""")


@dataclass(frozen=True)
class Tags:
    """Attributes of features.

    Attributes:
        columns: the values by key, each a list of `features` texts as `str` writes them.
    """

    columns: Mapping[str, list[str]]
    features: int

    def __contains__(self, key: object) -> bool:
        """Return whether the features have such a key."""
        return key in self.columns

    @cached_property
    def highways(self) -> Texts:
        """The `highway` of each feature, shape (features,): "" where there is none."""
        key = highway_key(self.columns)
        return self.words(key) if key else np.full(self.features, "")

    def numbers(self, key: str, read: Callable[[str], float | None]) -> Floats:
        """Return the number that `read` makes of each value: NaN for None, or without a key."""
        numbers = self._each(key, lambda raw: read(text(raw)))
        return np.array(numbers, dtype=np.float64)  # None becomes NaN.

    def words(self, key: str, read: Callable[[str], str] = str) -> Texts:
        """Return what `read` makes of each value in small letters; without such a key, ""."""
        words = self._each(key, lambda raw: read(text(raw).lower()))
        return np.array([word or "" for word in words], dtype=np.str_)

    def texts(self, key: str) -> Objects:
        """Return each value in its own letters; without such a key, ""."""
        return np.array([value or "" for value in self._each(key, text)], dtype=object)

    def _each(self, key: str, read: Callable[[str], _Value]) -> list[_Value | None]:
        """Read a key of every feature, each distinct value once."""
        values = self.columns.get(key)
        if values is None:
            return [None] * self.features
        known = {raw: read(raw) for raw in set(values)}
        return [known[raw] for raw in values]


def read_tags(columns: Mapping[str, Array], features: int, keys: Iterable[str]) -> Tags:
    """Read the given keys from the columns of a file, and from its `other_tags`.

    Args:
        columns: the attributes of all features, each of shape (features,), of any dtype.
        keys: those that are needed; a column of the same name wins over `other_tags`.
    """
    wanted = list(dict.fromkeys(keys))
    texts = {key: list(map(str, columns[key].tolist())) for key in wanted if key in columns}
    missing = [key for key in wanted if key not in columns]
    if PACKED in columns and missing:
        texts |= _unpack(map(str, columns[PACKED].tolist()), features, missing)
    return Tags(texts, features)


def highway_key(keys: Collection[str]) -> str:
    """Return the key that holds the `highway` of a file's features; "" if there is none.

    That is `highway`, maybe among the `other_tags`, or in Geofabrik's shapefiles `fclass`.
    """
    if "fclass" in keys and "highway" not in keys:
        return "fclass"
    return "highway" if "highway" in keys or PACKED in keys else ""


def text(value: object) -> str:
    r"""Return a value as text without blanks around it: "" for a null, a list as `50;30`.

    A word that Python or SQL writes for a null is one ("None", "nan", "NULL"); `none` in small
    letters is not, as it means something in OpenStreetMap. A whole number loses its ".0".
    """
    written = str(value).strip()
    if written in _NULLS:
        return ""
    if written.startswith("["):
        return ";".join(item.strip() for item in _ITEM.findall(written) if item.strip())
    return written.removesuffix(".0")


def number(value: object) -> float | None:
    """Read a number that may be a string, as SpaceNet writes them; None if it is not."""
    try:
        read = float(str(value).strip())
    except ValueError:
        return None
    return read if math.isfinite(read) else None


def without_lists(column: Array) -> Array:
    """Return a column with texts such as "1;2" in the place of lists, which few formats hold."""
    if column.dtype != object or not any(isinstance(v, list | dict | np.ndarray) for v in column):
        return column
    texts = [";".join(map(str, v)) if isinstance(v, list | np.ndarray) else v for v in column]
    return np.array([str(v) if isinstance(v, dict) else v for v in texts], dtype=object)


def unpack_frequent(packed: Array) -> dict[str, Objects]:
    """Return packed tags as columns of texts, None where a feature has none.

    Only keys that at least one in a hundred features has become columns: maps have rare ones by the
    hundred.

    Args:
        packed: shape (features,), as in `other_tags`; None for no tags.
    """
    texts = ["" if tags is None else str(tags) for tags in packed.tolist()]
    counts = Counter(key for tags in texts for key in _KEY.findall(tags))
    frequent = [key for key, count in counts.items() if count * _RARE >= len(texts)]
    columns = _unpack(texts, len(texts), frequent) if frequent else {}
    return {
        key: np.array([value or None for value in values], dtype=object)
        for key, values in columns.items()
    }


def _unpack(packed: Iterable[str], features: int, keys: list[str]) -> dict[str, list[str]]:
    r"""Read keys out of tags packed as `"lanes"=>"2","name"=>"\"A\""`, or as JSON."""
    columns = {key: [""] * features for key in keys}
    names = "|".join(map(re.escape, keys))
    tag = re.compile(rf'"({names})"(?:=>|: ?)"([^"\\]*(?:\\.[^"\\]*)*)"')
    for i, tags in enumerate(packed):
        for key, value in tag.findall(tags):
            columns[key][i] = _ESCAPED.sub(r"\1", value) if "\\" in value else value
    return columns
