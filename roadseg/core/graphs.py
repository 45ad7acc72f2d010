"""RoadGraph: nodes and edges as tables, and the verbs that clean them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

Lines = NDArray[np.object_]


@dataclass(frozen=True)
class RoadGraph:
    """An undirected multigraph of roads in a metric CRS: loops and parallel edges are kept.

    Attributes:
        crs: metric CRS of all coordinates.
        nodes: shape (n, 2), x and y in metres.
        ends: shape (m, 2), the rows of `nodes` at which each edge starts and ends.
        lines: shape (m,), one shapely LineString an edge, from its first node to its last.
        attributes: further columns of the edges by name, each of shape (m,); `speed_kph` and
            `travel_time_s` are the ones that travel.py adds.
    """

    crs: CRS
    nodes: NDArray[np.float64]
    ends: NDArray[np.int64]
    lines: Lines
    attributes: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def length_m(self) -> NDArray[np.float64]:
        """Length of each edge in metres, shape (m,)."""
        return np.asarray(shapely.length(self.lines), dtype=np.float64)

    @property
    def degree(self) -> NDArray[np.int64]:
        """Number of edge ends at each node, shape (n,); a loop counts twice."""
        return np.bincount(self.ends.ravel(), minlength=len(self.nodes))
