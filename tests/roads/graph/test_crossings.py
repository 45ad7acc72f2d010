"""Crossings of a fast and a slow road that both go straight on are marked, others are not."""

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.crossings import find_unjoined, join_crossings, likely_bridges
from roadseg.roads.graph.road_graph import graph_from_lines

UTM = CRS.from_epsg(32632)
WEST, EAST, SOUTH, NORTH = ([(0, 0), end] for end in [(-90, 0), (90, 0), (0, -90), (0, 90)])


def drawn(*roads, **columns):
    lines = np.array([*map(shapely.LineString, roads), None], dtype=object)[:-1]
    return graph_from_lines(lines, UTM, columns)


def marked(*roads, speed_kph):
    """Return x and y of the nodes that are marked."""
    graph = drawn(*roads, speed_kph=np.array(speed_kph, dtype=float))
    return graph.nodes[likely_bridges(graph)].tolist()


def at(degrees):
    angle = np.radians(degrees)
    return [(0, 0), (90 * np.cos(angle), 90 * np.sin(angle))]


def test_a_motorway_over_a_street_is_marked_at_their_node_only():
    assert marked(WEST, EAST, SOUTH, NORTH, speed_kph=[110, 90, 50, 40]) == [[0, 0]]


def test_the_direction_in_which_edges_are_drawn_changes_nothing():
    roads = WEST[::-1], EAST, SOUTH[::-1], NORTH
    assert marked(*roads, speed_kph=[110, 90, 50, 40]) == [[0, 0]]


@pytest.mark.parametrize(("kph", "nodes"), [(80, 1), (79, 0)])
def test_the_fast_road_has_80_kph(kph, nodes):
    assert len(marked(WEST, EAST, SOUTH, NORTH, speed_kph=[kph, 100, 30, 30])) == nodes


@pytest.mark.parametrize(("kph", "nodes"), [(75, 1), (76, 0)])
def test_the_other_road_is_slower_by_25_kph(kph, nodes):
    assert len(marked(WEST, EAST, SOUTH, NORTH, speed_kph=[100, 120, 30, kph])) == nodes


@pytest.mark.parametrize(("degrees", "nodes"), [(19, 1), (21, 0), (-19, 1), (-21, 0)])
def test_both_roads_go_straight_on_to_20_degrees(degrees, nodes):
    assert len(marked(WEST, at(degrees), SOUTH, NORTH, speed_kph=[100, 100, 30, 30])) == nodes
    assert len(marked(WEST, EAST, SOUTH, at(90 + degrees), speed_kph=[90, 90, 30, 30])) == nodes


def test_a_skewed_crossing_is_marked():
    assert marked(WEST, EAST, at(30), at(210), speed_kph=[100, 100, 30, 30]) == [[0, 0]]


def test_fast_roads_side_by_side_are_no_bridge():
    """A fast road that turns off and a slow one that does: neither goes straight on."""
    assert marked(WEST, NORTH, EAST, SOUTH, speed_kph=[100, 100, 30, 30]) == []


def test_a_junction_of_three_is_not_marked():
    assert marked(WEST, EAST, SOUTH, speed_kph=[100, 100, 30]) == []


def test_a_further_edge_at_a_crossing_changes_nothing():
    roads = WEST, EAST, SOUTH, NORTH, at(45)
    assert marked(*roads, speed_kph=[100, 100, 30, 30, 30]) == [[0, 0]]


@pytest.mark.parametrize(("apart_m", "nodes"), [(9.9, 2), (10, 0)])
def test_a_crossing_that_thinning_split_into_two_junctions_is_marked_at_both(apart_m, nodes):
    west, east = [(-90, 0), (0, 0)], [(apart_m, 0), (90, 0)]
    between = [(0, 0), (apart_m, 0)]
    south, north = [(0, 0), (5, -90)], [(apart_m, 0), (5, 90)]
    roads = west, between, east, south, north
    assert len(marked(*roads, speed_kph=[100, 100, 100, 30, 30])) == nodes


@pytest.mark.parametrize(("apart_m", "nodes"), [(34, 2), (35, 0)])
def test_a_street_below_both_carriageways_of_a_motorway_is_asked_beyond_them(apart_m, nodes):
    """The pixels of the street between the carriageways show the speed of the motorway."""
    far = [[(x, y + apart_m) for x, y in road] for road in (WEST, EAST, NORTH)]
    street = [(0, 0), (0, apart_m)]
    roads = WEST, EAST, SOUTH, street, *far
    assert len(marked(*roads, speed_kph=[100, 100, 30, 100, 100, 100, 30])) == nodes


def test_a_bend_beyond_20_m_does_not_count():
    bent = [(0, 0), (0, 21), (90, 21)]
    assert marked(WEST, EAST, SOUTH, bent, speed_kph=[100, 100, 30, 30]) == [[0, 0]]


def test_speeds_that_are_not_known_mark_nothing():
    assert marked(WEST, EAST, SOUTH, NORTH, speed_kph=[100, 100, np.nan, 30]) == []
    assert likely_bridges(drawn(WEST, EAST, SOUTH, NORTH)).tolist() == [False] * 5


def test_a_graph_without_roads_has_no_bridges():
    assert likely_bridges(drawn(speed_kph=np.zeros(0))).tolist() == []


STREET = [(0, 0), (100, 0)]


@pytest.mark.parametrize(
    ("other", "layer", "found"),
    [
        ([(50, -50), (50, 50)], 0, "1 crossing and 0 touching ends"),
        ([(50, -50), (50, 50)], 1, ""),  # a bridge
        ([(50, 0), (50, 50)], 0, "0 crossings and 1 touching end"),
        ([(50, 0.049), (50, 50)], 0, "0 crossings and 1 touching end"),
        ([(50, 0.051), (50, 50)], 0, ""),
        ([(100.002, 0), (100, 50)], 0, "0 crossings and 1 touching end"),
        ([(100, 0), (100, 50)], 0, ""),  # a common vertex
    ],
)
def test_crossings_and_touching_ends_without_a_vertex_are_counted_and_can_be_joined(
    other, layer, found
):
    graph = drawn(STREET, other, layer=np.array([0, layer]))
    assert str(find_unjoined(graph)).partition(" without")[0] == found
    joined = join_crossings(graph)
    assert np.any(joined.degree > 1) == (found != "" or np.any(graph.degree > 1))
    assert not str(find_unjoined(joined))


def test_streets_with_a_diagonal_between_crossings_become_one_grid():
    grid = [[(x, 0), (x, 180)] for x in (0, 90, 180)] + [[(0, y), (180, y)] for y in (0, 90, 180)]
    joined = join_crossings(drawn(*grid, [(0, 0), (90, 90)]))
    assert (len(joined.nodes), len(joined.lines)) == (9, 13)
