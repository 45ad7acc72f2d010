import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.graph.clipping import clip_graph
from tests.drawing import drawn, vertices_of

SQUARE = shapely.box(0, 0, 10, 10)


def test_an_edge_is_cut_where_it_leaves():
    clipped = clip_graph(drawn([(5, 5), (7, 5), (15, 5)]), SQUARE)
    assert vertices_of(clipped) == [[[5, 5], [7, 5], [10, 5]]]
    assert clipped.nodes.tolist() == [[5, 5], [10, 5]]


def test_an_edge_that_leaves_and_comes_back_is_two():
    clipped = clip_graph(drawn([(5, 2), (15, 2), (15, 8), (5, 8)]), SQUARE)
    assert vertices_of(clipped) == [[[5, 2], [10, 2]], [[10, 8], [5, 8]]]


def test_edges_inside_stay_and_edges_outside_go():
    graph = drawn([(1, 1), (2, 1)], [(11, 1), (12, 1)], [(2, 1), (2, 5)])
    assert vertices_of(clip_graph(graph, SQUARE)) == [[[1, 1], [2, 1]], [[2, 1], [2, 5]]]


def test_edges_stay_in_order():
    clipped = clip_graph(drawn([(5, 5), (15, 5)], [(1, 1), (2, 1)], [(0, 3), (0, 20)]), SQUARE)
    assert clipped.length_m.tolist() == [5, 1, 7]


def test_a_junction_inside_still_joins_its_cut_arms():
    clipped = clip_graph(drawn([(5, 5), (15, 5)], [(5, 5), (-5, 5)], [(5, 5), (5, 6)]), SQUARE)
    assert sorted(clipped.degree) == [1, 1, 1, 3]


def test_an_edge_that_crosses_itself_is_not_cut_at_the_crossing():
    clipped = clip_graph(drawn([(1, 5), (9, 5), (9, 8), (5, 8), (5, -5)]), SQUARE)
    assert vertices_of(clipped) == [[[1, 5], [9, 5], [9, 8], [5, 8], [5, 0]]]


def test_two_roads_cut_at_one_place_without_a_junction_stay_unconnected():
    clipped = clip_graph(drawn([(8, 3), (12, 7)], [(8, 7), (12, 3)]), SQUARE)
    assert clipped.degree.tolist() == [1, 1, 1, 1]


def test_an_edge_that_only_touches_the_boundary_from_outside_goes():
    assert len(clip_graph(drawn([(12, 3), (10, 5), (12, 7)]), SQUARE).lines) == 0


def test_an_edge_that_touches_the_boundary_from_inside_is_not_cut():
    assert len(clip_graph(drawn([(8, 3), (10, 5), (8, 7), (8, 15)]), SQUARE).lines) == 1


def test_an_edge_on_the_boundary_is_inside():
    assert clip_graph(drawn([(10, -5), (10, 15)]), SQUARE).length_m.tolist() == [10]


def test_a_loop_that_leaves_keeps_its_node_inside():
    clipped = clip_graph(drawn([(5, 5), (15, 4), (15, 6), (5, 5)]), SQUARE)
    assert sorted(clipped.degree) == [1, 1, 2]


def test_a_hole_in_the_polygon_is_outside():
    ring = SQUARE.difference(shapely.box(4, 4, 6, 6))
    assert clip_graph(drawn([(0, 5), (10, 5)]), ring).length_m.tolist() == [4, 4]


def test_pieces_keep_attributes_and_share_the_travel_time():
    graph = drawn([(5, 5), (15, 5)], speed_kph=np.array([30.0]), travel_time_s=np.array([1.2]))
    clipped = clip_graph(graph, SQUARE)
    assert clipped.attributes["speed_kph"].tolist() == [30]
    assert clipped.attributes["travel_time_s"].tolist() == pytest.approx([0.6])


def test_an_empty_graph_stays_empty():
    assert len(clip_graph(drawn(), SQUARE).nodes) == 0


def test_a_polygon_that_crosses_itself_is_refused():
    bow = shapely.Polygon([(0, 0), (10, 10), (10, 0), (0, 10)])
    with pytest.raises(ValueError, match="cannot clip to an invalid polygon"):
        clip_graph(drawn([(0, 0), (1, 1)]), bow)


places = st.tuples(st.floats(-5, 15), st.floats(-5, 15))
walks = st.lists(st.lists(places, min_size=2, max_size=8), min_size=1, max_size=4)


@given(walks)
def test_a_graph_cut_along_a_line_keeps_every_metre(lines):
    graph = drawn(*lines)
    west, east = shapely.box(-9, -9, 3.123, 19), shapely.box(3.123, -9, 19, 19)
    total = sum(clip_graph(graph, half).length_m.sum() for half in (west, east))
    assert total == pytest.approx(graph.length_m.sum(), abs=1e-4)


@given(walks)
def test_clipped_edges_lie_inside_and_end_at_their_nodes(lines):
    clipped = clip_graph(drawn(*lines), SQUARE)
    assert (shapely.distance(clipped.lines, SQUARE) < 1e-9).all()
    assert shapely.covers(SQUARE.buffer(1e-6), clipped.lines).all()
    ends = [[line[0], line[-1]] for line in vertices_of(clipped)]
    assert clipped.nodes[clipped.ends].tolist() == ends
