"""Stations along ways: even, with a direction, and told from those at junctions."""

import numpy as np
import pytest

from roadseg.roads.audit.stations import near_junctions, on_other_ways, spread_stations, ways_across
from tests.drawing import lines_of as lines


def skipped(*coordinates):
    """Return the places along the first way that are near a junction."""
    ways = lines(*coordinates)
    stations = spread_stations(ways)
    skip = near_junctions(ways, stations)[stations.way == 0]
    at = (np.arange(stations.count[0]) + 0.5) * stations.spacing_m[0]
    return at[skip]


def test_stations_are_the_middles_of_equal_parts_of_at_most_3_m():
    stations = spread_stations(lines([(0, 0), (10, 0)], [(0, 5), (0, 6)]))
    assert stations.count.tolist() == [4, 1]
    assert stations.xy[:, 0].tolist() == pytest.approx([1.25, 3.75, 6.25, 8.75, 0])
    assert stations.length_m.sum() == pytest.approx(11)


def test_left_is_seen_in_the_direction_of_the_way():
    stations = spread_stations(lines([(0, 0), (9, 0)], [(9, 0), (0, 0)], [(0, 0), (0, 1)]))
    assert stations.left[[0, 3, 6]].tolist() == [[0, 1], [0, -1], [-1, 0]]


def test_stations_within_10_m_of_a_crossing_are_near_it():
    at = skipped([(0, 0), (90, 0)], [(45, -30), (45, 30)])
    assert (at.min(), at.max()) == (37.5, 52.5)


def test_a_way_that_goes_on_as_the_next_one_has_no_junction_there():
    assert len(skipped([(0, 0), (90, 0)], [(90, 0), (120, 30)])) == 0


def test_two_ways_that_begin_at_the_end_of_one_make_a_junction():
    at = skipped([(0, 0), (90, 0)], [(90, 0), (120, 30)], [(90, 0), (120, -30)])
    assert at.min() > 80


@pytest.mark.parametrize(("gap_m", "is_junction"), [(8.0, True), (8.1, False)])
def test_an_end_up_to_8_m_from_another_way_is_a_junction(gap_m, is_junction):
    at = skipped([(0, 0), (90, 0)], [(90 + gap_m, -50), (90 + gap_m, 50)])
    assert (len(at) > 0) is is_junction


def test_a_point_on_its_own_way_is_on_no_other():
    ways = lines([(0, 0), (90, 0)], [(0, 10), (90, 10)])
    points = np.array([[45.0, 1.0], [45.0, 9.0]])
    on = on_other_ways(ways, np.array([0, 0]), points, within_m=np.array([2.0, 2.0]))
    assert on.tolist() == [False, True]


def test_a_section_tells_how_far_along_it_another_way_lies():
    ways = lines([(0, 0), (90, 0)], [(0, 10), (90, 10)])
    starts, ends = np.array([[45.0, -5.0]]), np.array([[45.0, 15.0]])
    section, away_m = ways_across(ways, np.array([0]), starts, ends)
    assert (section.tolist(), away_m.tolist()) == ([0], [15])
