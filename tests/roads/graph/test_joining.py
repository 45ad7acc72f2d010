import numpy as np
import pytest
import shapely

from roadseg.raster.grid import DEGREES
from roadseg.roads.graph.joining import join_scenes, to_crs, touching
from roadseg.roads.graph.road_graph import end_points
from tests.drawing import drawn

LEFT, RIGHT = shapely.box(0, 0, 100, 100), shapely.box(100, 0, 200, 100)


def graph_of(*lines, source="a"):
    return drawn(*lines, source=np.full(len(lines), source, dtype=object))


def joined(*graphs, areas=(LEFT, RIGHT), within_m=5.0):
    return join_scenes(graphs, np.array(areas, dtype=object), within_m=within_m)


@pytest.mark.parametrize(("apart", "components"), [(4.9, 1), (5.1, 2)])
def test_ends_that_meet_at_the_border_become_one_node(apart, components):
    graph = joined(graph_of([(10, 50), (99, 50)]), graph_of([(99 + apart, 50), (190, 50)]))
    assert len(graph.nodes) == 2 * components


def test_edges_of_one_source_are_merged_and_others_keep_theirs():
    left, right = [(10, 50), (100, 50)], [(100, 51), (190, 50)]
    assert len(joined(graph_of(left), graph_of(right)).lines) == 1
    assert len(joined(graph_of(left), graph_of(right, source="b")).lines) == 2


def test_ends_inside_a_scene_stay_apart():
    graph = joined(graph_of([(10, 50), (80, 50)]), graph_of([(120, 50), (190, 50)]), within_m=45)
    assert len(graph.lines) == 1
    inner = joined(graph_of([(10, 50), (80, 50)]), graph_of([(120, 50), (190, 50)]), within_m=15)
    assert len(inner.lines) == 2


def test_ends_of_one_scene_stay_apart():
    left = graph_of([(10, 50), (99, 50)], [(10, 53), (99, 53)])
    assert len(joined(left, graph_of([(120, 90), (190, 90)])).nodes) == 6


def test_each_end_is_joined_to_the_nearest_only():
    right = graph_of([(100, 50.5), (190, 50)], [(100, 53), (190, 90)])
    graph = joined(graph_of([(10, 50), (100, 50)]), right)
    assert sorted(graph.length_m.round()) == [97, 180]


def test_ground_that_two_scenes_show_has_the_roads_of_the_first():
    areas = LEFT, shapely.box(60, 0, 200, 100)
    graph = joined(graph_of([(0, 50), (100, 50)]), graph_of([(60, 51), (200, 51)]), areas=areas)
    assert graph.length_m.sum() == pytest.approx(200, abs=0.1)
    assert len(graph.lines) == 1


def test_scenes_that_touch_are_told_from_others():
    areas = np.array([LEFT, RIGHT, shapely.box(300, 0, 400, 100)], dtype=object)
    assert touching(areas, within_m=1).tolist() == [[0, 1]]


def test_lines_end_at_the_nodes_in_any_crs():
    graph = to_crs(graph_of([(500000, 4000000), (500100, 4000000)]), DEGREES)
    assert np.array_equal(end_points(graph.lines), graph.nodes[graph.ends])
