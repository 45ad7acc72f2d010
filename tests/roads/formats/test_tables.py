import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.formats.tables import attributes_of, edge_table, node_table
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines

UTM = CRS.from_epsg(32631)
CROSS = [[(0, 0), (100, 0)], [(100, 0), (200, 0)], [(100, -90), (100, 0)], [(100, 0), (100, 90)]]


def cross(speed_kph=(50, 50, 50, 50), **attributes):
    lines = np.array([shapely.LineString(line) for line in CROSS])
    columns = {"speed_kph": np.array(speed_kph, dtype=float), **attributes}
    return graph_from_lines(lines, UTM, columns)


def test_keys_number_parallel_edges_of_either_direction():
    graph = cross()
    lines = np.append(graph.lines, shapely.reverse(graph.lines[:1]))
    twice = RoadGraph(UTM, graph.nodes, np.vstack([graph.ends, graph.ends[:1, ::-1]]), lines)
    assert edge_table(twice)["key"].tolist() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("name", ["osmid", "key", "geometry"])
def test_an_attribute_named_as_a_column_is_refused(name):
    with pytest.raises(ValueError, match=f"'{name}'"):
        edge_table(cross(**{name: np.zeros(4)}))


def test_the_streets_at_a_node_are_counted():
    assert sorted(node_table(cross())["street_count"]) == [1, 1, 1, 1, 4]


def test_a_text_that_an_edge_lacks_is_none():
    highway = np.array(["a", None, "", "b"], dtype=object)
    back = attributes_of(edge_table(cross(highway=highway)))
    assert back["highway"].tolist() == ["a", None, "", "b"]


def test_a_flag_that_an_edge_lacks_is_not_set():
    back = attributes_of(edge_table(cross(inferred=np.array([1, np.nan, 0, 1]))))
    assert (back["inferred"].tolist(), back["inferred"].dtype) == ([1, 0, 0, 1], np.uint8)
