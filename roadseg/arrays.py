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
    """A base of dataclasses whose fields are arrays with a row for each of the same things."""

    def take(self, rows: Ints | Bools) -> Self:
        """Return some rows, by their numbers or by a boolean for each."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, of which there is one at least, one after the other."""
        return replace(
            parts[0],
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)},
        )
