"""Junctions of drawn roads: precision, recall, F1 and offset."""

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.metrics.junctions import JunctionMatch, junctions, match_junctions

UTM = CRS.from_epsg(32611)
STREET = [(0, 0), (100, 0), (200, 0), (300, 0)]


def drawn(*roads):
    """Draw roads that are joined where they share a vertex."""
    return graph_from_lines(np.array([shapely.LineString(road) for road in roads], object), UTM)


def street(*side_roads):
    """Draw a street with side roads at these places, metres from its start."""
    places = sorted({0, 300, *side_roads})
    return drawn([(x, 0) for x in places], *([(x, 0), (x, 50)] for x in side_roads))


def shares(found):
    return found.precision, found.recall, found.f1


def test_three_ends_are_a_junction_and_two_are_not():
    assert junctions(drawn(STREET, [(100, 0), (100, 50)], [(300, 0), (300, 50)])).tolist() == [
        [100, 0]
    ]


def test_a_loop_has_two_ends():
    ring = [(100, 0), (120, 20), (100, 40), (80, 20), (100, 0)]
    assert junctions(drawn([(0, 0), (100, 0)], ring)).tolist() == [[100, 0]]


def test_an_edge_drawn_twice_counts_once():
    line = shapely.LineString([(0, 0), (100, 0)])
    nodes, ends = np.array([[0.0, 0.0], [100.0, 0.0]]), np.array([[0, 1], [1, 0], [0, 1]])
    graph = RoadGraph(UTM, nodes, ends, np.array([line, line.reverse(), line], dtype=object))
    assert len(junctions(graph)) == 0


def test_one_of_two_junctions_is_found_with_two_false_ones():
    found = match_junctions(street(100, 200), street(103, 140, 250))
    assert shares(found) == pytest.approx((1 / 3, 1 / 2, 2 / 5))


@pytest.mark.parametrize(("place", "matched"), [(110, 1), (110.01, 0)])
def test_the_tolerance_of_10_m_itself_is_near(place, matched):
    assert len(match_junctions(street(100), street(place)).offsets_m) == matched


def test_the_offset_is_the_median_of_matched_junctions():
    assert match_junctions(street(50, 150, 250), street(51, 152, 259)).offset_m == 2


def test_a_junction_is_matched_once():
    assert shares(match_junctions(street(100), street(99, 102))) == pytest.approx((0.5, 1, 2 / 3))


def test_the_nearest_pairs_are_matched_first():
    assert match_junctions(street(100, 108), street(106)).offsets_m == (2,)


@pytest.mark.parametrize(
    ("reference", "predicted", "expected"),
    [(drawn(), drawn(), 1), (street(100), drawn(), 0), (drawn(), street(100), 0)],
)
def test_no_junctions_are_right_if_there_are_none(reference, predicted, expected):
    assert shares(match_junctions(reference, predicted)) == (expected, expected, expected)


def test_without_a_matched_junction_there_is_no_offset():
    assert match_junctions(street(100), street(200)).offset_m is None


def test_junctions_of_two_places_add_up():
    both = JunctionMatch(2, 3, (1.0,)) + JunctionMatch(1, 1, (2.0,))
    assert both == JunctionMatch(3, 4, (1.0, 2.0))


def test_a_tolerance_of_nothing_is_refused():
    with pytest.raises(ValueError, match="tolerance_m must be above 0, got 0"):
        match_junctions(street(100), street(100), tolerance_m=0)
