"""Different drawings of the same roads become the same graph."""

import time

import numpy as np
import pytest
import shapely

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.canonical import canonical_graph
from tests.drawing import UTM, drawn

SQUARE = [(0, 0), (30, 0), (30, 30), (0, 30), (0, 0)]


def texts(graph):
    return [line.wkt for line in shapely.normalize(graph.lines)]


def test_a_road_in_pieces_is_one_edge_whatever_its_attributes():
    pieces = drawn([(0, 0), (9, 0)], [(9, 0), (9, 9)], speed_kph=[30, 50], travel_time_s=[1, 2])
    road = canonical_graph(pieces)
    assert texts(road) == ["LINESTRING (0 0, 9 0, 9 9)"]
    assert {name: list(column) for name, column in road.attributes.items()} == {
        "travel_time_s": [3]
    }


def test_the_order_and_direction_of_edges_leave_no_trace():
    roads = [[(0, 0), (9, 0)], [(9, 0), (9, 9)], [(9, 0), (20, 0)], [(0, 9), (5, 5)]]
    anew = [road[::-1] for road in roads[::-1]]
    assert texts(canonical_graph(drawn(*roads))) == texts(canonical_graph(drawn(*anew)))


@pytest.mark.parametrize("seconds", [[5, 3], [3, 5]])
def test_of_equal_edges_the_fastest_stays(seconds):
    line = shapely.LineString([(0, 0), (9, 0)])
    lines = np.array([line, line.reverse()], dtype=object)
    nodes, ends = np.array([[0.0, 0], [9, 0]]), np.array([[0, 1], [1, 0]])
    twice = RoadGraph(UTM, nodes, ends, lines, {"travel_time_s": np.array(seconds)})
    assert canonical_graph(twice).attributes["travel_time_s"].tolist() == [3]


def test_parallel_roads_of_different_shape_stay():
    ends = [(-9, 0), (0, 0)], [(9, 0), (20, 0)]
    both = drawn([(0, 0), (9, 0)], [(0, 0), (4, 4), (9, 0)], *ends)
    assert len(canonical_graph(both).lines) == 4


def test_a_ring_by_itself_is_cut_at_its_corners_and_its_seconds_divided():
    for ring in (SQUARE, [(12, 0), *SQUARE[1:], (12, 0)]):
        sides = canonical_graph(drawn(ring, travel_time_s=[12]))
        assert len(sides.nodes) == 4
        assert sides.attributes["travel_time_s"].tolist() == [3, 3, 3, 3]


def test_many_rings_by_themselves_are_cut_in_a_moment():
    places = np.array([(x, y) for x in range(0, 5000, 50) for y in range(0, 5000, 50)])
    rings = drawn(*(np.array(SQUARE) + place for place in places), travel_time_s=[4] * len(places))
    began = time.process_time()
    sides = canonical_graph(rings)
    assert time.process_time() - began < 4  # Some 8 s if all edges are copied for each.
    assert (sides.length_m == 30).all()
    assert (sides.attributes["travel_time_s"] == 1).all()
    assert len(sides.lines) == len(sides.nodes) == 4 * len(places)


@pytest.mark.parametrize(("off", "sides"), [(0.001, 4), (0.003, 5)])
def test_a_corner_is_off_the_straight_line_by_more_than_rounding(off, sides):
    ring = [(0, 0), (15, -off), *SQUARE[1:]]
    assert len(canonical_graph(drawn(ring)).lines) == sides


def test_a_loop_on_a_junction_stays_a_loop():
    loop = canonical_graph(drawn(SQUARE, [(0, 0), (-9, 0)]))
    assert sorted((loop.ends[:, 0] == loop.ends[:, 1]).tolist()) == [False, True]


def test_a_graph_without_edges_is_left_alone():
    assert len(canonical_graph(drawn()).lines) == 0
