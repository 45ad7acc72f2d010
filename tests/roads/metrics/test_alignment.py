"""Distance and direction of drawn lines."""

import math

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.metrics.alignment import Alignment, align, match, samples

UTM = CRS.from_epsg(32611)
ROAD = [(0, 0), (300, 0)]


def lines(*roads):
    return np.array([shapely.LineString(road) for road in roads], dtype=object)


def aligned(reference, predicted):
    return align(graph_from_lines(lines(*reference), UTM), graph_from_lines(lines(*predicted), UTM))


def test_a_parallel_line_has_its_distance_and_no_turn():
    found = aligned([ROAD], [[(0, 2), (300, 2)]])
    assert (found.distance_m, found.direction_deg) == pytest.approx((2, 0))


def test_an_inclined_line_has_its_mean_distance_and_its_angle():
    found = aligned([ROAD], [[(0, 0), (300, 3)]])
    expected = 1.5, math.degrees(math.atan(0.01))
    assert (found.distance_m, found.direction_deg) == pytest.approx(expected, rel=1e-4)


def test_the_way_in_which_a_line_is_drawn_does_not_matter():
    assert aligned([ROAD], [[(300, 0), (0, 0)]]).direction_deg == pytest.approx(0)


def test_lines_count_by_their_length():
    found = aligned([ROAD], [[(0, 1), (200, 1)], [(200, -3), (300, -3)]])
    assert found.distance_m == pytest.approx((200 * 1 + 100 * 3) / 300)


def test_what_does_not_match_does_not_count():
    found = aligned([ROAD], [[(0, 1), (100, 1)], [(100, 50), (300, 50)]])
    assert (found.matched_m, found.distance_m) == pytest.approx((100, 1))


@pytest.mark.parametrize(("aside_m", "matched_m"), [(4, 300), (4.01, 0)])
def test_the_tolerance_itself_matches(aside_m, matched_m):
    found = aligned([ROAD], [[(0, aside_m), (300, aside_m)]])
    assert found.matched_m == pytest.approx(matched_m)


def test_a_line_does_not_match_the_road_that_it_crosses():
    across = [(150, -100), (150, 100)]
    assert aligned([ROAD, across], [across]).direction_deg == pytest.approx(0)


@pytest.mark.parametrize(("rise", "is_matched"), [(0.99, True), (1.01, False)])
def test_a_turn_of_less_than_45_degrees_matches(rise, is_matched):
    assert bool(aligned([ROAD], [[(0, 0), (3, 3 * rise)]]).matched_m) is is_matched


@pytest.mark.parametrize("sides", [([], []), ([ROAD], []), ([], [ROAD])])
def test_without_a_match_there_is_no_distance(sides):
    found = aligned(*sides)
    assert (found.distance_m, found.direction_deg) == (None, None)


def test_two_places_add_up():
    both = Alignment(10.0, 20.0, 30.0) + Alignment(30.0, 20.0, 10.0)
    assert (both.distance_m, both.direction_deg) == (1, 1)


def test_samples_lie_in_the_middles_of_equal_parts_of_each_line():
    places = samples(lines([(0, 0), (6, 0), (6, 6)], [(50, 0), (52, 0)]))
    assert places.xy.tolist() == [[2, 0], [6, 0], [6, 4], [51, 0]]


def test_samples_tell_the_direction_of_their_segment():
    places = samples(lines([(0, 0), (4, 0), (4, 3)]))
    assert places.direction.tolist() == [[1, 0], [0, 1]]


def test_every_line_near_a_sample_is_matched_at_its_nearest_place():
    places = samples(lines([(0, 0), (4, 0)]))
    found = match(places, lines([(0, 3), (4, 3)], [(-8, 1), (8, 1)]), tolerance_m=4)
    assert (found.line.tolist(), found.along_m.tolist()) == ([1, 0], [10, 2])


def test_more_samples_than_are_compared_at_once_are_matched():
    long = lines([(0, 0), (300_000, 0)])
    assert len(match(samples(long), long, tolerance_m=1).sample) == 60_000


def test_a_tolerance_of_nothing_is_refused():
    graph = graph_from_lines(lines(ROAD), UTM)
    with pytest.raises(ValueError, match="tolerance_m must be above 0, got 0"):
        align(graph, graph, tolerance_m=0)
