"""Stretches: cut where the status changes, but not shredded."""

import time

import numpy as np
import pytest
import shapely

from roadseg.roads.audit.ridges import Ridges
from roadseg.roads.audit.stations import spread_stations
from roadseg.roads.audit.stretches import STATUSES, cut_stretches, with_statuses


def cut(*ways, skip=(), width_m=6.0):
    """Cut ways of which each station, 3 m of them, is an offset, "-" for unseen, "?" for no data.

    Returns the status and the length of each stretch.
    """
    cells = [cell for way in ways for cell in way]
    ends = [[(0, 9 * n), (3 * len(way), 9 * n)] for n, way in enumerate(ways)]
    stations = spread_stations(np.array([*map(shapely.LineString, ends), None], dtype=object)[:-1])
    seen = np.array([not isinstance(cell, str) for cell in cells])
    ridges = Ridges.empty(len(cells))
    ridges.has_data[:] = [cell != "?" for cell in cells]
    ridges.is_seen[:] = seen
    ridges.offset_m[seen] = [cell for cell in cells if not isinstance(cell, str)]
    ridges.width_m[seen] = width_m
    skipped = np.isin(np.arange(len(cells)), skip)
    stretches = cut_stretches(ridges, stations, skip=skipped, min_shift_m=4.0)
    return [
        (STATUSES[status], 3 * count)
        for status, count in zip(stretches.status, stretches.count.tolist(), strict=True)
    ]


def test_a_way_is_cut_where_its_status_changes():
    way = [0] * 20 + ["-"] * 15 + [5] * 10 + ["?"] * 10
    assert cut(way) == [("confirmed", 60), ("not seen", 45), ("shifted", 30), ("no data", 30)]


@pytest.mark.parametrize(("stations", "statuses"), [(9, 1), (10, 3)])
def test_a_stretch_of_less_than_30_m_joins_its_neighbours(stations, statuses):
    assert len(cut([0] * 20 + ["-"] * stations + [0] * 20)) == statuses


@pytest.mark.parametrize(
    ("way", "stretches"),
    [
        (["-"] * 2, [("not seen", 6)]),
        ([0] * 20 + ["?"] * 3 + ["-"] * 12, [("confirmed", 69), ("not seen", 36)]),
        ([0] * 12 + ["-"] * 3 + ["?"] * 20, [("confirmed", 45), ("no data", 60)]),
        (["-"] * 20 + [5] * 5 + [0] * 9, [("not seen", 60), ("confirmed", 42)]),
    ],
    ids=["a whole way", "to the longer one", "to one with data", "shifted to confirmed"],
)
def test_a_short_one_joins_the_neighbour_that_is_most_alike(way, stretches):
    assert cut(way) == stretches


@pytest.mark.parametrize(
    ("offset_m", "width_m", "status"),
    [(3.99, 6, "confirmed"), (4, 6, "shifted"), (5.9, 24, "confirmed"), (6, 24, "shifted")],
)
@pytest.mark.parametrize("side", [1, -1])
def test_a_road_is_shifted_from_4_m_or_a_quarter_of_its_width_on(offset_m, width_m, status, side):
    assert cut([side * offset_m] * 20, width_m=width_m) == [(status, 60)]


def test_stations_to_skip_are_as_the_nearest_other_one_and_count_without_others():
    assert cut(["-"] * 20 + [0] * 10, skip=range(20, 30)) == [("not seen", 90)]
    assert cut([0] * 10, skip=range(10)) == [("confirmed", 30)]


def test_stretches_that_become_alike_become_one():
    line = np.array([shapely.LineString([(0, 0), (120, 0)]), None], dtype=object)[:-1]
    stations = spread_stations(line)
    ridges = Ridges.empty(40)
    ridges.has_data[:], ridges.is_seen[:20] = True, True
    ridges.offset_m[:20], ridges.width_m[:20] = 6, 5
    skip = np.zeros(40, dtype=bool)
    stretches = cut_stretches(ridges, stations, skip=skip, min_shift_m=4)
    assert stretches.count.tolist() == [20, 20]
    assert with_statuses(stretches, stations, np.array([2, 2])).count.tolist() == [40]


def test_a_long_way_of_many_short_parts_is_cut_in_a_moment():
    way = [0, "-"] * 20_000
    began = time.process_time()
    assert len(cut(way)) == 1
    assert time.process_time() - began < 10  # Of the order of an hour in quadratic time.
