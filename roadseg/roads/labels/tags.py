"""Tags: the attributes of label features as text, however their file keeps them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

PACKED = "other_tags"  # where OGR keeps the tags of an OpenStreetMap file that are no columns

_Found = TypeVar("_Found")

_NULLS = {"", "None", "nan", "NaN", "NaT", "<NA>", "null", "NULL", "<Null>"}
_ESCAPED = re.compile(r"\\(.)")
_ITEM = re.compile(r"""[^\[\],'"]+""")


@dataclass(frozen=True)
class Tags:
    """Attributes of features.

    Attributes:
        columns: the values by key, each a list of `features` texts as `str` writes them.
        features: number of features.
    """

    columns: Mapping[str, list[str]]
    features: int

    def __contains__(self, key: object) -> bool:
        """Say whether the features have such a key."""
        return key in self.columns

    def numbers(self, key: str, read: Callable[[str], float | None]) -> NDArray[np.float64]:
        """Return what `read` finds in each value: NaN where nothing, or without such a key."""
        found = self._each(key, lambda raw: read(text(raw)))
        return np.array(found, dtype=np.float64)  # None becomes NaN

    def words(self, key: str, read: Callable[[str], str] = str) -> NDArray[np.str_]:
        """Return what `read` makes of each value in small letters; without such a key, ""."""
        found = self._each(key, lambda raw: read(text(raw).lower()))
        return np.array([word or "" for word in found], dtype=np.str_)

    def _each(self, key: str, read: Callable[[str], _Found]) -> list[_Found | None]:
        """Read a key of every feature, each distinct value once."""
        values = self.columns.get(key)
        if values is None:
            return [None] * self.features
        known = {raw: read(raw) for raw in set(values)}
        return [known[raw] for raw in values]


def read_tags(columns: Mapping[str, NDArray[Any]], features: int, keys: Iterable[str]) -> Tags:
    """Take the given keys out of the columns of a file, and out of its `other_tags`.

    Args:
        columns: the attributes of all features, each of shape (features,), of any dtype.
        features: number of features.
        keys: those that are needed; a column of the same name wins over `other_tags`.
    """
    wanted = list(dict.fromkeys(keys))
    found = {key: list(map(str, columns[key].tolist())) for key in wanted if key in columns}
    missing = [key for key in wanted if key not in columns]
    if PACKED in columns and missing:
        found |= _unpacked(map(str, columns[PACKED].tolist()), features, missing)
    return Tags(found, features)


def text(value: object) -> str:
    r"""Return a value as text without blanks around it: "" for a null, a list as `50;30`.

    A word that Python or SQL writes for a null is one ("None", "nan", "NULL"); `none` in small
    letters is not, as it means something in OpenStreetMap. A whole number loses its ".0".
    """
    found = str(value).strip()
    if found in _NULLS:
        return ""
    if found.startswith("["):
        return ";".join(item.strip() for item in _ITEM.findall(found) if item.strip())
    return found.removesuffix(".0")


def _unpacked(packed: Iterable[str], features: int, keys: list[str]) -> dict[str, list[str]]:
    r"""Read keys out of tags packed as `"lanes"=>"2","name"=>"\"A\""`, or as JSON."""
    columns = {key: [""] * features for key in keys}
    names = "|".join(map(re.escape, keys))
    tag = re.compile(rf'"({names})"(?:=>|: ?)"([^"\\]*(?:\\.[^"\\]*)*)"')
    for i, tags in enumerate(packed):
        for key, value in tag.findall(tags):
            columns[key][i] = _ESCAPED.sub(r"\1", value) if "\\" in value else value
    return columns
