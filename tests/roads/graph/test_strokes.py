"""Strokes of drawn roads."""

import numpy as np
import pytest
import shapely

from roadseg.roads.graph.strokes import strokes
from tests.drawing import drawn


def lengths(*roads):
    return sorted(strokes(drawn(*roads))[0].length_m.tolist())


@pytest.mark.parametrize(
    ("roads", "expected"),
    [
        ([[(0, 0), (50, 0), (100, 0)], [(50, -30), (50, 0), (50, 40)]], [70, 100]),
        ([[(0, 0), (50, 0), (100, 0)], [(50, 0), (50, 40)]], [40, 100]),
        ([[(0, 0), (50, 0)], [(50, 0), (50, 40)]], [90]),
        ([[(0, 0), (30, 0), (30, 30), (0, 30), (0, 0)]], [120]),
        ([], []),
    ],
    ids=["a crossing", "a side road", "cut at a bend", "a ring", "no roads"],
)
def test_strokes_go_straight_on(roads, expected):
    assert lengths(*roads) == expected


@pytest.mark.parametrize(("turn_deg", "expected"), [(69, [50, 100]), (71, [50, 50, 50])])
def test_a_road_does_not_turn_by_more_than_70_degrees_at_a_junction(turn_deg, expected):
    turns = np.radians([turn_deg, 110])
    away = zip(50 + 50 * np.cos(turns), 50 * np.sin(turns), strict=True)
    found = lengths([(0, 0), (50, 0)], *([(50, 0), end] for end in away))
    assert found == pytest.approx(expected, abs=0.01)


def test_the_straightest_way_goes_on():
    found, _ = strokes(drawn([(0, 0), (50, 0)], [(50, 0), (100, 20)], [(50, 0), (100, -5)]))
    assert shapely.LineString([(0, 0), (50, 0), (100, -5)]) in found.lines.tolist()


def test_strokes_tell_the_nodes_of_the_graph_at_their_ends():
    graph = drawn([(0, 0), (50, 0), (100, 0)], [(50, 0), (50, 40)])
    found, node = strokes(graph)
    ends = shapely.get_coordinates(shapely.get_point(found.lines, 0))
    assert (
        graph.nodes[node[:, 0]].tolist() == ends.tolist() == found.nodes[found.ends[:, 0]].tolist()
    )
