"""Routes between places on edges cost what a driver would say."""

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra

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


def town(seed, *, side):
    """Draw streets of blocks of 60 x 80 m, of which three in ten are missing."""
    x, y = (60 * np.arange(side + 1), 80 * np.arange(side + 1))
    across = [[(x[c], y[r]), (x[c + 1], y[r])] for r in range(side) for c in range(side)]
    along = [[(x[c], y[r]), (x[c], y[r + 1])] for r in range(side) for c in range(side)]
    kept = np.random.default_rng(seed).random(2 * side**2) > 0.3
    return drawn(*(road for road, keep in zip(across + along, kept, strict=True) if keep))


def test_costs_in_a_town_are_those_between_the_ends_of_edges_and_along_them():
    seed = 0
    graph = town(seed, side=12)
    routes = Routes.through(graph, "length_m")
    edges = np.random.default_rng(seed).integers(len(graph.lines), size=50)
    starts = ControlPoints(edges, np.linspace(0, 1, 50))
    nodes, end = np.unique(graph.ends, return_index=True)
    goals = ControlPoints(end // 2, (end % 2).astype(float))
    straight = dijkstra(routes.adjacency, indices=graph.ends[edges].ravel())[:, nodes]
    to_ends = np.column_stack([starts.fraction, 1 - starts.fraction]) * routes.cost[edges, None]
    plain = (to_ends.ravel()[:, None] + straight).reshape(50, 2, -1).min(axis=1)
    assert np.allclose(routes.costs_to(goals)(starts), plain, rtol=1e-12, atol=1e-9)
