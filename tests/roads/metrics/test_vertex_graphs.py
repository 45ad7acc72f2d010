"""Vertices are numbered as the lines of a graph meet them."""

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.vertex_graphs import vertex_graphs

UTM = CRS.from_epsg(32611)


def drawn(*roads):
    """Draw a graph: one edge a road, a node at each different end."""
    ends = np.array([point for road in roads for point in (road[0], road[-1])], dtype=float)
    nodes, rows = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    lines = np.array([shapely.LineString(road) for road in roads], dtype=object)
    return RoadGraph(UTM, nodes, rows.reshape(-1, 2), lines)


def test_vertices_are_numbered_as_the_lines_meet_them():
    graph, _ = vertex_graphs(drawn([(0, 0), (9, 0)], [(5, 3), (9, 0), (0, 0)]), drawn())
    assert graph.pairs.tolist() == [[0, 1], [1, 2]]
    assert np.round((41 - graph.lat) * 111111, 6).tolist() == [3, 3, 0]


@pytest.mark.parametrize(("beyond", "vertices"), [(0.0004, 2), (0.0006, 3)])
def test_vertices_that_agree_to_1_mm_are_one(beyond, vertices):
    graph, _ = vertex_graphs(drawn([(0, 0), (9, 0), (9 + beyond, 0)]), drawn())
    assert len(graph.lat) == vertices


def test_a_coordinate_that_is_not_finite_is_turned_down():
    with pytest.raises(ValueError, match="a line has a coordinate that is not finite"):
        vertex_graphs(drawn([(0, 0), (np.inf, 1)]), drawn())
