"""TOPO on drawn roads, and against values recorded from the code of Sat2Graph and SAM-Road."""

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.metrics.topo import count_matched, topo
from tests.drawing import edges_of

ROAD = [(0, 0), (200, 0)]
CROSS = [[(0, 0), (100, 0)], [(100, 0), (200, 0)], [(100, 0), (100, 90)], [(100, 0), (100, -90)]]
METRE = 1.11111  # of the source
RING = [(0, 0), (90, 0), (90, 90), (0, 0)]


def shares(found):
    return found.precision, found.recall, found.f1


EMPTY = edges_of()


def test_a_road_has_a_start_in_about_50_m():
    assert topo(edges_of(ROAD), EMPTY).starts == 2 * 3  # of a single segment, met from both ends
    assert topo(edges_of([(0, 0), (90, 0), (200, 0)]), EMPTY).starts == 3


@pytest.mark.parametrize(("length", "starts"), [(24.9, 0), (25.1, 1), (99.9, 1), (100.1, 2)])
def test_short_chains_have_no_start(length, starts):
    bent = [(0, 0), (METRE * length / 3, 0), (METRE * length, 0)]
    assert topo(edges_of(bent), EMPTY).starts == starts


@pytest.mark.parametrize(
    ("reference", "predicted", "perfect", "other"),
    [
        (CROSS, CROSS[:3], "precision", "recall"),
        (CROSS[:2], CROSS, "recall", "precision"),
    ],
    ids=["a road that is missing", "a road too many"],
)
def test_a_missing_road_costs_recall_only_and_one_too_many_precision(
    reference, predicted, perfect, other
):
    found = topo(edges_of(*reference), edges_of(*predicted))
    assert getattr(found, perfect) == 1
    assert 0.5 < getattr(found, other) < 1
    assert found.recall == found.coverage * found.matched_recall


@pytest.mark.parametrize(("aside", "coverage"), [(9.9, 1), (10.1, 0)])
def test_a_start_is_found_within_10_m(aside, coverage):
    assert (
        topo(edges_of(ROAD), edges_of([(0, METRE * aside), (200, METRE * aside)])).coverage
        == coverage
    )


@pytest.mark.parametrize(("rise", "coverage"), [(0.28, 1), (0.3, 0)])
def test_a_start_is_found_on_a_road_of_its_direction(rise, coverage):
    bent, turned = [(0, 0), (15, 0), (30, 0)], [(0, -15 * rise), (30, 15 * rise)]
    assert topo(edges_of(bent), edges_of(turned)).coverage == coverage


def test_a_gap_ends_the_walk():
    whole = edges_of([(0, 0), (150, 0), (300, 0)])
    gap = edges_of([(0, 0), (145, 0)], [(155, 0), (300, 0)])
    assert topo(whole, gap).precision == 1
    assert topo(whole, gap).matched_recall < topo(whole, whole).matched_recall == 1


def test_what_lies_beyond_the_radius_is_not_looked_at():
    road = [(0, 0), (20, 0), (40, 0)]
    longer = edges_of([*road, (340, 0)])
    assert topo(edges_of(road), longer, radius_m=15).precision == 1
    assert topo(edges_of(road), longer, radius_m=150).precision < 0.6


@pytest.mark.parametrize(
    ("reference", "predicted", "expected"),
    [
        (EMPTY, EMPTY, 1),
        (EMPTY, edges_of(ROAD), 0),
        (edges_of(ROAD), EMPTY, 0),
        (edges_of(RING), edges_of(RING), 1),
        (edges_of(RING), edges_of(ROAD), 0),
    ],
    ids=["both empty", "reference empty", "predicted empty", "rings", "ring and road"],
)
def test_a_side_without_starts_is_empty(reference, predicted, expected):
    assert shares(topo(reference, predicted)) == (expected, expected, expected)


@pytest.mark.parametrize("radius_m", [0, np.nan])
def test_the_radius_must_be_above_0(radius_m):
    with pytest.raises(ValueError, match="radius_m must be above 0"):
        topo(EMPTY, EMPTY, radius_m=radius_m)


def recorded_graph(facts, name, without=()):
    stored = json.loads((facts / "apls" / "graphs_fixed" / f"{name}.json").read_text())
    edges = [edge for edge in stored["edges"] if (edge["u"], edge["v"]) != without]
    return edges_of(*[edge["coords"] for edge in edges])


def sample_graph(facts, name):
    nodes, edges = json.loads((facts / "apls" / f"sam_road_{name}.json").read_text())
    south, east = (np.array(nodes).T - [[41], [-71]]) * 111111
    xy = np.column_stack([east * np.cos(np.radians(41)), south])
    return edges_of(*xy[edges])


def as_recorded(found, facts, *keys):
    recorded = json.loads((facts / "apls_reference.json").read_text())
    for key in keys:
        recorded = recorded[key]
    names = "precision", "recall_matched", "coverage", "overall_recall", "f1"
    values = found.precision, found.matched_recall, found.coverage, found.recall, found.f1
    assert values == pytest.approx([recorded[name] for name in names], abs=1e-9)
    assert found.starts == recorded["n_starts"]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 29)), unique=True))
def test_as_many_points_of_each_start_as_can_be_are_matched(pairs):
    start = np.repeat([0, 2, 3], [8, 7, 5])  # Of 20 points; no start 1.
    own, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    expected = []
    for each in range(4):
        graph = nx.Graph(
            (f"a{a}", f"b{b}") for a, b in zip(own, other, strict=True) if start[a] == each
        )
        expected.append(len(nx.max_weight_matching(graph)))
    assert count_matched(own, other, start, 4).tolist() == expected


@pytest.mark.real
@pytest.mark.parametrize("chip", ["img990", "img991", "img995", "img997"])
def test_vegas_chips_score_as_recorded(facts, chip):
    found = topo(*(recorded_graph(facts, f"{chip}_{side}") for side in ("gt", "prop")))
    as_recorded(found, facts, "cases", chip, "sat2graph_topo")


@pytest.mark.real
@pytest.mark.parametrize(
    ("chip", "lost"), [("img0_json_wkt", (42, 43)), ("img0_json_pkl", (10042, 10043))]
)
def test_the_first_chip_scores_as_recorded_without_the_edge_that_the_recording_lost(
    facts, chip, lost
):
    found = topo(recorded_graph(facts, f"{chip}_gt", lost), recorded_graph(facts, f"{chip}_prop"))
    as_recorded(found, facts, "cases", chip, "sat2graph_topo")


@pytest.mark.real
def test_the_sample_of_sam_road_scores_as_recorded(facts):
    found = topo(*(sample_graph(facts, name) for name in ("gt", "prop")))
    as_recorded(found, facts, "sam_road_bundled", "topo")
