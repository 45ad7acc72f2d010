import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.nodes import contract_edges, merge_near_junctions
from roadseg.roads.graph.road_graph import graph_from_lines

UTM = CRS.from_epsg(32611)


def graph_of(*lines):
    return graph_from_lines(np.array([shapely.LineString(line) for line in lines]), UTM)


def split_crossing(apart=4.0):
    """Two roads that cross, drawn as two junctions."""
    return graph_of(
        [(-50, 0), (0, 0)],
        [(0, 40), (0, 0)],
        [(0, 0), (apart, 0)],
        [(apart, 0), (apart, -40)],
        [(apart, 0), (50, 0)],
    )


@pytest.mark.parametrize(("within_m", "degrees"), [(4, [1, 1, 1, 1, 3, 3]), (4.1, [1, 1, 1, 1, 4])])
def test_junctions_nearer_than_the_limit_become_one(within_m, degrees):
    assert sorted(merge_near_junctions(split_crossing(), within_m=within_m).degree) == degrees


def test_the_junction_lies_in_the_middle_and_lines_reach_it():
    graph = merge_near_junctions(split_crossing(), within_m=10)
    node = graph.nodes[graph.degree == 4][0]
    assert node.tolist() == [2, 0]
    assert np.allclose(shapely.distance(graph.lines, shapely.Point(node)), 0)


def test_lines_do_not_turn_back_at_the_new_junction():
    graph = graph_of(
        [(-50, 0), (-1, 0), (0, 0)],
        [(0, 40), (0, 1), (0, 0)],
        [(0, 0), (4, 0)],
        [(4, 0), (4, -40)],
        [(4, 0), (3.5, 0), (50, 0)],
    )
    merged = merge_near_junctions(graph, within_m=10)
    assert merged.length_m.max() < 52.1


def test_dead_ends_and_loops_stay():
    loop = [(0, 0), (1, 0), (1, 1), (0, 0)]
    graph = graph_of([(0, 0), (2, 0)], [(0, 0), (0, 30)], [(0, 0), (-30, 0)], loop)
    merged = merge_near_junctions(graph, within_m=10)
    assert len(merged.lines) == 4


def test_three_junctions_in_a_row_become_one():
    chain = [(0, 0), (3, 0)], [(3, 0), (6, 0)]
    arms = [[(x, 0), (x, y)] for x, y in ((0, 30), (0, -30), (3, 30), (6, 30), (6, -30))]
    merged = merge_near_junctions(graph_of(*chain, *arms), within_m=4)
    assert merged.degree.max() == 5
    assert len(merged.lines) == 5


def test_an_edge_beside_a_contracted_one_becomes_a_loop():
    graph = graph_of([(0, 0), (4, 0)], [(0, 0), (2, 9), (4, 0)])
    merged = contract_edges(graph, np.array([True, False]))
    assert merged.ends.tolist() == [[0, 0]]
    assert shapely.is_closed(merged.lines[0])


def test_attributes_stay_with_their_edges():
    lines = split_crossing().lines
    graph = graph_from_lines(lines, UTM, {"speed_kph": np.arange(5.0)})
    short = graph.length_m < 5
    left = graph.attributes["speed_kph"][~short]
    assert contract_edges(graph, short).attributes["speed_kph"].tolist() == left.tolist()
