"""APLS on graphs small enough to work out by hand, and on recorded values of the reference code."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.core import graph_metrics
from roadseg.core.graph_metrics import Apls, apls
from roadseg.core.graphs import RoadGraph

UTM = CRS.from_epsg(32611)
PIXEL = 0.31  # metres of a toy pixel: the toys are those of the SpaceNet 3 scorer
ROAD = [(0, 0), (500, 0)]
LONG = [(0, 0), (500, 0), (1000, 0)]
LOOP = [(500, 0), (700, 0), (700, 200), (500, 200), (500, 0)]


def drawn(*roads, scale=1.0, seconds=None):
    """Draw a graph: one edge a road, a node at each different end."""
    ends = [scale * np.array(point, dtype=float) for road in roads for point in (road[0], road[-1])]
    nodes, rows = np.unique(np.reshape(ends, (-1, 2)), axis=0, return_inverse=True)
    lines = np.empty(len(roads), dtype=object)
    lines[:] = [shapely.LineString(scale * np.array(road, dtype=float)) for road in roads]
    columns = {} if seconds is None else {"travel_time_s": np.array(seconds, dtype=float)}
    return RoadGraph(UTM, nodes, rows.reshape(-1, 2), lines, columns)


def toy(*roads):
    return drawn(*roads, scale=PIXEL)


def directions(score):
    return score.reference_to_predicted, score.predicted_to_reference


EMPTY = drawn()


@pytest.mark.parametrize(
    ("reference", "predicted", "there", "back", "score"),
    [
        (EMPTY, EMPTY, 1, 1, 1),
        (toy(ROAD), EMPTY, 0, 0, 0),
        (EMPTY, toy(ROAD), 0, 0, 0),
        (toy(ROAD), toy(ROAD), 1, 1, 1),
        (toy(LONG), toy([(0, 0), (480, 0)], [(520, 0), (1000, 0)]), 3 / 7, 1, 0.6),
        (toy(ROAD), toy([(0, 9.6), (500, 9.6)]), 1, 1, 1),
        (toy(ROAD), toy([(0, 12.95), (500, 12.95)]), 0, 0, 0),
        (
            toy([(0, 0), (500, 0)], [(500, 0), (1000, 0)], [(500, 0), (500, 400)]),
            toy(LONG),
            6 / 11,
            1,
            12 / 17,
        ),
        (toy(ROAD), toy(ROAD, [(0, 300), (500, 300)]), 1, 1 / 2, 2 / 3),
        (toy(ROAD), toy([(0, 0), (0, 300), (500, 300), (500, 0)]), 0, 5 / 308, 0),
        (toy(ROAD, LOOP), toy(ROAD, LOOP), 1, 1, 1),
    ],
    ids=[
        *("both_empty", "gt_only", "prop_only", "self", "gap", "offset3m", "offset4m01"),
        *("tee_miss", "extra", "longer2x", "loop"),
    ],
)
def test_the_toys_score_as_in_the_official_scorer(reference, predicted, there, back, score):
    result = apls(reference, predicted)
    assert directions(result) == pytest.approx((there, back), abs=1e-12)
    assert result.score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(("offset", "score"), [(3.99, 1), (4.0, 1), (4.0001, 0), (4.01, 0)])
def test_a_control_point_is_found_up_to_and_including_the_snap_distance(offset, score):
    result = apls(drawn([(0, 0), (100, 0)]), drawn([(0, offset), (100, offset)]), snap_m=4)
    assert directions(result) == (score, score)


def test_a_point_between_two_equally_near_roads_is_put_on_the_first():
    straight, round_about = [(0, 2), (30, 2)], [(0, -2), (15, -30), (30, -2)]
    road = drawn([(0, 0), (30, 0)])
    assert apls(road, drawn(straight, round_about)).reference_to_predicted == 1
    assert apls(road, drawn(round_about, straight)).reference_to_predicted == 0


@pytest.mark.parametrize(
    ("length", "middles"),
    [(37.4, 0), (37.5, 1), (50, 1), (50.1, 1), (100, 1), (100.1, 2), (150, 2), (150.1, 3)],
)
def test_control_points_are_evenly_spaced_and_close_enough(length, middles):
    """Of n + 2 points in a row a prediction of the first half mile has some and misses others."""
    half = apls(drawn([(0, 0), (length, 0)]), drawn([(0, 0), (length / 2, 0)]), snap_m=0.01)
    seen = (middles + 3) // 2
    expected = seen * (seen - 1) / ((middles + 2) * (middles + 1))
    assert half.reference_to_predicted == pytest.approx(expected)


def test_a_detour_costs_its_share_of_the_route():
    """The one pair of 30 m takes 36 m in the prediction, which has a longer way between."""
    detour = drawn([(0, 0), (0, 3), (30, 3), (30, 0)])
    there, _ = directions(apls(drawn([(0, 0), (30, 0)]), detour, snap_m=1))
    assert there == pytest.approx(1 - 6 / 30)


def test_a_loop_road_is_part_of_the_score():
    with_loop, without = toy(ROAD, LOOP), toy(ROAD)
    assert apls(with_loop, with_loop).score == pytest.approx(1)
    assert apls(with_loop, without).reference_to_predicted < 0.5


def test_points_on_a_loop_are_joined_the_shorter_way_round():
    """A ring of 4 x 30 m with two middles 40 m apart each: opening it leaves one way round only."""
    ring = [(0, 0), (30, 0), (30, 30), (0, 30), (0, 0)]
    opened = [(0, 0), (30, 0), (30, 30), (0, 30), (0, 0.5)]
    there, _ = directions(apls(drawn(ring), drawn(opened), snap_m=1))
    # of three pairs two keep their 40 m; the last comes from (0, 0) the long way: 80, not 40
    assert there == pytest.approx(2 / 3)


def test_parallel_edges_both_hold_control_points_and_the_shorter_one_carries_routes():
    short, bow = [(0, 0), (30, 0)], [(0, 0), (0, 30), (30, 30), (30, 0)]
    both = drawn(bow, short)
    assert apls(both, both).score == pytest.approx(1)
    # the ends are 30 m apart, the middle of the bow 45 m from both: it is missing on the short edge
    assert directions(apls(both, drawn(short))) == pytest.approx((1 / 3, 1))
    # on the bow alone it is found, but its ends are 90 m apart
    assert directions(apls(both, drawn(bow)))[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("again", [ROAD, ROAD[::-1]], ids=["same way", "other way"])
def test_the_same_road_drawn_twice_counts_once(again):
    assert directions(apls(drawn(ROAD), drawn(ROAD, again))) == (1, 1)


def test_of_a_road_drawn_twice_the_faster_one_counts():
    twice = drawn(ROAD, ROAD, seconds=[40, 20])
    assert apls(drawn(ROAD, seconds=[20]), twice, weight="travel_time_s").score == 1


def test_an_edge_without_length_joins_what_it_touches():
    point = [(500, 0), (500, 0)]
    assert directions(apls(drawn(ROAD), drawn(point, ROAD))) == (1, 1)


def test_nodes_at_no_distance_are_no_pair():
    """An edge of 0 s joins two nodes: the pair has no ratio, the two others are right."""
    roads = [(0, 0), (30, 0)], [(30, 0), (60, 0)]
    graph = drawn(*roads, seconds=[3, 0])
    assert directions(apls(graph, graph, weight="travel_time_s")) == (1, 1)


def test_a_short_loop_alone_has_no_route_and_counts_as_empty():
    loop = drawn([(0, 0), (10, 0), (5, 5), (0, 0)])
    assert apls(loop, EMPTY) == Apls(1, 1, 1)
    assert apls(loop, drawn(ROAD)) == Apls(0, 0, 0)


def test_nodes_without_edges_change_nothing():
    road = drawn([(0, 0), (30, 0)])
    lonely = RoadGraph(UTM, np.vstack([[[9, 9]], road.nodes]), road.ends + 1, road.lines)
    assert directions(apls(lonely, road)) == (1, 1)


def test_travel_time_weighs_each_edge_with_its_own_speed():
    """Twice 40 m with a middle each, in 4 and 8 s; predicted at one speed, in 6 and 6 s."""
    roads = [(0, 0), (40, 0)], [(40, 0), (80, 0)]
    reference, predicted = drawn(*roads, seconds=[4, 8]), drawn(*roads, seconds=[6, 6])
    at_reference, at_predicted = np.array([0, 2, 4, 8, 12]), np.array([0, 3, 6, 9, 12])
    first, second = np.triu_indices(5, k=1)
    right = at_reference[second] - at_reference[first]
    found = at_predicted[second] - at_predicted[first]
    result = apls(reference, predicted, weight="travel_time_s")
    there, back = (1 - np.mean(np.abs(right - found) / cost) for cost in (right, found))
    assert directions(result) == pytest.approx((there, back))
    assert result.score == pytest.approx(2 * there * back / (there + back))


def test_length_takes_no_notice_of_travel_time():
    reference, predicted = drawn(ROAD, seconds=[4]), drawn(ROAD, seconds=[400])
    assert apls(reference, predicted).score == 1
    assert apls(reference, predicted, weight="travel_time_s").score == 0


def test_an_empty_graph_needs_no_travel_times():
    assert apls(drawn(ROAD, seconds=[4]), EMPTY, weight="travel_time_s").score == 0


def test_missing_travel_times_are_named():
    with pytest.raises(ValueError, match="no travel_time_s"):
        apls(drawn(ROAD, seconds=[4]), drawn(ROAD), weight="travel_time_s")


@pytest.mark.parametrize("seconds", [-1, np.nan, np.inf])
def test_impossible_travel_times_are_turned_down(seconds):
    with pytest.raises(ValueError, match="finite and not negative"):
        apls(EMPTY, drawn(ROAD, seconds=[seconds]), weight="travel_time_s")


@pytest.mark.parametrize("options", [{"spacing_m": 0}, {"snap_m": 0}, {"snap_m": np.nan}])
def test_distances_must_be_above_zero(options):
    with pytest.raises(ValueError, match="must be above 0"):
        apls(drawn(ROAD), drawn(ROAD), **options)


def test_graphs_in_different_crss_are_turned_down():
    elsewhere = RoadGraph(CRS.from_epsg(32612), EMPTY.nodes, EMPTY.ends, EMPTY.lines)
    with pytest.raises(ValueError, match=r"the CRSs differ: .*11N and .*12N"):
        apls(EMPTY, elsewhere)


def test_the_score_is_the_same_in_blocks_of_one_source(monkeypatch):
    reference, predicted = toy(LONG, LOOP), toy(ROAD, [(500, 0), (640, 3), (640, 190), (510, 190)])
    at_once = apls(reference, predicted)
    monkeypatch.setattr(graph_metrics, "PAIRS_AT_ONCE", 1)
    assert directions(apls(reference, predicted)) == pytest.approx(directions(at_once))
    assert 0 < at_once.score < 1


@st.composite
def street_grids(draw):
    """Some streets of a 3 x 3 grid of blocks, bowed ones and loops among them, none crossing."""
    corners = [(x, y) for x in (0, 70, 190) for y in (0, 40, 130)]
    straight = [[a, b] for a in corners for b in corners if a < b and neighbours(a, b)]
    bowed = [[a, ((a[0] + b[0]) / 2 + 9, (a[1] + b[1]) / 2 + 9), b] for a, b in straight]
    loops = [[(x, y), (x - 4, y - 30), (x - 19, y - 18), (x, y)] for x, y in corners]
    roads = draw(st.lists(st.sampled_from(straight + bowed + loops), min_size=1, unique_by=str))
    return drawn(*roads, seconds=[draw(st.floats(0.5, 90)) for _ in roads])


def neighbours(a, b):
    return (a[0] == b[0] or a[1] == b[1]) and abs(a[0] - b[0]) < 130 and abs(a[1] - b[1]) < 100


def shifted(graph, by):
    lines = shapely.transform(graph.lines, lambda xy: xy + by)
    return RoadGraph(UTM, graph.nodes + by, graph.ends, lines, graph.attributes)


weights = st.sampled_from(["length_m", "travel_time_s"])


@given(street_grids(), weights)
@settings(deadline=None)
def test_a_graph_scores_one_against_itself(graph, weight):
    result = apls(graph, graph, weight=weight)
    assert directions(result) == pytest.approx((1, 1), abs=1e-9)


@given(street_grids(), street_grids(), weights)
@settings(deadline=None)
def test_swapping_the_graphs_swaps_the_directions(reference, predicted, weight):
    there, back = (
        apls(reference, predicted, weight=weight),
        apls(predicted, reference, weight=weight),
    )
    assert directions(there) == directions(back)[::-1]
    assert there.score == back.score


@given(street_grids(), street_grids(), weights, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_nodes_and_the_way_an_edge_is_drawn_change_nothing(
    reference, predicted, weight, random
):
    predicted = shifted(predicted, (1.3, -0.7))
    order = np.array(random.sample(range(len(predicted.nodes)), len(predicted.nodes)))
    ends = np.argsort(order)[predicted.ends][:, ::-1]
    lines = shapely.reverse(predicted.lines)
    drawn_anew = RoadGraph(UTM, predicted.nodes[order], ends, lines, predicted.attributes)
    expected = directions(apls(reference, predicted, weight=weight))
    assert directions(apls(reference, drawn_anew, weight=weight)) == pytest.approx(expected)


@pytest.fixture(scope="module")
def facts():
    data = os.environ.get("ROADSEG_DATA", Path(__file__).parents[3] / "shared" / "data")
    folder = Path(data).parent / "facts"
    if not (folder / "apls_reference.json").exists():
        pytest.skip(f"no apls_reference.json in {folder}; set ROADSEG_DATA to the folder beside it")
    return folder


def recorded_graph(facts, name):
    """Read a graph of the reference code: its lines may run from v to u, its times are geodesic."""
    stored = json.loads((facts / "apls" / "graphs_fixed" / f"{name}.json").read_text())
    nodes = np.array([node[1:3] for node in stored["nodes"]])
    row = {node[0]: row for row, node in enumerate(stored["nodes"])}
    ends = np.array([(row[edge["u"]], row[edge["v"]]) for edge in stored["edges"]])
    coords = [np.array(edge["coords"]) for edge in stored["edges"]]
    for points, (start, _) in zip(coords, ends, strict=True):
        to_first, to_last = np.linalg.norm(points[[0, -1]] - nodes[start], axis=1)
        points[:] = points[:: 1 if to_first <= to_last else -1].copy()
    lines = np.array([shapely.LineString(points) for points in coords], dtype=object)
    speed_mps = np.array([edge["speed"] for edge in stored["edges"]], dtype=float)
    return RoadGraph(UTM, nodes, ends, lines, {"travel_time_s": shapely.length(lines) / speed_mps})


CHIPS = ["img990", "img991", "img995", "img997", "img0_json_wkt"]
RECORDED = [
    *(("length_m", "repaired_length", "", chip) for chip in [*CHIPS, "img0_json_pkl"]),
    *(("travel_time_s", "repaired_travel_time", "tt_", chip) for chip in CHIPS),
]


@pytest.mark.real
@pytest.mark.parametrize(("weight", "key", "prefix", "chip"), RECORDED)
def test_vegas_chips_score_as_recorded_from_the_repaired_reference_code(
    facts, weight, key, prefix, chip
):
    cases = json.loads((facts / "apls_reference.json").read_text())["cases"]
    expected = cases[chip][key]["apls"]
    sides = (recorded_graph(facts, f"{prefix}{chip}_{side}") for side in ("gt", "prop"))
    result = apls(*sides, weight=weight)
    recorded = expected["gt_onto_prop"], expected["prop_onto_gt"]
    assert directions(result) == pytest.approx(recorded, abs=1e-6)
    assert result.score == pytest.approx(expected["total"], abs=1e-6)
