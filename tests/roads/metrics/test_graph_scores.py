"""What holds for TOPO of any road graph against another, and of the vertices that it walks on."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.marbles import networks
from roadseg.roads.metrics.topo import topo
from tests.drawing import UTM, edges_of, street_pieces


@st.composite
def street_grids(draw):
    """Some streets of a 3 x 3 grid of blocks, bowed ones among them, none crossing."""
    _, pieces = street_pieces((50, 120, 240), (60, 120, 210))
    return edges_of(*draw(st.lists(st.sampled_from(pieces), min_size=1, unique_by=str)))


@given(street_grids(), street_grids(), st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_the_order_of_nodes_changes_nothing(reference, predicted, random):
    order = np.array(random.sample(range(len(predicted.nodes)), len(predicted.nodes)))
    ends = np.argsort(order)[predicted.ends]
    other = RoadGraph(UTM, predicted.nodes[order], ends, predicted.lines)
    assert topo(reference, other) == topo(reference, predicted)


@given(street_grids(), street_grids())
@settings(max_examples=15)
def test_splitting_edges_at_their_vertices_changes_nothing(reference, predicted):
    vertices = [line.coords for line in predicted.lines]
    pieces = [piece for xy in vertices for piece in pairwise(xy)]
    assert topo(reference, edges_of(*pieces)) == topo(reference, predicted)


def test_vertices_are_numbered_as_the_lines_meet_them():
    network, _ = networks(edges_of([(0, 0), (9, 0)], [(5, 3), (9, 0), (0, 0)]), edges_of())
    assert [list(near) for near in network.around] == [[1], [0, 2], [1]]
    assert [round((41 - lat) * 111111, 6) for lat, _ in network.places] == [3, 3, 0]


@pytest.mark.parametrize(("beyond", "vertices"), [(0.0004, 2), (0.0006, 3)])
def test_vertices_that_agree_to_1_mm_are_one(beyond, vertices):
    network, _ = networks(edges_of([(0, 0), (9, 0), (9 + beyond, 0)]), edges_of())
    assert len(network.places) == vertices


def test_a_coordinate_that_is_not_finite_is_turned_down():
    with pytest.raises(ValueError, match="a line has a coordinate that is not finite"):
        networks(edges_of([(0, 0), (np.inf, 1)]), edges_of())
