"""Groups: rows that belong together because they are linked, nearest, or follow each other.

Spans that overlap are joined.
"""

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Array, Bools, Floats, Ints


def connected_groups(pairs: Ints, *, nodes: int) -> Ints:
    """Number the groups of nodes that are connected, directly or by way of others.

    Args:
        pairs: shape (m, 2), indices of nodes that belong together.

    Returns:
        Group of each node, shape (nodes,), from 0 in the order of the first node of each.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(pairs), dtype=np.int8), tuple(pairs.T)), shape=(nodes, nodes))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


def greedy_matching(pairs: Ints) -> Ints:
    """Return rows of pairs, shape (k, 2), that share no member with a pair chosen before."""
    taken, rows = set[int](), []
    for row, pair in enumerate(pairs.tolist()):
        if taken.isdisjoint(pair):
            taken.update(pair)
            rows.append(row)
    return np.array(rows, dtype=np.int64)


def first_of_equal(keys: Iterable[Hashable]) -> Ints:
    """Return the rows of the keys that no earlier row has."""
    rows = dict[Hashable, int]()
    for row, key in enumerate(keys):
        rows.setdefault(key, row)
    return np.array(list(rows.values()), dtype=np.int64)


def begin_runs(*columns: Array) -> Bools:
    """Return which rows differ from the row before in one of the columns; the first one does."""
    begins = np.ones(len(columns[0]), dtype=bool)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return begins


def join_spans(low: Floats, high: Floats, *, within: float) -> tuple[Floats, Floats]:
    """Join spans that overlap, or lie no further apart than `within`; both ends of each, rising."""
    order = np.argsort(low)
    low, high = low[order], np.maximum.accumulate(high[order])
    is_first = np.append(True, low[1:] > high[:-1] + within)[: len(low)]
    is_last = np.append(is_first[1:], True)[: len(low)]
    return low[is_first], high[is_last]


def group_means(places: NDArray[np.floating], group: Ints) -> Floats:
    """Return the mean of the places, shape (k, 2), of each group, numbered from 0."""
    sums = np.column_stack([np.bincount(group, weights=axis) for axis in places.T])
    return sums / np.bincount(group)[:, None]
