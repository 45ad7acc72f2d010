"""Stretches: the parts of ways that agree with the image, lie beside it, or are not seen in it."""

import heapq
from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Array, Bools, Floats, Ints
from roadseg.roads.audit.ridges import Ridges
from roadseg.roads.audit.stations import Stations

_SHORTEST_M = 30.0  # Metres of the shortest part of a longer way with a status of its own.
_WIDE = 0.25  # Of the width of a road: a way this far beside its middle is half way to its edge.
STATUSES = ("confirmed", "shifted", "not seen", "no data")
CONFIRMED, SHIFTED, NOT_SEEN, NO_DATA = range(len(STATUSES))


@dataclass(frozen=True)
class Stretches:
    """Parts of ways with one status each, in the order of their ways.

    Attributes:
        first: shape (n,), the first station of each.
        count: shape (n,), how many stations it has.
        status: shape (n,), row of `STATUSES`.
    """

    first: Ints
    count: Ints
    status: Ints

    @property
    def of_station(self) -> Ints:
        """Row of the stretch of each station."""
        return np.repeat(np.arange(len(self.first)), self.count)


def cut_stretches(
    ridges: Ridges, stations: Stations, *, skip: Bools, min_shift_m: float
) -> Stretches:
    """Cut ways into stretches of one status.

    1. A station has no data, or its road is seen or not. Stations to skip are taken as the nearest
       other one of their way.
    2. Stretches shorter than 30 m join the longer one of their neighbours on the way, one without
       data only if there is no other; the shortest first.
    3. What is seen is cut in the same way into what lies at least `min_shift_m` beside the way, and
       what does not.

    Args:
        ridges: what is seen at each station.
        skip: shape (k,), stations that may show another road.
        min_shift_m: distance from which on a road counts as shifted, that distance included.
    """
    status = np.where(ridges.is_seen, CONFIRMED, NOT_SEEN)
    status = np.where(ridges.has_data, _from_nearest(status, stations, ~skip), NO_DATA)
    status = _without_short(status, stations)
    offset_m, width_m = (
        np.nan_to_num(_from_nearest(each, stations, np.isfinite(each)))
        for each in (ridges.offset_m, ridges.width_m)
    )
    is_shifted = np.abs(offset_m) >= np.maximum(min_shift_m, _WIDE * width_m)
    status = np.where((status == CONFIRMED) & is_shifted, SHIFTED, status)
    status = _without_short(status, stations, among=(CONFIRMED, SHIFTED))
    return _of_stations(status, stations)


def with_statuses(stretches: Stretches, stations: Stations, status: Ints) -> Stretches:
    """Return the stretches with other statuses; neighbours that have one become one."""
    return _of_stations(np.repeat(status, stretches.count), stations)


def _of_stations(status: Ints, stations: Stations) -> Stretches:
    first = _starts(status, stations)
    return Stretches(first, np.diff(first, append=len(status)), status[first])


def _starts(status: Ints, stations: Stations) -> Ints:
    """Return the first stations of runs of one status on one way."""
    changes = (np.diff(status, prepend=-1) != 0) | (np.diff(stations.way, prepend=-1) != 0)
    return np.flatnonzero(changes)


def _from_nearest(values: Array, stations: Stations, is_known: Bools) -> Array:
    """Return values in which unknown ones are that of the nearest known station of their way."""
    at = np.arange(len(is_known))
    before = np.maximum.accumulate(np.where(is_known, at, -1))
    after = np.minimum.accumulate(np.where(is_known, at, len(at))[::-1])[::-1]
    first = stations.first[stations.way]
    last = first + stations.count[stations.way] - 1
    has_before, has_after = before >= first, after <= last
    is_before = has_before & (~has_after | (at - before <= after - at))
    source = np.where(is_before, before, np.where(has_after, after, at))
    return np.asarray(values[source])


def _without_short(status: Ints, stations: Stations, among: tuple[int, ...] | None = None) -> Ints:
    """Let short runs of a status join the longer neighbour, the shortest first.

    Args:
        status: shape (k,).
        among: statuses whose runs may join each other; None: all.
    """
    first = _starts(status, stations)
    count = np.diff(first, append=len(status))
    way = stations.way[first]
    length_m = count * stations.spacing_m[way]
    kinds = status[first]
    is_open = np.ones(len(first), bool) if among is None else np.isin(kinds, among)
    has_neighbour = np.zeros(len(first), dtype=bool)
    beside = (np.diff(way) == 0) & is_open[1:] & is_open[:-1]
    has_neighbour[1:] |= beside
    has_neighbour[:-1] |= beside
    is_short = (length_m < _SHORTEST_M) & has_neighbour
    joined = kinds.copy()
    for rows in _groups(way, is_short):
        joined[rows] = _join(kinds[rows], length_m[rows], is_open[rows])
    return np.repeat(joined, count)


def _groups(way: Ints, is_short: Bools) -> list[slice]:
    """Return the runs of each way that has a short one."""
    ways = np.unique(way[is_short])
    low, high = np.searchsorted(way, ways), np.searchsorted(way, ways, side="right")
    return [slice(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]


def _join(kinds: Ints, length_m: Floats, is_open: Bools) -> Ints:
    """Return the statuses of the runs of one way after short ones have joined others.

    A run joins a neighbour with data rather than one without, and else the longer one. Runs beside
    each other that have one status by then are one, which goes by the row of the first.
    """
    kind, metres, count = kinds.tolist(), length_m.tolist(), len(kinds)
    before, after = [*range(-1, count - 1)], [*range(1, count), -1]
    is_there = np.ones(count, dtype=bool)

    def merge(left: int, right: int) -> None:
        metres[left] += metres[right]
        is_there[right] = False
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left

    def has_status_of(other: int, row: int) -> bool:
        return other >= 0 and kind[other] == kind[row]

    short = [
        (metres[row], row) for row in np.flatnonzero(is_open & (length_m < _SHORTEST_M)).tolist()
    ]
    heapq.heapify(short)
    while short:
        length, row = heapq.heappop(short)
        beside = [other for other in (before[row], after[row]) if other >= 0 and is_open[other]]
        # A run that has become longer since was put in again if it is still short.
        if not (is_there[row] and metres[row] == length and beside):
            continue
        kind[row] = kind[max(beside, key=lambda other: (kind[other] != NO_DATA, metres[other]))]
        if has_status_of(before[row], row):
            merge(before[row], row)
            row = before[row]
        if has_status_of(after[row], row):
            merge(row, after[row])
        if metres[row] < _SHORTEST_M:
            heapq.heappush(short, (metres[row], row))
    first = np.flatnonzero(is_there)
    return np.repeat(np.array(kind)[first], np.diff(first, append=count))
