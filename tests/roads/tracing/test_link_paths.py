import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.shortest_paths import RoadDistances
from roadseg.roads.tracing.link_paths import places_along, trace_links


def lay(road, starts, goals, *, pixel_m=(1.0, 1.0)):
    road = np.asarray(road, dtype=np.uint8)
    height, width = road.shape
    grid = Grid(
        LOCAL_CRS, Affine(pixel_m[0], 0, 0, 0, -pixel_m[1], height * pixel_m[1]), height, width
    )

    def read_road(window):
        pixels = road[window.row :, window.col :][: window.height, : window.width]
        assert pixels.shape == window[2:]
        return pixels

    places = np.array(starts, dtype=float), np.array(goals, dtype=float)
    return trace_links(*places, grid=grid, read_road=read_road)


def arch(low=20, high=220):
    """Draw a way that goes up, over and down between x of 4.5 and 14.5."""
    road = np.full((20, 20), low)
    road[12:17, [4, 14]] = road[12, 4:15] = high
    return road


def test_where_all_is_alike_the_way_is_straight():
    paths = lay(np.full((20, 20), 90), [(2.5, 3.5)], [(12.5, 8.5)])
    assert shapely.to_wkt(paths.lines[0]) == "LINESTRING (2.5 3.5, 12.5 8.5)"
    assert paths.probability[0] == pytest.approx(90 / 255)
    assert paths.cost_m[0] == pytest.approx(np.hypot(10, 5) * (1.1 - 90 / 255))


def test_a_way_goes_round_where_the_raster_shows_road():
    paths = lay(arch(), [(4.5, 5.5)], [(14.5, 5.5)])
    assert shapely.get_coordinates(paths.lines[0])[:, 1].max() == 7.5  # The middle of row 12.
    assert paths.probability[0] == pytest.approx(220 / 255)


def test_a_way_goes_straight_where_the_way_round_is_not_worth_it():
    paths = lay(arch(low=200), [(4.5, 5.5)], [(14.5, 5.5)])
    assert shapely.get_num_coordinates(paths.lines).tolist() == [2]


def test_a_mask_of_two_values_is_not_followed():
    paths = lay(arch(low=0, high=255), [(4.5, 5.5)], [(14.5, 5.5)])
    assert shapely.get_num_coordinates(paths.lines).tolist() == [2]
    assert paths.is_informed.tolist() == [False]


def test_ways_start_and_end_exactly_at_their_places():
    paths = lay(arch(), [(4.3, 5.2)], [(14.8, 5.7)])
    ends = shapely.get_coordinates(paths.lines[0])[[0, -1]]
    assert ends.tolist() == [[4.3, 5.2], [14.8, 5.7]]


def test_ways_from_one_place_to_several_keep_their_order():
    starts = [(4.5, 5.5), (15.5, 15.5), (4.5, 5.5)]
    paths = lay(arch(), starts, [(14.5, 5.5), (18.5, 15.5), (4.5, 9.5)])
    ends = shapely.get_coordinates(shapely.get_point(paths.lines, -1))
    assert ends.tolist() == [[14.5, 5.5], [18.5, 15.5], [4.5, 9.5]]


def test_costs_are_in_metres_whatever_the_shape_of_pixels():
    paths = lay(np.full((40, 10), 128), [(4.0, 2.0)], [(4.0, 16.0)], pixel_m=(2.0, 0.5))
    assert paths.cost_m[0] == pytest.approx(14 * (1.1 - 128 / 255), rel=0.02)


def test_places_at_the_border_and_outside_are_taken_to_it():
    paths = lay(np.full((20, 20), 90), [(0, 0), (-1, 21)], [(9, 0), (9, 20)])
    assert np.isfinite(paths.cost_m).all()


def graph(*lines):
    return graph_from_lines(np.array([shapely.LineString(xy) for xy in lines]), LOCAL_CRS)


def node(roads, x, y):
    return np.flatnonzero((roads.nodes == (x, y)).all(axis=1))


def test_places_lie_along_near_edges_with_their_nodes():
    roads = graph([(0, 0), (2.5, 0)], [(90, 0), (99, 0)])
    tree = shapely.STRtree(roads.lines)
    places, edge, along = places_along(roads, tree, np.array([[1.0, 1.0]]), 5.0)
    assert places[:, 0] == pytest.approx([0, 2.5 / 3, 5 / 3, 2.5], abs=1e-3)
    assert along == pytest.approx([0, 2.5 / 3, 5 / 3, 2.5])
    assert set(edge) == {0}


@pytest.mark.parametrize(("limit_m", "expected"), [(7.0, 7.0), (6.9, np.inf)])
def test_distances_go_along_roads_up_to_a_limit(limit_m, expected):
    roads = graph([(0, 0), (3, 0)], [(3, 0), (3, 4)], [(0, 0), (0, 9), (3, 4)])
    distances = RoadDistances(roads, node(roads, 0, 0), limit_m)
    assert distances.metres(np.array([0]), node(roads, 3, 4)) == pytest.approx([expected])
