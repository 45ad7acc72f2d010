"""Stations: points along the ways of a map at which the image is looked at, across the way."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines, Shapes
from roadseg.roads.graph.directions import left_of, unit
from roadseg.roads.graph.road_graph import end_points, ranges, sample_points, unique_pairs

SPACING_M = 3.0  # Metres between stations of a way, at most.
_JUNCTION_M = 10.0  # Metres along a way on both sides of a junction that show the other road.
_NEAR_M = 8.0  # Metres; the end of a way this close to another one is a junction with it.
_DECIMALS = 1  # Of metres: places that agree in these are one.
_GOES_ON = 2  # Ends of ways at a place where one way only goes on as the next.


@dataclass(frozen=True)
class Stations:
    """Points along ways, evenly spaced, at most `SPACING_M` apart.

    Attributes:
        way: shape (k,), rising, the row of the way of each station.
        first: shape (m,), the first station of each way.
        count: shape (m,), how many it has, at least one.
        spacing_m: shape (m,), length of the way for which a station stands.
        xy: shape (k, 2), metres.
        left: shape (k, 2), unit vectors to the left of the way.
    """

    way: Ints
    first: Ints
    count: Ints
    spacing_m: Floats
    xy: Floats
    left: Floats

    @property
    def length_m(self) -> Floats:
        """Length of way that each station stands for, shape (k,)."""
        return np.asarray(self.spacing_m[self.way])

    def take(self, ways: Ints) -> tuple["Stations", Ints]:
        """Return the stations of some ways, whose rows rise, and their rows."""
        count = self.count[ways]
        first = np.cumsum(count) - count
        rows = ranges(self.first[ways], count)
        way = np.repeat(np.arange(len(ways)), count)
        spacing_m = self.spacing_m[ways]
        return Stations(way, first, count, spacing_m, self.xy[rows], self.left[rows]), rows


def spread_stations(lines: Lines) -> Stations:
    """Spread stations along the lines of ways, in metres, none of them of length 0.

    Stations are `sample_points`. The direction of the way there is that from the station before to
    the one after.
    """
    xy, line = sample_points(lines, spacing_m=SPACING_M)
    way = line.astype(np.int64)
    count = np.bincount(way, minlength=len(lines))
    first = np.cumsum(count) - count
    last = first + count - 1
    before = np.maximum(np.arange(len(way)) - 1, first[way])
    after = np.minimum(np.arange(len(way)) + 1, last[way])
    ahead = xy[after] - xy[before]
    is_alone = count[way] == 1
    start, end = end_points(lines).transpose(1, 0, 2)
    ahead[is_alone] = (end - start)[way[is_alone]]
    spacing_m = shapely.length(lines) / count
    return Stations(way, first, count, spacing_m, xy, left_of(unit(ahead)))


def near_junctions(lines: Lines, stations: Stations) -> Bools:
    """Return which stations are so near a junction that they may show the other road there.

    A junction is a place where a way crosses or touches another one, or ends within 8 m of it; not
    one where a way only goes on as the next way. Stations within 10 m of it along the way count.

    Args:
        lines: of the ways, in metres.

    Returns:
        Shape (k,).
    """
    way, point = _junctions(lines)
    at = shapely.line_locate_point(lines[way], point)
    spacing = stations.spacing_m[way]
    low = np.ceil((at - _JUNCTION_M) / spacing - 0.5)
    high = np.floor((at + _JUNCTION_M) / spacing - 0.5)
    most = stations.count[way] - 1
    change = np.zeros(len(stations.way) + 1, dtype=np.int64)
    is_any = (high >= 0) & (low <= most)
    begin = stations.first[way] + np.clip(low, 0, most).astype(np.int64)
    end = stations.first[way] + np.clip(high, 0, most).astype(np.int64) + 1
    np.add.at(change, begin[is_any], 1)
    np.add.at(change, end[is_any], -1)
    return np.asarray(np.cumsum(change[:-1]) > 0)


def on_other_ways(lines: Lines, rows: Ints, points: Floats, *, within_m: Floats) -> Bools:
    """Return which points lie within a distance of another way than their own.

    Args:
        lines: of all ways, in metres.
        rows: shape (k,), the way of each point.
        points: shape (k, 2), metres.
        within_m: shape (k,), the distance for each point.
    """
    tree = shapely.STRtree(lines)
    point, other = tree.query(shapely.points(points), predicate="dwithin", distance=within_m)
    is_on = np.zeros(len(points), dtype=bool)
    is_on[point[other != rows[point]]] = True
    return is_on


def ways_across(lines: Lines, rows: Ints, starts: Floats, ends: Floats) -> tuple[Ints, Floats]:
    """Return where other ways cross sections across their own way.

    Args:
        lines: of all ways, in metres.
        rows: shape (k,), the way of each section.
        starts: shape (k, 2), where the sections begin.
        ends: shape (k, 2), where they end.

    Returns:
        The section of each crossing, rising, and its distance from where the section begins.
    """
    sections = np.asarray(shapely.linestrings(np.stack([starts, ends], axis=1)), dtype=object)
    section, other = shapely.STRtree(lines).query(sections, predicate="intersects")
    is_other = other != rows[section]
    section, other = section[is_other], other[is_other]
    points = shapely.intersection(sections[section], lines[other])
    xy, crossing = shapely.get_coordinates(points, return_index=True)
    section = section[crossing]
    order = np.argsort(section, kind="stable")
    away = xy[order] - starts[section[order]]
    return section[order], np.asarray(np.hypot(*away.T))


def _junctions(lines: Lines) -> tuple[Ints, Shapes]:
    """Return the junctions of each way, as the row of the way and a point."""
    tree = shapely.STRtree(lines)
    one, other = tree.query(lines, predicate="intersects")
    one, other = one[one < other], other[one < other]
    xy, pair = shapely.get_coordinates(
        shapely.intersection(lines[one], lines[other]), return_index=True
    )
    way, xy = np.concatenate([one[pair], other[pair]]), np.concatenate([xy, xy])
    ends = end_points(lines).reshape(-1, 2)
    end_way = np.repeat(np.arange(len(lines)), 2)
    _, place = unique_pairs(np.round(np.concatenate([xy, ends]), _DECIMALS))
    at_place, end_place = place[: len(xy)], place[len(xy) :]
    # A way that ends at a place leaves it once, one that passes it twice.
    entries = np.unique(np.column_stack([at_place, way]), axis=0)
    is_end = np.isin(_pair_keys(entries), _pair_keys(np.column_stack([end_place, end_way])))
    leaving = np.bincount(entries[:, 0], np.where(is_end, 1, 2), minlength=place.max(initial=0) + 1)
    is_junction = leaving[at_place] > _GOES_ON
    open_ends = leaving[end_place] == 0
    near, touched = tree.query(
        shapely.points(ends[open_ends]), predicate="dwithin", distance=_NEAR_M
    )
    rows = np.flatnonzero(open_ends)[near]
    rows = np.unique(rows[touched != end_way[rows]])
    way = np.concatenate([way[is_junction], end_way[rows]])
    points = shapely.points(np.concatenate([xy[is_junction], ends[rows]]))
    return way, np.asarray(points, dtype=object)


def _pair_keys(pairs: Ints) -> Ints:
    """Return one number for each pair of numbers below 2 ** 31."""
    return np.asarray((pairs[:, 0].astype(np.int64) << 32) | pairs[:, 1])
