"""Pairs: places of different groups that lie nearest to each other."""

import numpy as np
from scipy.spatial import cKDTree

from roadseg.core.graphs import Floats, Ints


def nearest_pairs(places: Floats, group: Ints, *, within: float) -> Ints:
    """Pair places of different groups, the nearest first; each is in one pair at most.

    Args:
        places: shape (n, 2).
        group: shape (n,), the group of each.
        within: greatest distance of a pair, in the unit of the places.

    Returns:
        Rows of the places of each pair, shape (k, 2).
    """
    nothing = np.empty((0, 2), dtype=np.int64)
    if len(places) == 0:
        return nothing
    pairs = cKDTree(places).query_pairs(within, output_type="ndarray").astype(np.int64)
    pairs = pairs[group[pairs[:, 0]] != group[pairs[:, 1]]]
    apart = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T)
    chosen, taken = [], set[int]()
    for pair in pairs[np.lexsort([*pairs.T, apart])].tolist():
        if taken.isdisjoint(pair):
            taken.update(pair)
            chosen.append(pair)
    return np.array(chosen, dtype=np.int64) if chosen else nothing
