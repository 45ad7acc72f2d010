"""Looks go first where doubt is long and much is reached through it."""

import numpy as np
import pytest
import shapely

from roadseg.review.order import carried_share, worth_of_looks
from roadseg.roads.graph.road_graph import RoadGraph
from tests.drawing import UTM, drawn


@pytest.fixture
def two_squares():
    """Draw two squares of 100 m, which a road of 100 m joins: rows 0 to 3, 4, and 5 to 8."""
    square = [(0, 0), (100, 0), (100, 100), (0, 100), (0, 0)]
    sides = [np.array(square[at : at + 2]) for at in range(4)]
    return drawn(*sides, [(100, 0), (200, 0)], *(np.add(side, (200, 0)) for side in sides))


def test_of_two_that_are_as_doubtful_the_longer_comes_first():
    graph = drawn([(0, 0), (50, 0)], [(0, 90), (60, 90)])
    assert np.argmax(worth_of_looks(graph, np.array([0.5, 0.5]))) == 1


def test_of_two_that_are_as_long_the_more_doubtful_comes_first():
    graph = drawn([(0, 0), (50, 0)], [(0, 90), (50, 90)])
    assert np.argmax(worth_of_looks(graph, np.array([0.8, 0.6]))) == 1


def test_a_road_that_joins_two_parts_comes_first(two_squares):
    assert np.argmax(worth_of_looks(two_squares, np.full(9, 0.5))) == 4


def test_half_of_the_roads_are_reached_through_a_road_between_two_halves(two_squares):
    shares = carried_share(two_squares)
    assert shares[4] == pytest.approx(0.5, abs=0.06)
    assert shares[4] > 1.4 * np.delete(shares, 4).max()


def test_little_is_reached_through_a_dead_end():
    graph = drawn([(0, 0), (500, 0)], [(500, 0), (1000, 0)], [(500, 0), (500, 50)])
    shares = carried_share(graph)
    assert shares[2] < 0.05 < min(shares[:2])


def test_of_parallel_roads_the_shorter_carries():
    graph = drawn(
        *([(0, 0), (100, 0)], [(0, 0), (50, 60), (100, 0)], [(100, 0), (300, 0)]),
        [(-200, 0), (0, 0)],
    )
    shares = carried_share(graph)
    assert shares[1] == 0 < shares[0]


def test_a_sure_road_is_worth_nothing():
    graph = drawn([(0, 0), (50, 0)])
    assert worth_of_looks(graph, np.array([1.0])).tolist() == [0]


def test_an_unknown_probability_is_even_odds():
    graph = drawn([(0, 0), (50, 0)])
    unknown, even = (worth_of_looks(graph, np.array([each])) for each in (np.nan, 0.5))
    assert unknown == even


def test_no_roads_have_no_worth():
    nothing = RoadGraph(
        UTM, np.zeros((0, 2)), np.zeros((0, 2), dtype=int), np.zeros(0, dtype=object)
    )
    assert worth_of_looks(nothing, np.zeros(0)).tolist() == []


def test_shares_do_not_depend_on_the_direction_of_lines(two_squares):
    lines = shapely.reverse(two_squares.lines)
    turned = RoadGraph(UTM, two_squares.nodes, two_squares.ends[:, ::-1], lines)
    assert np.allclose(carried_share(turned), carried_share(two_squares))
