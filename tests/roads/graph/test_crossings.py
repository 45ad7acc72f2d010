"""Crossings: where roads cross or touch without a common vertex is counted, and can be joined."""

import numpy as np
import pytest

from roadseg.roads.graph.crossings import find_unjoined, join_crossings
from tests.drawing import drawn

STREET = [(0, 0), (100, 0)]


@pytest.mark.parametrize(
    ("other", "layer", "found"),
    [
        ([(50, -50), (50, 50)], 0, "1 crossing and 0 touching ends"),
        ([(50, -50), (50, 50)], 1, ""),  # a bridge
        ([(50, 0), (50, 50)], 0, "0 crossings and 1 touching end"),
        ([(50, 0.049), (50, 50)], 0, "0 crossings and 1 touching end"),
        ([(50, 0.051), (50, 50)], 0, ""),
        ([(100.002, 0), (100, 50)], 0, "0 crossings and 1 touching end"),
        ([(100, 0), (100, 50)], 0, ""),  # a common vertex
    ],
)
def test_crossings_and_touching_ends_without_a_vertex_are_counted_and_can_be_joined(
    other, layer, found
):
    graph = drawn(STREET, other, layer=np.array([0, layer]))
    assert str(find_unjoined(graph)).partition(" without")[0] == found
    joined = join_crossings(graph)
    assert np.any(joined.degree > 1) == (found != "" or np.any(graph.degree > 1))
    assert not str(find_unjoined(joined))


def test_streets_with_a_diagonal_between_crossings_become_one_grid():
    grid = [[(x, 0), (x, 180)] for x in (0, 90, 180)] + [[(0, y), (180, y)] for y in (0, 90, 180)]
    joined = join_crossings(drawn(*grid, [(0, 0), (90, 90)]))
    assert (len(joined.nodes), len(joined.lines)) == (9, 13)
