import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.graph.clipping import clip_graph
from tests.drawing import drawn, vertices_of

SQUARE = shapely.box(0, 0, 10, 10)


@pytest.mark.parametrize(
    ("roads", "clipped"),
    [
        ([[(5, 5), (7, 5), (15, 5)]], [[[5, 5], [7, 5], [10, 5]]]),
        ([[(5, 2), (15, 2), (15, 8), (5, 8)]], [[[5, 2], [10, 2]], [[10, 8], [5, 8]]]),
        ([[(1, 1), (2, 1)], [(11, 1), (12, 1)]], [[[1, 1], [2, 1]]]),
        ([[(5, 5), (15, 5)], [(1, 1), (2, 1)]], [[[5, 5], [10, 5]], [[1, 1], [2, 1]]]),
        ([[(1, 5), (9, 5), (9, 8), (5, 8), (5, -5)]], [[[1, 5], [9, 5], [9, 8], [5, 8], [5, 0]]]),
        ([[(12, 3), (10, 5), (12, 7)]], []),
        ([[(8, 3), (10, 5), (8, 7), (8, 15)]], [[[8, 3], [10, 5], [8, 7], [8, 10]]]),
        ([[(10, -5), (10, 15)]], [[[10, 0], [10, 10]]]),
        ([], []),
    ],
    ids=[
        *("cut where it leaves", "two where it comes back", "one outside goes", "in order"),
        *("not cut where it crosses itself", "one that touches from outside goes"),
        *("not cut where it touches from inside", "the boundary is inside", "none stay none"),
    ],
)
def test_edges_are_cut_at_the_boundary(roads, clipped):
    assert vertices_of(clip_graph(drawn(*roads), SQUARE)) == clipped


@pytest.mark.parametrize(
    ("roads", "degrees"),
    [
        ([[(5, 5), (15, 5)], [(5, 5), (-5, 5)], [(5, 5), (5, 6)]], [1, 1, 1, 3]),
        ([[(8, 3), (12, 7)], [(8, 7), (12, 3)]], [1, 1, 1, 1]),
        ([[(5, 5), (15, 4), (15, 6), (5, 5)]], [1, 1, 2]),
    ],
    ids=["a junction inside", "two cut at one place without a junction", "a loop that leaves"],
)
def test_cut_roads_are_joined_where_they_were_joined_inside(roads, degrees):
    assert sorted(clip_graph(drawn(*roads), SQUARE).degree) == degrees


def test_pieces_keep_attributes_and_share_the_travel_time():
    graph = drawn([(5, 5), (15, 5)], speed_kph=np.array([30.0]), travel_time_s=np.array([1.2]))
    clipped = clip_graph(graph, SQUARE)
    assert clipped.attributes["speed_kph"].tolist() == [30]
    assert clipped.attributes["travel_time_s"].tolist() == pytest.approx([0.6])


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
