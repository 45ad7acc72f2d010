"""Vertices are numbered as the lines of a graph meet them."""

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.marbles import networks

UTM = CRS.from_epsg(32611)


def drawn(*roads):
    """Draw a graph: one edge a road, a node at each different end."""
    ends = np.array([point for road in roads for point in (road[0], road[-1])], dtype=float)
    nodes, rows = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    lines = np.array([shapely.LineString(road) for road in roads], dtype=object)
    return RoadGraph(UTM, nodes, rows.reshape(-1, 2), lines)


def test_vertices_are_numbered_as_the_lines_meet_them():
    network, _ = networks(drawn([(0, 0), (9, 0)], [(5, 3), (9, 0), (0, 0)]), drawn())
    assert [list(near) for near in network.around] == [[1], [0, 2], [1]]
    assert [round((41 - lat) * 111111, 6) for lat, _ in network.places] == [3, 3, 0]


@pytest.mark.parametrize(("beyond", "vertices"), [(0.0004, 2), (0.0006, 3)])
def test_vertices_that_agree_to_1_mm_are_one(beyond, vertices):
    network, _ = networks(drawn([(0, 0), (9, 0), (9 + beyond, 0)]), drawn())
    assert len(network.places) == vertices


def test_a_coordinate_that_is_not_finite_is_turned_down():
    with pytest.raises(ValueError, match="a line has a coordinate that is not finite"):
        networks(drawn([(0, 0), (np.inf, 1)]), drawn())
