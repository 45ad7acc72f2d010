"""Roads that another network lacks, cut where they leave its surroundings."""

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.roads.metrics.buffer import match_lines
from roadseg.roads.metrics.differences import missing_roads
from tests.drawing import drawn

STREET = [(0, 0), (200, 0)]


def missing(roads, others, tolerance_m=8, min_length_m=20):
    limits = {"tolerance_m": tolerance_m, "min_length_m": min_length_m}
    parts = missing_roads(drawn(*roads), drawn(*others), **limits)
    return [np.round(shapely.get_coordinates(line), 2).tolist() for line in parts.lines]


def turned(degrees):
    """A road of 200 m that crosses the street at this angle."""
    half = 100 * np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    return (np.array([100, 0]) + np.outer([-1, 1], half)).tolist()


# Of each 20 m 16 are near, and so the 4 beyond are slivers, not a road that crosses.
HOPS = [[(x, 0), (x + 2, 0)] for x in range(7, 200, 20)]


@pytest.mark.parametrize(
    ("roads", "others", "parts"),
    [
        ([STREET], [STREET], []),
        ([STREET], [[(0, 8), (90, 8), (200, -8)]], []),
        ([STREET], [[(0, 8.1), (200, 8.1)]], [[[0, 0], [200, 0]]]),
        ([STREET], [], [[[0, 0], [200, 0]]]),
        ([], [STREET], []),
        ([STREET], [[(0, 0), (100, 0)]], [[[108, 0], [200, 0]]]),
        ([STREET], [[(0, 0), (60, 0)], [(120, 0), (200, 0)]], [[[68, 0], [112, 0]]]),
        ([[(100, 0), (100, 50)]], [STREET], [[[100, 0], [100, 50]]]),
        ([STREET], HOPS, []),
    ],
    ids=[
        *("the same", "within the tolerance", "beyond it", "nothing there", "no roads"),
        *("cut where it leaves the tolerance", "a gap is cut on both sides"),
        *("a road that starts at another", "wobbles along the tolerance"),
    ],
)
def test_roads_beyond_the_tolerance_are_missing(roads, others, parts):
    assert missing(roads, others) == parts


@pytest.mark.parametrize(("degrees", "pieces"), [(90, 1), (60, 1), (43, 1), (40, 2)])
def test_a_road_that_merely_crosses_is_missing_as_a_whole(degrees, pieces):
    """Down to 42 degrees, where 3 times the tolerance are near."""
    assert len(missing([turned(degrees)], [STREET])) == pieces


@pytest.mark.parametrize(("length_m", "pieces"), [(20, 1), (19.9, 0)])
def test_slivers_are_left_out(length_m, pieces):
    assert len(missing([[(0, 50), (length_m, 50)]], [STREET])) == pieces


def test_short_pieces_that_meet_are_no_slivers():
    roads = [[(0, 50), (15, 50)], [(15, 50), (30, 50)]]
    assert len(missing(roads, [STREET])) == 2


def test_parts_keep_the_attributes_of_their_edge_and_their_part_of_the_time():
    facts = {"speed_kph": np.array([36.0]), "travel_time_s": np.array([20.0])}
    parts = missing_roads(
        drawn(STREET, **facts), drawn([(0, 0), (92, 0)]), tolerance_m=8, min_length_m=20
    )
    assert parts.attributes["speed_kph"].tolist() == [36]
    assert parts.attributes["travel_time_s"].tolist() == pytest.approx([10], abs=0.001)


def test_loops_and_parallel_edges_are_parts_of_their_own():
    ring = [(0, 300), (60, 300), (60, 360), (0, 300)]
    parallel = [(0, 0), (100, 120), (200, 0)]
    assert missing([STREET, parallel, ring], [STREET]) == [
        np.round(parallel, 2).tolist(),
        np.round(ring, 2).tolist(),
    ]


def test_other_coordinate_systems_and_tolerances_are_refused():
    ours, theirs = drawn(STREET), drawn(STREET, crs=CRS.from_epsg(32633))
    with pytest.raises(ValueError, match="the CRSs differ"):
        missing_roads(ours, theirs, tolerance_m=8, min_length_m=20)
    with pytest.raises(ValueError, match="tolerance_m must be above 0"):
        missing_roads(ours, ours, tolerance_m=0, min_length_m=20)


POINT = st.tuples(st.integers(0, 300), st.integers(0, 300))
ROADS = st.lists(st.tuples(POINT, POINT).filter(lambda road: road[0] != road[1]), max_size=8)


@settings(max_examples=50)
@given(ROADS, ROADS)
def test_what_is_apart_is_all_there_but_for_slivers(roads, others):
    """Parts hold at least what is further away than the tolerance, and at most the whole."""
    ours, theirs = drawn(*roads), drawn(*others)
    parts = missing_roads(ours, theirs, tolerance_m=8, min_length_m=0)
    # Distances that are equal but for rounding, 1 mm, are near; at a small angle that is long.
    near = match_lines(theirs, ours, tolerance_m=8.001)
    apart_m = near.predicted - near.predicted_near
    found_m = parts.length_m.sum()
    assert apart_m - 0.01 * (len(parts.lines) + len(roads) ** 2) <= found_m
    assert found_m <= near.predicted + 0.001
    assert found_m <= 3 * apart_m + 0.1 * len(parts.lines) + 0.001
