"""Routes between places on edges cost what a driver would say."""

import numpy as np
import pytest

from roadseg.roads.graph.shortest_paths import ControlPoints, Routes, place_control_points
from tests.drawing import drawn

STREET, APART = [(0, 0), (100, 0)], [(0, 50), (100, 50)]
RING = [(100, 0), (130, 0), (130, 30), (100, 30), (100, 0)]


def at(*places):
    edge, fraction = zip(*places, strict=True)
    return ControlPoints(np.array(edge), np.array(fraction, dtype=float))


def costs(graph, starts, goals, weight="length_m"):
    return Routes.through(graph, weight).costs_to(at(*goals))(at(*starts)).tolist()


def test_places_on_one_edge_are_as_far_apart_as_along_it():
    assert costs(drawn(STREET), [(0, 0.2)], [(0, 0.2), (0, 0.5), (0, 1)]) == [[0, 30, 80]]


@pytest.mark.parametrize(("place_on_ring", "metres"), [(0.25, 40), (0.75, 40), (0.5, 70)])
def test_a_loop_is_driven_the_shorter_way(place_on_ring, metres):
    assert costs(drawn(STREET, RING), [(0, 0.9)], [(1, place_on_ring)]) == [[metres]]


def test_a_route_may_leave_its_edge_and_come_back():
    """From end to end of a detour of 300 m there is a street of 100 m."""
    detour = [(0, 0), (0, 100), (100, 100), (100, 0)]
    assert costs(drawn(detour, STREET), [(0, 0)], [(0, 0.9)]) == [[130]]


def test_an_edge_that_costs_nothing_is_a_way():
    graph = drawn(STREET, [(100, 0), (120, 0)], [(120, 0), (150, 0)], travel_time_s=[5, 0, 7])
    assert costs(graph, [(0, 0)], [(2, 1)], "travel_time_s") == [[12]]
    parts = Routes.through(graph, "travel_time_s").parts(at((0, 0.5), (1, 0.5), (2, 0.5)))
    assert len(set(parts.tolist())) == 1


def test_places_are_of_one_part_just_if_there_is_a_route():
    graph = drawn(STREET, APART, RING)
    routes, (points, _) = (
        Routes.through(graph, "length_m"),
        place_control_points(graph, spacing_m=50),
    )
    parts = routes.parts(points)
    same_part = parts[:, None] == parts
    assert np.isfinite(routes.costs_to(points)(points)).tolist() == same_part.tolist()
    assert not same_part.all()
