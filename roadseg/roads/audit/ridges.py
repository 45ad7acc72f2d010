"""Ridges: where the road runs that the probabilities show beside each way of a map."""

from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Bools, Bytes, Floats, Floats32, Ints
from roadseg.roads.audit.profiles import NO_DATA, REACH_M
from roadseg.roads.audit.stations import Stations

_MEAN_M = 30.0  # Metres of a way over which its profiles are averaged.
_PART = 0.8  # Of the threshold: mean probability of a road that can be followed.
_WIDEST_M = 60.0  # Metres; what is wider is an open space, which has no ridge.
# Costs of a station: a road that is not followed, a metre beside its middle, a metre from
# where it is expected.
_UNSEEN, _OFF_M, _FAR_M = 2.0, 1.0, 0.04
# Costs between stations: a metre sideways, and a leap to any other place.
_SIDEWAYS_M, _LEAP = 3.0, 15.0


@dataclass(frozen=True)
class Ridges:
    """What the probabilities show at each station; all arrays of shape (k,).

    Attributes:
        has_data: whether a raster holds data there.
        is_seen: whether a road is seen there.
        offset_m: how far to the left of the way the middle of the road lies; NaN where none is
            seen, or an open space, of which no middle can be told.
        width_m: width of that road; NaN where none is seen or it is an open space.
        on_way: mean probability of road on the way as it is drawn, over 30 m of it, 0 to 1.
        on_ridge: the same beside it, on the ridge, where one is seen, else the highest of all
            offsets.
    """

    has_data: Bools
    is_seen: Bools
    offset_m: Floats
    width_m: Floats
    on_way: Floats
    on_ridge: Floats

    @classmethod
    def empty(cls, count: int) -> "Ridges":
        """Return room for what is seen at this many stations."""
        flags, numbers = np.zeros((2, count), dtype=bool), np.full((4, count), np.nan, np.float32)
        return cls(*flags, *numbers)

    def put(self, rows: Ints, other: "Ridges") -> None:
        """Fill in what is seen at some stations."""
        for name, values in vars(other).items():
            getattr(self, name)[rows] = values


def find_ridges(
    profiles: Bytes,
    stations: Stations,
    *,
    skip: Bools,
    expected_m: Floats,
    threshold: float,
    max_offset_m: float,
) -> Ridges:
    """Find the road that runs along each way.

    1. Profiles are averaged over 30 m of their way, so that crossing roads, trees and cars count
       little; stations at junctions do not count, unless a way has no others.
    2. What is at least 0.8 of the threshold is road: along 30 m even a visible road is hidden here
       and there.
    3. Of all courses along a way that one is chosen which lies in the middle of roads, near where
       it is expected, and changes sides little; all stations of the way decide (Viterbi).

    Args:
        profiles: shape (k, 2 * REACH_M + 1), see `probability_profiles`.
        skip: shape (k,), stations that may show another road.
        expected_m: shape (k,), offset that is likeliest beforehand; 0 if the map fits the image.
        threshold: of the network, 0 to 1.
        max_offset_m: a middle further off is another road.
    """
    has_data = profiles[:, REACH_M] != NO_DATA
    mean = _along_ways(profiles, stations, _weights(skip | ~has_data, stations))
    reach = int(np.floor(max_offset_m))
    near = slice(REACH_M - reach, REACH_M + reach + 1)
    level = _PART * threshold * (NO_DATA - 1)
    is_road = mean >= np.float32(level)
    # A road that reaches ground without data has no middle that can be told, as on open spaces.
    start, stop = _runs(is_road | np.isnan(mean))
    middle = ((start + stop - 1) / 2 - REACH_M).astype(np.float32)
    is_open = (stop - start > _WIDEST_M) | (start == 0) | (stop == profiles.shape[1])
    offsets = np.arange(-reach, reach + 1, dtype=np.float32)
    costs = _costs(is_road[:, near], middle[:, near], is_open[:, near], offsets)
    costs += _FAR_M * np.abs(offsets - expected_m[:, np.newaxis].astype(np.float32))
    chosen = _courses(costs, stations) + near.start
    rows = np.arange(len(chosen))
    is_seen = is_road[rows, chosen] & has_data
    is_open = is_open[rows, chosen]
    low, high = _edges(mean, start[rows, chosen], stop[rows, chosen], level)
    offset_m = (low + high) / 2 - REACH_M
    is_seen &= is_open | (np.abs(offset_m) <= max_offset_m)
    is_measured = is_seen & ~is_open
    return Ridges(
        has_data=has_data,
        is_seen=is_seen,
        offset_m=np.where(is_measured, offset_m, np.nan),
        width_m=np.where(is_measured, high - low, np.nan),
        on_way=mean[:, REACH_M] / np.float64(NO_DATA - 1),
        on_ridge=np.where(is_seen, mean[rows, chosen], np.fmax.reduce(mean[:, near], axis=1))
        / np.float64(NO_DATA - 1),
    )


def _weights(skip: Bools, stations: Stations) -> Bools:
    """Return which stations count: those not to skip, or all of a way that has no others."""
    counting = np.add.reduceat(~skip, stations.first)
    return np.asarray(~skip | (counting == 0)[stations.way])


def _along_ways(profiles: Bytes, stations: Stations, counts: Bools) -> Floats32:
    """Return profiles averaged along their ways, shape as before, NaN where nothing is known."""
    half = np.floor(_MEAN_M / 2 / stations.spacing_m).astype(np.int64)[stations.way]
    first = stations.first[stations.way]
    last = first + stations.count[stations.way]
    at = np.arange(len(profiles))
    low, high = np.maximum(at - half, first), np.minimum(at + half + 1, last)
    is_known = (profiles != NO_DATA) & counts[:, np.newaxis]
    weight = _between(is_known, low, high)
    total = _between(np.where(is_known, profiles, 0), low, high)
    return np.where(weight > 0, total / np.maximum(weight, 1), np.nan).astype(np.float32)


def _between(values: Bytes | Bools, low: Ints, high: Ints) -> Ints:
    """Return the sums of rows from `low` up to before `high`."""
    sums = np.zeros((len(values) + 1, values.shape[1]), dtype=np.int32)
    np.cumsum(values, axis=0, out=sums[1:])
    return np.asarray(sums[high] - sums[low])


def _runs(is_road: Bools) -> tuple[Ints, Ints]:
    """Return where the run of road of each cell begins and ends, -1 and -1 beside roads."""
    cols = np.arange(is_road.shape[1], dtype=np.int16)
    off = np.where(is_road, np.int16(-1), cols)
    start = np.maximum.accumulate(off, axis=1) + np.int16(1)
    off[off < 0] = is_road.shape[1]
    stop = np.minimum.accumulate(off[:, ::-1], axis=1)[:, ::-1]
    return np.where(is_road, start, np.int16(-1)), np.where(is_road, stop, np.int16(-1))


def _costs(is_road: Bools, middle: Floats32, is_open: Bools, offsets: Floats32) -> Floats32:
    """Return what it costs to lie at each offset at each station."""
    off_m = np.where(is_open, np.float32(0), np.abs(offsets - middle))
    costs = np.where(is_road, np.minimum(_OFF_M * off_m, _UNSEEN), _UNSEEN)
    return np.asarray(costs, dtype=np.float32)


def _courses(costs: Floats32, stations: Stations) -> Ints:
    """Return the offset of each station, as a column of the costs, on the cheapest course.

    What a course costs up to a station and what it costs from there on are added; the column with
    the least sum is on the cheapest one.
    """
    total = _so_far(costs, stations, is_forward=True)
    total += _so_far(costs, stations, is_forward=False)
    total -= costs
    return np.asarray(total.argmin(axis=1))


def _so_far(costs: Floats32, stations: Stations, *, is_forward: bool) -> Floats32:
    """Return the least cost of all courses that reach each offset of each station."""
    order = np.argsort(-stations.count, kind="stable")
    count = stations.count[order]
    step = 1 if is_forward else -1
    begin = stations.first[order] if is_forward else (stations.first + stations.count - 1)[order]
    sideways = _SIDEWAYS_M * np.arange(costs.shape[1], dtype=np.float32)
    total = np.empty_like(costs)
    total[begin] = costs[begin]
    for nth in range(1, int(count.max(initial=0))):
        # Ways are in the order of their stations, so that those that go on are the first ones.
        at = begin[: np.searchsorted(-count, -nth)] + step * nth
        before = total[at - step]
        right = np.minimum.accumulate(before - sideways, axis=1) + sideways
        left = np.minimum.accumulate((before + sideways)[:, ::-1], axis=1)[:, ::-1] - sideways
        leap = before.min(axis=1, keepdims=True) + np.float32(_LEAP)
        total[at] = costs[at] + np.minimum(np.minimum(right, left), leap)
    return total


def _edges(mean: Floats32, start: Ints, stop: Ints, level: float) -> tuple[Floats, Floats]:
    """Return where a road begins and ends: where it falls below half of what it is in its middle.

    That is between the last column of its run and the next one, which is below `level`.
    """
    rows, last = np.arange(len(mean)), mean.shape[1] - 1
    half = np.maximum(mean[rows, (start + stop) // 2] / 2, level)
    inner, outer = mean[rows, start], mean[rows, np.maximum(start - 1, 0)]
    low = start - _part(inner, outer, half)
    inner, outer = mean[rows, stop - 1], mean[rows, np.minimum(stop, last)]
    return low, stop - 1 + _part(inner, outer, half)


def _part(inner: Floats32, outer: Floats32, level: Floats32) -> Floats:
    """Return how far it is from a column on the road to where it ends, 0 to 1."""
    drop = inner - outer
    return np.clip((inner - level) / np.where(drop > 0, drop, np.inf), 0, 1).astype(np.float64)
