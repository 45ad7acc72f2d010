import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.tracing.dead_ends import RoadDistances, find_dead_ends, places_along

UTM = CRS.from_epsg(32611)


def graph(*lines):
    return graph_from_lines(np.array([shapely.LineString(xy) for xy in lines]), UTM)


def node(found, x, y):
    return np.flatnonzero((found.nodes == (x, y)).all(axis=1))


def test_a_dead_end_heads_where_its_last_15_metres_lead():
    ends = find_dead_ends(graph([(0, 0), (50, 0), (50, 15), (50, 30)]), None, 0.0)
    east = ends.place[:, 0] == 50
    assert ends.heading[east] == pytest.approx(np.array([[0, 1]]))
    assert ends.heading[~east] == pytest.approx(np.array([[-1, 0]]))


@pytest.mark.parametrize(("border_m", "expected"), [(2.9, 2), (3.0, 1)])
def test_ends_up_to_some_distance_from_the_border_are_none(border_m, expected):
    border = shapely.LineString([(-3, -9), (-3, 9)])
    assert len(find_dead_ends(graph([(0, 0), (50, 0)]), border, border_m).edge) == expected


def test_places_lie_along_near_edges_with_their_nodes():
    found = graph([(0, 0), (2.5, 0)], [(90, 0), (99, 0)])
    tree = shapely.STRtree(found.lines)
    places, edge, along = places_along(found, tree, np.array([[1.0, 1.0]]), 5.0)
    assert places[:, 0] == pytest.approx([0, 2.5 / 3, 5 / 3, 2.5], abs=1e-3)
    assert along == pytest.approx([0, 2.5 / 3, 5 / 3, 2.5])
    assert set(edge) == {0}


@pytest.mark.parametrize(("limit_m", "expected"), [(7.0, 7.0), (6.9, np.inf)])
def test_distances_go_along_roads_up_to_a_limit(limit_m, expected):
    found = graph([(0, 0), (3, 0)], [(3, 0), (3, 4)], [(0, 0), (0, 9), (3, 4)])
    distances = RoadDistances(found, node(found, 0, 0), limit_m)
    assert distances.metres(np.array([0]), node(found, 3, 4)) == pytest.approx([expected])
