import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.core.graphs import graph_from_lines
from roadseg.core.linking import link_gaps

UTM = CRS.from_epsg(32611)


def linked(*lines, max_gap_m=10.0, **options):
    found = graph_from_lines(np.array([shapely.LineString(xy) for xy in lines]), UTM)
    return link_gaps(found, max_gap_m=max_gap_m, **options)


@pytest.mark.parametrize(("gap_m", "edges"), [(10.0, 1), (10.1, 2)])
def test_two_ends_that_face_each_other_become_one_road_up_to_the_longest_gap(gap_m, edges):
    found = linked([(0, 0), (50, 0)], [(50 + gap_m, 0), (110, 0)])
    assert len(found.lines) == edges


def test_an_end_in_front_of_the_side_of_a_road_makes_a_junction():
    found = linked([(0, 0), (100, 0)], [(50, 8), (50, 60)])
    assert sorted(found.degree) == [1, 1, 1, 3]
    assert found.length_m.sum() == pytest.approx(160)


@pytest.mark.parametrize(("turn_deg", "edges"), [(59, 3), (61, 2)])
def test_a_link_does_not_turn_back(turn_deg, edges):
    angle = np.radians(turn_deg)
    ahead, beside = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle = (50, 0) + 9 * ahead  # the nearest point of a road across the link
    found = linked([(0, 0), (50, 0)], [middle - 40 * beside, middle + 40 * beside])
    assert len(found.lines) == edges


def test_a_hole_in_a_crossing_is_closed_by_roads_that_go_straight_on():
    arms = [[(8 * x, 8 * y), (60 * x, 60 * y)] for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    found = linked(*arms, max_gap_m=20)
    assert sorted(found.degree) == [1, 1, 1, 1, 4]
    assert found.length_m.sum() == pytest.approx(240)


def test_ends_at_the_border_of_the_scene_are_left_alone():
    lines = [(0, 0), (50, 0)], [(58, 0), (110, 0)]
    border = shapely.LineString([(51, -10), (51, 10)])
    assert len(linked(*lines, border=border, border_m=2).lines) == 1  # the other end links
    both = shapely.MultiLineString([border, [(57, -10), (57, 10)]])
    assert len(linked(*lines, border=both, border_m=2).lines) == 2


def test_nothing_is_linked_when_no_gap_is_allowed():
    assert len(linked([(0, 0), (50, 0)], [(51, 0), (110, 0)], max_gap_m=0).lines) == 2


def test_a_lone_road_and_an_empty_graph_stay_as_they_are():
    assert linked([(0, 0), (50, 0)]).length_m.tolist() == [50]
    assert len(linked().lines) == 0


def test_a_dead_end_does_not_link_to_its_own_road():
    hook = [(0, 0), (50, 0), (50, 20), (6, 20), (6, 9)]
    assert linked(hook).length_m.tolist() == [50 + 20 + 44 + 11]
