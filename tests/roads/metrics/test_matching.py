"""Lines that show the same road, place by place."""

import numpy as np
import pytest

from roadseg.roads.metrics.matching import match, samples
from tests.drawing import lines_of

ROAD = [(0, 0), (300, 0)]


def matched(reference, predicted):
    """Match places on predicted lines_of with lines_of of the reference, within 4 m."""
    return match(samples(lines_of(*predicted)), lines_of(*reference), tolerance_m=4)


def test_a_parallel_line_has_its_distance_and_no_turn():
    found = matched([ROAD], [[(0, 2), (300, 2)]])
    assert found.distance_m == pytest.approx(np.full(60, 2))
    assert found.turned_deg == pytest.approx(np.zeros(60))


def test_an_inclined_line_has_its_angle():
    found = matched([ROAD], [[(0, 0), (300, 3)]])
    assert found.turned_deg == pytest.approx(np.full(61, np.degrees(np.arctan(0.01))))


def test_the_way_in_which_a_line_is_drawn_does_not_matter():
    assert matched([ROAD], [[(300, 0), (0, 0)]]).turned_deg == pytest.approx(np.zeros(60))


@pytest.mark.parametrize(("aside_m", "places"), [(4, 60), (4.01, 0)])
def test_the_tolerance_itself_matches(aside_m, places):
    assert len(matched([ROAD], [[(0, aside_m), (300, aside_m)]]).sample) == places


def test_a_line_does_not_match_the_road_that_it_crosses():
    across = [(150, -100), (150, 100)]
    assert set(matched([ROAD, across], [across]).line) == {1}


@pytest.mark.parametrize(("rise", "is_matched"), [(0.99, True), (1.01, False)])
def test_a_turn_of_less_than_45_degrees_matches(rise, is_matched):
    assert bool(len(matched([ROAD], [[(0, 0), (3, 3 * rise)]]).sample)) is is_matched


@pytest.mark.parametrize("sides", [([], []), ([ROAD], []), ([], [ROAD])])
def test_without_lines_there_is_no_match(sides):
    assert len(matched(*sides).sample) == 0


def test_samples_lie_in_the_middles_of_equal_parts_of_each_line():
    places = samples(lines_of([(0, 0), (6, 0), (6, 6)], [(50, 0), (52, 0)]))
    assert places.xy.tolist() == [[2, 0], [6, 0], [6, 4], [51, 0]]


def test_samples_tell_the_direction_of_their_segment():
    places = samples(lines_of([(0, 0), (4, 0), (4, 3)]))
    assert places.direction.tolist() == [[1, 0], [0, 1]]


def test_every_line_near_a_sample_is_matched_at_its_nearest_place():
    places = samples(lines_of([(0, 0), (4, 0)]))
    found = match(places, lines_of([(0, 3), (4, 3)], [(-8, 1), (8, 1)]), tolerance_m=4)
    assert (found.line.tolist(), found.along_m.tolist()) == ([1, 0], [10, 2])


def test_more_samples_than_are_compared_at_once_are_matched():
    long = lines_of([(0, 0), (300_000, 0)])
    assert len(match(samples(long), long, tolerance_m=1).sample) == 60_000
