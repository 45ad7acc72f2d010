"""Control points stand where they should, and are found where they should be."""

import numpy as np
import pytest
import shapely

from roadseg.roads.graph.shortest_paths import place_control_points, snap_to_edges
from tests.drawing import drawn


@pytest.mark.parametrize(
    ("length", "inner"),
    [(37.49, []), (37.5, [18.75]), (50, [25]), (99, [49.5]), (100, [50]), (102, [34, 68])],
)
def test_points_on_an_edge_are_even(length, inner):
    _, xy = place_control_points(drawn([(0, 0), (length, 0)]), spacing_m=50)
    assert xy[:, 0] == pytest.approx([0, *inner, length])


def test_a_point_names_its_edge_and_how_far_along_it_is():
    graph = drawn([(0, 0), (40, 0)], [(80, 0), (40, 0)], [(40, 0), (40, 9)])
    points, xy = place_control_points(graph, spacing_m=50)
    lines = graph.lines[points.edge]
    there = shapely.line_interpolate_point(lines, points.fraction, normalized=True)
    assert shapely.get_coordinates(there) == pytest.approx(xy)


def test_a_node_where_edges_meet_is_one_point():
    points, _ = place_control_points(
        drawn([(0, 0), (9, 0)], [(9, 0), (9, 9)], [(9, 0), (20, 0)]), spacing_m=50
    )
    assert len(points) == 4


@pytest.mark.parametrize(("away", "is_found"), [(3.999, True), (4.0, True), (4.001, False)])
def test_an_edge_is_found_up_to_and_including_the_distance(away, is_found):
    _, found = snap_to_edges(np.array([[5.0, away]]), drawn([(0, 0), (10, 0)]), snap_m=4)
    assert found.tolist() == [is_found]


def test_of_edges_equally_near_the_first_is_found():
    points, _ = snap_to_edges(
        np.array([[5.0, 0]]), drawn([(0, 3), (10, 3)], [(0, -3), (10, -3)]), snap_m=4
    )
    assert points.edge.tolist() == [0]
