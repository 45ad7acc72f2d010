"""Array types: names for what numpy arrays hold, used in the annotations of all modules."""

from typing import Any

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
