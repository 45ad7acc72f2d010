"""Audit: the ways of a map held against the probabilities of an image, stretch by stretch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.errors import DataError
from roadseg.raster.grid import XY
from roadseg.roads.audit.profiles import Cover, Raster, probability_profiles
from roadseg.roads.audit.ridges import Ridges, find_ridges
from roadseg.roads.audit.stations import (
    Stations,
    near_junctions,
    on_other_ways,
    spread_stations,
    ways_across,
)
from roadseg.roads.audit.stretches import NOT_SEEN, SHIFTED, Stretches, cut_stretches, with_statuses
from roadseg.roads.audit.ways import AuditedWays
from roadseg.roads.graph.road_graph import cut_lines
from roadseg.roads.labels.roads import places_text
from roadseg.roads.options import AuditOptions
from roadseg.system.progress import counted

_STATIONS_AT_ONCE = 50_000
_CELL_M = 2000.0  # Side of the squares in which ways are looked at one after the other.
_COMMON_M = 1.0  # Metres; from this shift of the whole map on, ways are looked for where it leads.
_AGREE_M = 2.0  # Metres; a stretch whose offset differs less from the common shift follows it.
_BELONGS = 0.5  # Of an offset: a road this near to another way belongs to that one.
_ONE_WAY = 0.05  # Ways run in one direction if so small a share of them lies across it.
_CLOSE_M = 0.1  # Metres; offsets this close to the common shift count alike.
_STEPS = 50  # Of the iteration by which the common shift is found.
_MANY = 200_000  # Stations from which the common shift is found, at most.


@dataclass(frozen=True)
class Audit:
    """What the image says of the ways of a map; n stretches of m ways.

    Attributes:
        ways: those that touch a raster, in metres.
        lines: shape (n,), the line of each stretch.
        way: shape (n,), rising, row of its way.
        status: shape (n,), row of `STATUSES`.
        length_m: shape (n,).
        offset_m: shape (n,), median distance of the middle of the road to the left of the way, to
            the right below 0; NaN where it is not known.
        width_m: shape (n,), median width of the road, NaN where it is not known.
        probability: shape (n,), mean probability of road on the way as it is drawn; NaN without
            data.
        ridge_probability: shape (n,), the same on the road that was found, or else the highest
            beside the way.
        goes_on: shape (n,), stretches that are not seen between seen ones of the same way, as
            under trees.
        shift_m: by how much the whole map has to be moved to the east and to the north, median of
            what is seen; (NaN, NaN) where nothing is.
        outside: number of ways that touch no raster.
        thresholds: the lowest and the highest threshold of the rasters.
    """

    ways: AuditedWays
    lines: Lines
    way: Ints
    status: Ints
    length_m: Floats
    offset_m: Floats
    width_m: Floats
    probability: Floats
    ridge_probability: Floats
    goes_on: Bools
    shift_m: XY
    outside: int
    thresholds: tuple[float, float]

    @property
    def doubt_m(self) -> Floats:
        """Metres of each stretch, times how doubtful it is; shape (n,).

        Not seen: one less the probability of road at most beside it, half of that between seen
        stretches. Shifted: offset over 10 m. Else 0.
        """
        unseen = (1 - np.nan_to_num(self.ridge_probability)) * np.where(self.goes_on, 0.5, 1.0)
        shifted = np.minimum(np.abs(np.nan_to_num(self.offset_m)) / 10, 1)
        severity = np.select([self.status == NOT_SEEN, self.status == SHIFTED], [unseen, shifted])
        return np.asarray(self.length_m * severity)


def audit_ways(ways: AuditedWays, rasters: Sequence[Raster], options: AuditOptions) -> Audit:
    """Hold the ways of a map against the probabilities of an image.

    Ways are looked at twice if the first look shows that the whole map is shifted by a metre or
    more: the second time each road is expected where that shift leads, so that carriageways and
    parallel roads are not confused.

    Args:
        ways: of the map, in any coordinate system.
        rasters: probabilities or masks with a georeference; where they overlap the first counts.

    Raises:
        DataError: no way touches a raster, or a raster cannot be read.
    """
    cover = Cover.from_rasters(rasters)
    near = _on_rasters(ways, cover)
    here = ways.take(near).to_crs(cover.crs)
    stations = spread_stations(here.lines)
    skip = near_junctions(here.lines, stations)
    levels = [options.threshold_for(raster.threshold) for raster in rasters]
    look = partial(
        _look,
        cover,
        stations,
        skip,
        threshold=float(np.mean(levels)),
        max_shift_m=options.max_shift_m,
    )
    ridges = look(shift_m=np.zeros(2))
    shift_m = common_shift(ridges.offset_m, stations.left)
    if np.hypot(*shift_m) >= _COMMON_M:
        ridges = look(shift_m=shift_m)
    _share_roads(here.lines, stations, ridges, from_m=options.min_shift_m / 2)
    shift_m = common_shift(ridges.offset_m, stations.left)
    stretches = cut_stretches(ridges, stations, skip=skip, min_shift_m=options.min_shift_m)
    is_of_other = _are_of_other_ways(here.lines, stations, ridges, stretches, shift_m)
    status = np.where(is_of_other, NOT_SEEN, stretches.status)
    stretches = with_statuses(stretches, stations, status)
    return Audit(
        ways=here,
        lines=_cut(here.lines, stations, stretches),
        way=stations.way[stretches.first],
        status=stretches.status,
        **_measure(stations, ridges, stretches),
        goes_on=_goes_on(stretches, stations),
        shift_m=(float(shift_m[0]), float(shift_m[1])),
        outside=len(ways.lines) - len(near),
        thresholds=(min(levels), max(levels)),
    )


def common_shift(offset_m: Floats, left: Floats) -> Floats:
    """Return the shift, x and y, that explains the offsets of stations best; NaN without any.

    It has the least sum of distances to them, so that few ways far off pull little. Where all ways
    run in one direction it is the shift across them.

    Args:
        offset_m: shape (k,), how far to the left of their ways roads lie, NaN for unknown.
        left: shape (k, 2), unit vectors to the left.
    """
    known = np.flatnonzero(np.isfinite(offset_m))
    if not len(known):
        return np.full(2, np.nan)
    known = known[:: -(-len(known) // _MANY)]
    offset_m, left = offset_m[known], left[known]
    weight, shift = np.ones(len(known)), np.zeros(2)
    for _ in range(_STEPS):
        pulled = left * weight[:, np.newaxis]
        shift = np.linalg.pinv(pulled.T @ left, rcond=_ONE_WAY) @ (pulled.T @ offset_m)
        weight = 1 / np.maximum(np.abs(offset_m - left @ shift), _CLOSE_M)
    return np.asarray(shift)


def _on_rasters(ways: AuditedWays, cover: Cover) -> Ints:
    """Return the rows of the ways that touch a raster.

    Raises:
        DataError: if none does.
    """
    ground = shapely.union_all(cover.outlines)
    lines = ways.to_crs(cover.crs).lines
    is_placed = np.isfinite(shapely.bounds(lines)).all(axis=1)
    shapely.prepare(ground)
    near = np.flatnonzero(is_placed)[shapely.intersects(ground, lines[is_placed])]
    if len(near):
        return near
    where = places_text(
        ("ways are", ways.lines, ways.crs),
        ("probabilities", cover.outlines, cover.crs),
        advice="use a map of the same place, and check the coordinate systems of both",
    )
    raise DataError(
        f"{ways.source}: none of its {len(lines)} ways touches the probabilities: {where}"
    )


def _look(
    cover: Cover,
    stations: Stations,
    skip: Bools,
    *,
    shift_m: Floats,
    threshold: float,
    max_shift_m: float,
) -> Ridges:
    """Return what is seen at all stations, some ways that lie together at a time.

    Args:
        skip: shape (k,), stations that may show another road.
        shift_m: x and y by which roads are expected beside all ways.
        threshold: probability from which on there is road.
        max_shift_m: roads further off are other ones.
    """
    expected_m = stations.left @ shift_m
    ridges = Ridges.empty(len(stations.way))
    groups = _groups(stations)
    for ways in counted(groups, "audit", total=len(groups), unit="areas"):
        group, rows = stations.take(ways)
        ridges_of_group = find_ridges(
            probability_profiles(cover, group),
            group,
            skip=skip[rows],
            expected_m=expected_m[rows],
            threshold=threshold,
            max_offset_m=max_shift_m,
        )
        ridges.put(rows, ridges_of_group)
    return ridges


def _groups(stations: Stations) -> list[Ints]:
    """Return the ways in groups of this many stations, near each other where possible."""
    col, row = np.floor(stations.xy[stations.first] / _CELL_M).astype(np.int64).T
    order = np.lexsort((np.where(row % 2, -col, col), row))
    group = (np.cumsum(stations.count[order]) - 1) // _STATIONS_AT_ONCE
    return [np.sort(part) for part in np.split(order, np.flatnonzero(np.diff(group)) + 1)]


def _share_roads(lines: Lines, stations: Stations, ridges: Ridges, *, from_m: float) -> None:
    """Correct offsets on roads that several ways of the map lie on, as carriageways do.

    The middle of such a road belongs to the middle of its ways.

    Args:
        ridges: what is seen there; changed in place.
        from_m: smaller offsets are left as they are.
    """
    offset_m, aside_m = ridges.offset_m, np.abs(np.nan_to_num(ridges.offset_m))
    rows = np.flatnonzero((aside_m >= from_m) & (aside_m <= ridges.width_m / 2))
    left, half_m = stations.left[rows], ridges.width_m[rows] / 2
    low_m, high_m = offset_m[rows] - half_m, offset_m[rows] + half_m
    starts, ends = (stations.xy[rows] + left * each[:, np.newaxis] for each in (low_m, high_m))
    section, away_m = ways_across(lines, stations.way[rows], starts, ends)
    total = np.bincount(section, low_m[section] + away_m, minlength=len(rows))
    ways = 1 + np.bincount(section, minlength=len(rows))
    corrected = offset_m[rows] - total / ways
    is_nearer = np.abs(corrected) < np.abs(offset_m[rows])
    offset_m[rows[is_nearer]] = corrected[is_nearer]


def _are_of_other_ways(
    lines: Lines,
    stations: Stations,
    ridges: Ridges,
    stretches: Stretches,
    shift_m: Floats,
) -> Bools:
    """Return which shifted stretches lie beside a road on which another way of the map lies.

    At least half of the places on the road that were measured have to be nearer to another way than
    half their offset. A stretch that follows the common shift of the map keeps its road.
    """
    of_station = stretches.of_station
    is_shifted = (stretches.status == SHIFTED)[of_station]
    rows = np.flatnonzero(is_shifted & np.isfinite(ridges.offset_m))
    offset_m, left = ridges.offset_m[rows], stations.left[rows]
    points = stations.xy[rows] + left * offset_m[:, np.newaxis]
    within_m = _BELONGS * np.abs(offset_m)
    is_on = on_other_ways(lines, stations.way[rows], points, within_m=within_m)
    is_on &= ~(np.abs(offset_m - left @ shift_m) < _AGREE_M)
    on = np.bincount(of_station[rows], is_on, minlength=len(stretches.first))
    measured = np.bincount(of_station[rows], minlength=len(stretches.first))
    return np.asarray((measured > 0) & (2 * on >= measured))


def _measure(stations: Stations, ridges: Ridges, stretches: Stretches) -> dict[str, Floats]:
    """Return lengths, medians of offset and width, and mean probabilities of stretches."""
    of_station = stretches.of_station
    is_seen = (stretches.status < NOT_SEEN)[of_station]
    of_stretches: dict[str, tuple[Floats, str]] = {
        "length_m": (stations.length_m, "sum"),
        "offset_m": (np.where(is_seen, ridges.offset_m, np.nan), "median"),
        "width_m": (np.where(is_seen, ridges.width_m, np.nan), "median"),
        "probability": (np.where(ridges.has_data, ridges.on_way, np.nan), "mean"),
        "ridge_probability": (np.where(ridges.has_data, ridges.on_ridge, np.nan), "mean"),
    }
    return {
        name: pd.Series(values).groupby(of_station).agg(figure).to_numpy()
        for name, (values, figure) in of_stretches.items()
    }


def _cut(lines: Lines, stations: Stations, stretches: Stretches) -> Lines:
    """Return the line of each stretch."""
    way = stations.way[stretches.first]
    nth = stretches.first - stations.first[way]
    is_last = nth + stretches.count == stations.count[way]
    spacing = stations.spacing_m[way]
    end = np.where(is_last, shapely.length(lines)[way], (nth + stretches.count) * spacing)
    return cut_lines(lines[way], nth * spacing, end)


def _goes_on(stretches: Stretches, stations: Stations) -> Bools:
    """Return which stretches are not seen, but lie between two seen ones of their way."""
    way = stations.way[stretches.first]
    is_seen = stretches.status < NOT_SEEN
    before, after = np.zeros_like(is_seen), np.zeros_like(is_seen)
    same = np.diff(way) == 0
    before[1:] = is_seen[:-1] & same
    after[:-1] = is_seen[1:] & same
    return np.asarray((stretches.status == NOT_SEEN) & before & after)
