import numpy as np
import pytest
import shapely

from roadseg.raster.grid import LOCAL_CRS
from roadseg.roads.graph.noding import is_off_grid, noded, with_vertices
from roadseg.roads.graph.road_graph import graph_from_lines


def lines(*drawn):
    return np.array([shapely.LineString(xy) for xy in drawn])


GRAPH = graph_from_lines(
    lines([(0, 0), (10, 0)], [(10, 0), (20, 0)], [(20, 0), (20, 9)], [(0, 0), (0, 9)]), LOCAL_CRS
)


def joined(changes):
    """Add a line from the middle of the first edge to the end of the last one."""
    changed = with_vertices(GRAPH.lines, np.array([0]), np.array([[4.0, 0.0]]))
    every = np.concatenate([changed, lines([(4, 0), (4, 9), (0, 9)])])
    columns = {"number": np.arange(5)}
    return noded(GRAPH, every, columns, np.array([*changes, True]))


@pytest.mark.parametrize("changes", [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
def test_what_has_not_changed_may_be_joined_anew_or_not(changes):
    graph = joined(np.array(changes, dtype=bool))
    assert graph.attributes["number"].tolist() == [0, 0, 1, 2, 3, 4]
    assert graph.length_m.tolist() == [4, 6, 10, 9, 9, 13]
    assert sorted(graph.degree) == [1, 2, 2, 2, 2, 3]
    at = shapely.get_coordinates(shapely.get_point(graph.lines, 0))
    assert np.array_equal(at, graph.nodes[graph.ends[:, 0]])


def test_a_vertex_is_put_where_it_lies_along_its_line():
    bent = lines([(0, 0), (4, 0), (4, 4)], [(9, 9), (8, 8)])
    found = with_vertices(bent, np.array([0, 0]), np.array([[4.0, 1.0], [2.0, 0.0]]))
    assert shapely.get_coordinates(found[0]).tolist() == [[0, 0], [2, 0], [4, 0], [4, 1], [4, 4]]
    assert found[1] is bent[1]


def test_coordinates_of_whole_millimetres_are_on_the_grid():
    drawn = lines([(500000.123, 4000000.001), (1, 1)], [(0.0004, 0), (1, 1)])
    assert is_off_grid(drawn).tolist() == [False, True]
