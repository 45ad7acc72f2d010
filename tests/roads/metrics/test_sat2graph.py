"""Sat2Graph's APLS on drawn roads, and against values recorded from its code and SAM-Road's."""

import json
from dataclasses import replace

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.sat2graph import (
    CITYSCALE_TILE,
    SPACENET_TILE,
    VertexGraph,
    sat2graph_apls,
    score_tile,
    vertex_graphs,
)

UTM = CRS.from_epsg(32611)
CORNER = (0.0, 352.0)
ROAD = [(50, 200), (130, 200), (210, 200)]


def drawn(*roads):
    """Draw a graph: one edge a road, a node at each different end."""
    ends = np.array([point for road in roads for point in (road[0], road[-1])], dtype=float)
    nodes, rows = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    lines = np.array([shapely.LineString(road) for road in roads], dtype=object)
    return RoadGraph(UTM, nodes, rows.reshape(-1, 2), lines)


def score(reference, predicted):
    return sat2graph_apls(reference, predicted, corner=CORNER)


EMPTY = drawn()


def test_vertices_are_numbered_as_the_lines_meet_them():
    graph, _ = vertex_graphs(drawn([(0, 0), (9, 0)], [(5, 3), (9, 0), (0, 0)]), EMPTY)
    assert graph.pairs.tolist() == [[0, 1], [1, 2]]
    assert np.round((41 - graph.lat) * 111111, 6).tolist() == [3, 3, 0]


@pytest.mark.parametrize(("beyond", "vertices"), [(0.0004, 2), (0.0006, 3)])
def test_vertices_that_agree_to_1_mm_are_one(beyond, vertices):
    graph, _ = vertex_graphs(drawn([(0, 0), (9, 0), (9 + beyond, 0)]), EMPTY, (0, 0))
    assert len(graph.lat) == vertices


def test_a_road_far_away_scores_0():
    found = score(drawn(ROAD), drawn([(50, 100), (210, 100)]))
    assert (found.score, found.reference_to_predicted, found.predicted_to_reference) == (0, 0, 0)


@pytest.mark.parametrize(("aside", "expected"), [(9.9, 1), (10.1, 0)])
def test_control_points_are_matched_within_10_m(aside, expected):
    beside = drawn([(50, 200 + aside), (210, 200 + aside)])
    assert score(drawn([(50, 200), (210, 200)]), beside).score == pytest.approx(expected, abs=1e-6)


def test_a_gap_costs_the_routes_across_it():
    gap = drawn([(50, 200), (125, 200)], [(135, 200), (210, 200)])
    found = score(drawn(ROAD), gap)
    assert found.predicted_to_reference > 0.98
    assert found.reference_to_predicted < 0.6
    mean = (found.predicted_to_reference + found.reference_to_predicted) / 2
    assert found.score == mean


@pytest.mark.parametrize(("y", "expected"), [(321.9, 0), (322.1, 1)])
def test_roads_in_the_margin_have_no_control_points(y, expected):
    assert score(drawn([(50, y), (210, y)]), EMPTY).score == expected


def test_the_large_tile_has_the_margin_of_100_m():
    road = drawn([(150, -95), (350, -95)])
    assert sat2graph_apls(road, EMPTY, tile=CITYSCALE_TILE, corner=(0, 0)).score == 1
    assert sat2graph_apls(road, EMPTY, tile=SPACENET_TILE, corner=(0, 0)).score == 0


@pytest.mark.parametrize(("min_route_m", "expected"), [(29.5, 0.5), (30.1, 1)])
def test_short_routes_between_matched_points_do_not_count(min_route_m, expected):
    """Of two roads, one of 30 m, the shorter is predicted with a detour."""
    tile = replace(SPACENET_TILE, interval_hops=100, min_route_m=min_route_m)
    long = [(50, 60), (150, 60)]
    detour = [(100, 200), (100, 240), (130, 240), (130, 200)]
    sides = vertex_graphs(drawn([(100, 200), (130, 200)], long), drawn(detour, long), CORNER)
    assert score_tile(*sides, tile=tile).reference_to_predicted == expected


@pytest.mark.parametrize(
    ("reference", "predicted", "expected"),
    [(EMPTY, EMPTY, 1), (drawn(ROAD), EMPTY, 0), (EMPTY, drawn(ROAD), 0)],
    ids=["both empty", "predicted empty", "reference empty"],
)
def test_nothing_against_nothing_is_right_and_against_something_wrong(
    reference, predicted, expected
):
    assert score(reference, predicted).score == expected


def test_a_coordinate_that_is_not_finite_is_turned_down():
    with pytest.raises(ValueError, match="not finite"):
        sat2graph_apls(drawn([(0, 0), (np.inf, 1)]), EMPTY)


def recorded_graph(facts, name, without=()):
    stored = json.loads((facts / "apls" / "graphs_fixed" / f"{name}.json").read_text())
    edges = [edge for edge in stored["edges"] if (edge["u"], edge["v"]) != without]
    return drawn(*[edge["coords"] for edge in edges])


def as_recorded(found, recorded):
    """Compare with the run in the order of the points, and with the range of all runs."""
    run, runs = recorded["det_small352"], recorded["sam_small352"]["apls_mean"]
    assert found.reference_to_predicted == pytest.approx(run["gt_to_prop"], abs=3e-6)
    assert found.predicted_to_reference == pytest.approx(run["prop_to_gt"], abs=3e-6)
    assert runs["min"] - 3e-6 <= found.score <= runs["max"] + 3e-6


@pytest.mark.real
@pytest.mark.parametrize(
    ("chip", "lost"),
    [*((f"img{n}", ()) for n in (990, 991, 995, 997)), ("img0_json_wkt", (42, 43))],
)
def test_vegas_chips_score_as_recorded(facts, chip, lost):
    sides = recorded_graph(facts, f"{chip}_gt", lost), recorded_graph(facts, f"{chip}_prop")
    recorded = json.loads((facts / "apls_reference.json").read_text())["cases"][chip]
    as_recorded(sat2graph_apls(*sides), recorded["sat2graph_go_apls"])


@pytest.mark.real
def test_the_sample_of_sam_road_scores_as_recorded(facts):
    sides = []
    for name in ("gt", "prop"):
        nodes, edges = json.loads((facts / "apls" / f"sam_road_{name}.json").read_text())
        sides.append(VertexGraph(*np.array(nodes).T, np.array(edges)))
    recorded = json.loads((facts / "apls_reference.json").read_text())["sam_road_bundled"]
    as_recorded(score_tile(*sides, tile=SPACENET_TILE), recorded["go_apls"])
