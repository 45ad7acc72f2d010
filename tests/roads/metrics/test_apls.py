"""APLS on graphs small enough to work out by hand, on recorded ones, and what must not matter."""

import json
from unittest.mock import patch

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics import apls as module
from roadseg.roads.metrics.apls import Apls, apls, apls_by, pool_apls
from tests.drawing import UTM, edges_of, street_pieces

PIXEL = 0.31  # metres of a toy pixel: the toys are those of the SpaceNet 3 scorer
ROAD = [(0, 0), (500, 0)]
LONG = [(0, 0), (500, 0), (1000, 0)]
LOOP = [(500, 0), (700, 0), (700, 200), (500, 200), (500, 0)]


def drawn(*roads, scale=1.0, seconds=None):
    """Draw a graph: one edge a road, a node at each different end."""
    columns = {} if seconds is None else {"travel_time_s": np.array(seconds, dtype=float)}
    return edges_of(*(scale * np.array(road, dtype=float) for road in roads), **columns)


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


ROUND_ABOUT, DIAGONAL = [(0, -2), (15, -30), (30, -2)], [(0, 40), (40, 0)]


@pytest.mark.parametrize(
    ("road", "roads"),
    [
        ([(0, 0), (30, 0)], [[(0, 2), (30, 2)], ROUND_ABOUT]),
        # The middle of the road lies on both diagonals, of which one goes further.
        ([(0, 0), (40, 40)], [[(0, 0), (40, 40)], DIAGONAL, [(0, 40), (0, 90)]]),
    ],
    ids=["between two equally near roads", "where two roads cross"],
)
def test_a_point_is_put_on_the_same_road_in_any_order(road, roads):
    assert apls(drawn(road), drawn(*roads)) == apls(drawn(road), drawn(*roads[::-1]))


def test_parallel_edges_both_hold_control_points_and_the_shorter_one_carries_routes():
    stubs = [(-10, 0), (0, 0)], [(30, 0), (40, 0)]
    short, bow = [(0, 0), (30, 0)], [(0, 0), (0, 30), (30, 30), (30, 0)]
    both = drawn(*stubs, bow, short)
    assert apls(both, both).score == pytest.approx(1)
    # the middle of the bow is missing on the short edge: 4 of 10 pairs
    assert directions(apls(both, drawn(*stubs, short))) == pytest.approx((6 / 10, 1))
    # on the bow alone it is found, but what went over the short edge is three times as far
    assert directions(apls(both, drawn(*stubs, bow)))[0] == pytest.approx(6 / 10)


def test_a_ring_by_itself_has_control_points_at_its_corners_however_it_is_drawn():
    """A square of 4 x 30 m has 12 pairs, 4 of them along the one side that is predicted."""
    square, side = [(0, 0), (30, 0), (30, 30), (0, 30), (0, 0)], drawn([(0, 0), (30, 0)])
    from_side = [(0, 15), (0, 0), (30, 0), (30, 30), (0, 30), (0, 15)]
    halves = [(0, 15), (0, 0), (30, 0), (30, 30)], [(30, 30), (0, 30), (0, 15)]
    for ring in (drawn(square), drawn(from_side), drawn(*halves)):
        result = apls(ring, side)
        assert (result.reference_points, result.reference_to_predicted) == (4, 2 / 12)


PIECES = [(0, 0), (40, 0)], [(40, 0), (80, 0)]
JUNCTION = [(0, 0), (100, 0)], [(100, 0), (300, 0)], [(100, 0), (100, 90)]


@pytest.mark.parametrize(
    ("reference", "predicted", "weight", "score"),
    [
        (drawn(ROAD), drawn(ROAD, ROAD), "length_m", 1),
        (drawn(ROAD), drawn(ROAD, ROAD[::-1]), "length_m", 1),
        (drawn(*JUNCTION), drawn(JUNCTION[0][::-1], *JUNCTION[1:]), "length_m", 1),
        (drawn(ROAD), drawn([(500, 0), (500, 0)], ROAD), "length_m", 1),
        (drawn(ROAD, seconds=[20]), drawn(ROAD, ROAD, seconds=[40, 20]), "travel_time_s", 1),
        (
            drawn(*PIECES, seconds=[4, 8]),
            drawn([(0, 0), (80, 0)], seconds=[12]),
            "travel_time_s",
            1,
        ),
        (drawn(ROAD, seconds=[4]), drawn(ROAD, seconds=[400]), "length_m", 1),
        (drawn(ROAD, seconds=[4]), drawn(ROAD, seconds=[400]), "travel_time_s", 0),
        (drawn(ROAD, seconds=[4]), EMPTY, "travel_time_s", 0),
    ],
    ids=[
        *("drawn twice", "drawn twice, the other way", "one of three the other way"),
        "an edge without length",
        *("of two the faster", "seconds of pieces add up", "length takes no notice of time"),
        *("time does", "an empty graph needs no times"),
    ],
)
def test_roads_score_by_their_weight(reference, predicted, weight, score):
    assert apls(reference, predicted, weight=weight).score == score


ELSEWHERE = RoadGraph(CRS.from_epsg(32612), EMPTY.nodes, EMPTY.ends, EMPTY.lines)
BY_TIME = {"weight": "travel_time_s"}


@pytest.mark.parametrize(
    ("reference", "predicted", "options", "told"),
    [
        (drawn(ROAD, seconds=[4]), drawn(ROAD), BY_TIME, "no travel_time_s"),
        *(
            (EMPTY, drawn(ROAD, seconds=[bad]), BY_TIME, "finite and not negative")
            for bad in (-1, np.nan, np.inf)
        ),
        (drawn(ROAD), drawn(ROAD), {"spacing_m": 0}, "must be above 0"),
        (drawn(ROAD), drawn(ROAD), {"snap_m": 0}, "must be above 0"),
        (drawn(ROAD), drawn(ROAD), {"snap_m": np.nan}, "must be above 0"),
        (EMPTY, ELSEWHERE, {}, r"the CRSs differ: .*11N and .*12N"),
    ],
)
def test_what_cannot_be_compared_is_turned_down(reference, predicted, options, told):
    with pytest.raises(ValueError, match=told):
        apls(reference, predicted, **options)


def test_nodes_at_no_distance_are_right_if_they_are_at_no_distance_again():
    """Two junctions are 0 s apart; where that takes a second, two of 30 ordered pairs are wrong."""
    streets = [[(x, 0), (x, 30)] for x in (0, 20)] + [[(x, -30), (x, 0)] for x in (0, 20)]
    at_once = drawn([(0, 0), (20, 0)], *streets, seconds=[0, 1e9, 1e9, 1e9, 1e9])
    slowly = drawn([(0, 0), (20, 0)], *streets, seconds=[1, 1e9, 1e9, 1e9, 1e9])
    assert apls(at_once, at_once, weight="travel_time_s").score == 1
    there = apls(at_once, slowly, weight="travel_time_s").reference_to_predicted
    assert there == pytest.approx(28 / 30)


def test_a_missing_prediction_scores_zero_even_where_there_is_no_road():
    assert apls(drawn(ROAD), None) == apls(EMPTY, None) == Apls(0, 0, 0)
    assert pool_apls([]) == Apls(1, 1, 1)


def test_the_score_is_the_same_in_blocks_of_one_source(monkeypatch):
    reference, predicted = toy(LONG, LOOP), toy(ROAD, [(500, 0), (640, 3), (640, 190), (510, 190)])
    at_once = apls(reference, predicted)
    monkeypatch.setattr(module, "CELLS_AT_ONCE", 1)
    assert directions(apls(reference, predicted)) == pytest.approx(directions(at_once))
    assert 0 < at_once.score < 1


def blocks(rows, cols, *, dropped=()):
    """Draw the streets between blocks of 60 x 80 m, less those dropped."""
    across = [[(60 * c, 80 * r), (60 * c + 60, 80 * r)] for r in range(rows) for c in range(cols)]
    along = [[(60 * c, 80 * r), (60 * c, 80 * r + 80)] for r in range(rows) for c in range(cols)]
    return drawn(*(road for row, road in enumerate(across + along) if row not in dropped))


TOWN, WITH_GAPS = blocks(6, 6), blocks(6, 6, dropped=(3, 8, 17, 30, 41, 44, 59, 60))


def sampled(seed, points=40, exact=0, graphs=(TOWN, WITH_GAPS)):
    limits = {"_SEED": seed, "SAMPLED_POINTS": points, "EXACT_POINTS": exact}
    with patch.multiple(module, **limits):
        return apls(*graphs)


@pytest.mark.parametrize(("limit", "sources"), [(119, 119), (118, 20)])
def test_nothing_is_sampled_up_to_and_including_the_stated_size(limit, sources):
    result = sampled(0, points=20, exact=limit)
    assert (result.reference_points, result.reference_sources) == (119, sources)
    assert (result.score_margin > 0) == (sources == 20)
    assert sampled(0, points=20, exact=limit) == result


# Of the second town the prediction is small enough to be exact, and one direction scores more.
@pytest.mark.parametrize(
    ("predicted", "limit", "widest"), [(WITH_GAPS, 0, 0.1), (blocks(6, 3), 100, 0.2)]
)
def test_nine_of_ten_intervals_or_more_hold_the_exact_score(predicted, limit, widest):
    exact = apls(TOWN, predicted).score
    drawn = [sampled(seed, exact=limit, graphs=(TOWN, predicted)) for seed in range(50)]
    bounds = [result.interval for result in drawn]
    assert sum(low <= exact <= high for low, high in bounds) >= 45
    assert max(high - low for low, high in bounds) < widest


def test_a_sample_of_all_points_is_exact():
    result, exact = sampled(0, points=119), apls(TOWN, WITH_GAPS)
    assert directions(result) == pytest.approx(directions(exact), abs=1e-12)
    assert result.score_margin == exact.score_margin == 0


def test_pooled_scores_are_means_and_their_margins_shrink():
    pooled = pool_apls([Apls(0.6, 0.5, 0.7, 0.03, 9, 8, 7, 6), Apls(0.8, 0.7, 1, 0.04)])
    assert (pooled.score, *directions(pooled)) == pytest.approx((0.7, 0.6, 0.85))
    assert pooled.score_margin == pytest.approx(0.025)
    assert (pooled.reference_points, pooled.predicted_sources) == (9, 6)


@st.composite
def street_grids(draw):
    """Some streets of a 3 x 3 grid of blocks, bowed ones and loops among them, none crossing."""
    corners, pieces = street_pieces((0, 70, 190), (0, 40, 130))
    loops = [[(x, y), (x - 4, y - 30), (x - 19, y - 18), (x, y)] for x, y in corners]
    roads = draw(st.lists(st.sampled_from(pieces + loops), min_size=1, unique_by=str))
    return drawn(*roads, seconds=[draw(st.floats(0.5, 90)) for _ in roads])


def shifted(graph, by):
    lines = shapely.transform(graph.lines, lambda xy: xy + by)
    return RoadGraph(UTM, graph.nodes + by, graph.ends, lines, graph.attributes)


weights = st.sampled_from(["length_m", "travel_time_s"])


@given(street_grids(), street_grids(), weights)
@settings(max_examples=40)
def test_swapping_the_graphs_swaps_the_directions(reference, predicted, weight):
    there, back = (
        apls(reference, predicted, weight=weight),
        apls(predicted, reference, weight=weight),
    )
    assert directions(there) == directions(back)[::-1]
    assert there.score == back.score


@given(street_grids(), street_grids(), weights, st.randoms(use_true_random=False))
@settings(max_examples=40)
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


def test_scores_by_two_weights_are_those_by_each():
    reference, predicted = drawn(ROAD, [(0, 0), (0, 90)], seconds=[4, 9]), drawn(ROAD, seconds=[5])
    weights = ["travel_time_s", "length_m"]
    both = apls_by(weights, reference, predicted)
    assert both == [apls(reference, predicted, weight=weight) for weight in weights]
    assert both[0] != both[1]


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
