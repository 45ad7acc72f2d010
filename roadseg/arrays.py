"""Array types: names for what numpy arrays hold; and tables of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of any type
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Lines = NDArray[np.object_]  # LineStrings of shapely
Shapes = NDArray[np.object_]  # shapely geometries of any kind
Texts = NDArray[np.str_]
Objects = NDArray[np.object_]  # texts or None, and what else a column may hold


@dataclass(frozen=True)
class Columns:
    """A base of dataclasses whose fields have a row for each of the same things.

    These fields are arrays, dictionaries of arrays, or such tables; others are of all things.
    """

    def take(self, rows: Ints | Bools) -> Self:
        """Return some rows, by their numbers or by a boolean for each."""
        return replace(self, **{f.name: _taken(getattr(self, f.name), rows) for f in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, of which there is one at least, one after the other."""
        return replace(
            parts[0], **{f.name: _joined([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        )


def _taken(field: Any, rows: Ints | Bools) -> Any:  # noqa: ANN401 - a field of any type
    if isinstance(field, Columns):
        return field.take(rows)
    if type(field) is dict:
        return {name: column[rows] for name, column in field.items()}
    return field[rows] if isinstance(field, np.ndarray) else field


def _joined(columns: Sequence[Any]) -> Any:  # noqa: ANN401 - a field of any type
    first = columns[0]
    if isinstance(first, Columns):
        return first.joined(columns)
    if type(first) is dict:
        return {name: np.concatenate([each[name] for each in columns]) for name in first}
    return np.concatenate(columns) if isinstance(first, np.ndarray) else first
