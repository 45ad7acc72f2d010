import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.graph.road_graph import (
    graph_from_lines,
    is_off_grid,
    node_lines,
    sample_points,
    take_edges,
    unique_pairs,
    with_vertices,
)
from tests.drawing import UTM, drawn, lines_of, vertices_of


def ends_fit(graph):
    first = shapely.get_coordinates(shapely.get_point(graph.lines, 0))
    last = shapely.get_coordinates(shapely.get_point(graph.lines, -1))
    return np.array_equal(np.stack([first, last], 1), graph.nodes[graph.ends].reshape(-1, 2, 2))


@pytest.mark.parametrize(
    ("lines", "lengths", "degrees"),
    [
        ([[(0, 0), (5, 0), (10, 0)], [(5, 0), (5, 7)]], [5, 5, 7], [1, 1, 1, 3]),
        ([[(0, 0), (10, 0)], [(5, -5), (5, 5)]], [10, 10], [1, 1, 1, 1]),
        ([[(0, 0), (5, 0)], [(5.0004, 0), (9, 0)]], [5, 4], [1, 1, 2]),
        ([[(0, 0), (5, 0)], [(5.001, 0), (9, 0)]], [5, 3.999], [1, 1, 1, 1]),
        ([[(0, 0), (4, 0), (4, 3), (0, 0)]], [12], [2]),
        ([[(0, 0), (4, 0), (0, 0)]], [4], [1, 1]),
        ([[(0, 0), (4, 0), (8, 0)], [(4, 0), (8, 0), (8, 5)]], [4, 4, 5], [1, 1, 2, 2]),
        ([[(0, 0), (8, 0)], [(0, 0), (4, 3), (8, 0)]], [8, 10], [2, 2]),
        ([[(0, 0), (0, 0)], [(0, 0), (0, 0), (3, 0), (3, 0)]], [3], [1, 1]),
    ],
    ids=[
        *("a shared vertex", "a crossing without a vertex", "half a millimetre apart"),
        *("a millimetre apart", "a closed line", "a line that turns back", "a shared piece"),
        *("parallel lines", "no length, and repeated vertices"),
    ],
)
def test_lines_join_where_they_share_a_vertex(lines, lengths, degrees):
    graph = drawn(*lines)
    assert graph.length_m.tolist() == pytest.approx(lengths)
    assert sorted(graph.degree) == degrees


def test_a_line_drawn_again_backwards_counts_once_and_in_one_piece():
    graph = drawn([(0, 0), (4, 0), (8, 1)], [(8, 1), (4, 0), (0, 0)], name=np.array(["a", "b"]))
    assert vertices_of(graph) == [[[0, 0], [4, 0], [8, 1]]]
    assert graph.attributes["name"].tolist() == ["a"]


def test_pieces_keep_the_attributes_of_their_line_and_share_its_travel_time():
    columns = {"speed_kph": np.array([30, 50]), "travel_time_s": np.array([8.0, 1.0])}
    graph = drawn([(0, 0), (1, 0), (4, 0)], [(1, 0), (1, 2)], **columns)
    assert graph.attributes["speed_kph"].tolist() == [30, 30, 50]
    assert graph.attributes["travel_time_s"].tolist() == [2, 6, 1]


def test_heights_are_dropped():
    graph = graph_from_lines(np.array([shapely.LineString([(0, 0, 5), (1, 0, 6)])]), UTM)
    assert not shapely.has_z(graph.lines).any()


@pytest.mark.parametrize(
    ("geometry", "told"),
    [
        (shapely.Point(1, 2), "consists of LineStrings"),
        (None, "consists of LineStrings"),
        (shapely.LineString([(0, 0), (np.inf, 1)]), "not finite"),
    ],
)
def test_other_geometries_are_refused(geometry, told):
    with pytest.raises(ValueError, match=told):
        graph_from_lines(np.array([geometry], dtype=object), UTM)


def test_an_attribute_of_another_length_is_refused():
    with pytest.raises(ValueError, match="speed_kph has 2 values for 1 lines"):
        drawn([(0, 0), (1, 1)], speed_kph=np.zeros(2))


corners = st.tuples(st.integers(0, 4), st.integers(0, 4))
walks = st.lists(st.lists(corners, min_size=2, max_size=8), min_size=1, max_size=6)


@given(walks)
def test_the_union_of_the_edges_is_the_union_of_the_lines(lines):
    graph = drawn(*lines)
    whole = shapely.union_all([shapely.LineString(line) for line in lines])
    assert shapely.union_all(graph.lines).symmetric_difference(whole).length < 1e-9
    assert ends_fit(graph)


@given(walks)
def test_no_inner_vertex_of_an_edge_lies_on_another_or_is_a_node(lines):
    graph = drawn(*lines)
    inner = [tuple(xy) for line in vertices_of(graph) for xy in line[1:-1]]
    assert len(set(inner)) == len(inner)
    assert not set(inner) & set(map(tuple, graph.nodes.tolist()))


def test_taken_edges_bring_their_nodes_and_attributes_only():
    graph = drawn([(0, 0), (1, 0)], [(5, 5), (6, 5)], lanes=np.array([1, 2]))
    taken = take_edges(graph, np.array([False, True]))
    assert (taken.nodes.tolist(), taken.ends.tolist()) == ([[5, 5], [6, 5]], [[0, 1]])
    assert taken.attributes["lanes"].tolist() == [2]


GRAPH = drawn([(0, 0), (10, 0)], [(10, 0), (20, 0)], [(20, 0), (20, 9)], [(0, 0), (0, 9)])


def with_a_line(changes):
    """Add a line from the middle of the first edge to the end of the last one."""
    changed = with_vertices(GRAPH.lines, np.array([0]), np.array([[4.0, 0.0]]))
    every = np.concatenate([changed, lines_of([(4, 0), (4, 9), (0, 9)])])
    columns = {"number": np.arange(5)}
    return node_lines(GRAPH, every, columns, np.array([*changes, True]))


@pytest.mark.parametrize("changes", [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
def test_what_has_not_changed_may_be_joined_anew_or_not(changes):
    graph = with_a_line(np.array(changes, dtype=bool))
    assert graph.attributes["number"].tolist() == [0, 0, 1, 2, 3, 4]
    assert graph.length_m.tolist() == [4, 6, 10, 9, 9, 13]
    assert sorted(graph.degree) == [1, 2, 2, 2, 2, 3]
    at = shapely.get_coordinates(shapely.get_point(graph.lines, 0))
    assert np.array_equal(at, graph.nodes[graph.ends[:, 0]])


def test_a_vertex_is_put_where_it_lies_along_its_line():
    bent = lines_of([(0, 0), (4, 0), (4, 4)], [(9, 9), (8, 8)])
    changed = with_vertices(bent, np.array([0, 0]), np.array([[4.0, 1.0], [2.0, 0.0]]))
    assert shapely.get_coordinates(changed[0]).tolist() == [[0, 0], [2, 0], [4, 0], [4, 1], [4, 4]]
    assert changed[1] is bent[1]


def test_coordinates_of_whole_millimetres_are_on_the_grid():
    lines = lines_of([(500000.123, 4000000.001), (1, 1)], [(0.0004, 0), (1, 1)])
    assert is_off_grid(lines).tolist() == [False, True]


def test_pairs_are_numbered_by_their_first_and_then_by_their_second():
    first, number = unique_pairs(np.array([[2.0, 1.0], [-0.0, 5.0], [2.0, -1.0], [0.0, 5.0]]))
    assert number.tolist() == [2, 0, 1, 0]
    assert first.tolist() == [1, 2, 0]


def test_samples_lie_in_the_middle_of_equal_parts_of_the_whole_line():
    xy, edge = sample_points(drawn([(0, 0), (4, 0), (4, 4)]).lines, spacing_m=2)
    assert xy.tolist() == [[1, 0], [3, 0], [4, 1], [4, 3]]
    assert edge.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(("length", "count"), [(6, 2), (6.1, 3)])
def test_parts_are_no_longer_than_the_spacing(length, count):
    assert len(sample_points(drawn([(0, 0), (length, 0)]).lines, spacing_m=3)[0]) == count


def test_a_short_edge_still_has_a_sample():
    xy, edge = sample_points(drawn([(0, 0), (1, 0)], [(1, 0), (1, 8)]).lines, spacing_m=8)
    assert (xy.tolist(), edge.tolist()) == ([[0.5, 0], [1, 4]], [0, 1])


def test_a_column_that_a_graph_lacks_has_one_value_for_all_edges():
    graph = drawn([(0, 0), (9, 0)], lanes=[2])
    assert graph.column("lanes", 0.0).tolist() == [2]
    assert graph.column("name", None).tolist() == [None]
