"""Ways between places on roads: found as networkx finds them, drawn as they are driven."""

import networkx as nx
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from roadseg.roads.graph.routing import add_node, route_line, shortest_path
from tests.drawing import drawn

STREET, APART = [(0, 0), (100, 0)], [(0, 50), (100, 50)]
AROUND = [(100, 0), (100, 30), (0, 30), (0, 0)]


def way_between(graph, start, goal, weight="length_m"):
    graph, first, _ = add_node(graph, np.array(start, dtype=float))
    graph, last, _ = add_node(graph, np.array(goal, dtype=float))
    return shortest_path(graph, first, last, weight=weight)


def points(way):
    return shapely.get_coordinates(route_line(way)).tolist()


def test_a_place_beside_an_edge_splits_it_with_its_time():
    columns = {"travel_time_s": np.array([10.0, 9.0]), "speed_kph": np.array([36.0, 40.0])}
    graph, node, away_m = add_node(drawn(STREET, APART, **columns), np.array([30.0, 4.0]))
    assert (graph.nodes[node].tolist(), away_m) == ([30, 0], 4)
    assert sorted(graph.length_m) == [30, 70, 100]
    assert sorted(graph.attributes["travel_time_s"]) == pytest.approx([3, 7, 9])
    assert sorted(graph.attributes["speed_kph"]) == [36, 36, 40]


@pytest.mark.parametrize(("x", "edges"), [(0.0009, 1), (0.0011, 2), (99.9991, 1), (-5, 1)])
def test_a_place_at_the_end_of_an_edge_is_its_node(x, edges):
    graph, node, _ = add_node(drawn(STREET), np.array([x, 0]))
    assert len(graph.lines) == edges
    assert graph.nodes[node, 0] == pytest.approx(np.clip(x, 0, 100), abs=0.001)


def test_a_way_on_one_edge_is_that_part_of_it_in_either_direction():
    assert points(way_between(drawn(STREET), (20, 1), (70, -1))) == [[20, 0], [70, 0]]
    assert points(way_between(drawn(STREET), (70, 1), (20, -1))) == [[70, 0], [20, 0]]


def test_a_way_may_leave_its_edge_and_come_back():
    """From one end of a detour of 160 m to near its other end there is a street of 100 m."""
    way = way_between(drawn(AROUND, STREET), (100, 0), (0, 10))
    assert points(way) == [[100, 0], [0, 0], [0, 10]]


def test_a_way_to_where_one_is_has_no_edges():
    way = way_between(drawn(STREET), (20, 1), (20, 9))
    assert (len(way.lines), points(way)) == (0, [[20, 0], [20, 0]])


def test_there_is_no_way_between_roads_apart():
    assert way_between(drawn(STREET, APART), (50, 0), (50, 50)) is None


def test_times_that_are_not_known_are_refused():
    with pytest.raises(ValueError, match="the edges have no travel_time_s"):
        way_between(drawn(STREET), (0, 0), (50, 0), "travel_time_s")


@st.composite
def towns(draw):
    """Draw streets between the points of a grid, some twice or one-way, with their own times."""
    corner = st.tuples(st.integers(0, 4), st.integers(0, 4))
    pairs = draw(st.lists(st.tuples(corner, corner), min_size=1, max_size=25))
    roads = [[(100 * x, 100 * y) for x, y in pair] for pair in pairs if pair[0] != pair[1]]
    roads.append([(0, 0), (50, 20), (100, 0)])
    each = {"min_size": len(roads), "max_size": len(roads)}
    seconds = np.array(draw(st.lists(st.integers(1, 40), **each)), dtype=float)
    one_way = np.array(draw(st.lists(st.integers(-1, 1), **each)))
    return drawn(*roads, travel_time_s=seconds, oneway=one_way)


@settings(max_examples=50)
@given(towns(), st.data())
def test_ways_are_as_fast_as_those_of_networkx_and_all_of_one_piece(graph, data):
    start, goal = (data.draw(st.integers(0, len(graph.nodes) - 1)) for _ in range(2))
    network = nx.MultiDiGraph()
    network.add_nodes_from(range(len(graph.nodes)))
    columns = (graph.attributes[name].tolist() for name in ("travel_time_s", "oneway"))
    for (u, v), seconds, way in zip(graph.ends.tolist(), *columns, strict=True):
        network.add_edges_from([(u, v)] if way >= 0 else [], seconds=seconds)
        network.add_edges_from([(v, u)] if way <= 0 else [], seconds=seconds)
    way = shortest_path(graph, start, goal, weight="travel_time_s")
    assert (way is not None) == nx.has_path(network, start, goal)
    if way is not None:
        expected = nx.shortest_path_length(network, start, goal, weight="seconds")
        assert way.attributes["travel_time_s"].sum() == pytest.approx(expected)
        assert route_line(way).length == pytest.approx(way.length_m.sum())
        assert way.nodes[[0, -1]].tolist() == graph.nodes[[start, goal]].tolist()


@pytest.mark.parametrize(("one_way", "there", "back"), [(0, 60, 60), (1, 60, 200), (-1, 200, 60)])
def test_a_one_way_street_is_driven_in_its_direction_only(one_way, there, back):
    graph = drawn(STREET, AROUND, oneway=np.array([one_way, 0]))
    assert way_between(graph, (20, 0), (80, 0)).length_m.sum() == pytest.approx(there)
    assert way_between(graph, (80, 0), (20, 0)).length_m.sum() == pytest.approx(back)


def test_a_street_that_is_driven_backwards_is_one_way_along_the_way():
    way = way_between(drawn(STREET, oneway=np.array([-1])), (80, 0), (20, 0))
    assert way.attributes["oneway"].tolist() == [1]
