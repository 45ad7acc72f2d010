import numpy as np
import pytest
import shapely

from roadseg.roads.graph.road_graph import graph_from_lines, take_edges
from roadseg.roads.logistic import (
    DEAD_ENDS,
    EDGE_TERMS,
    IS_LINK,
    LENGTH,
    LOWEST,
    MEAN,
    MET,
    STRAIGHTNESS,
    WIDTH,
    LogisticModel,
    log_odds,
)
from roadseg.roads.tracing.edge_confidence import (
    edge_terms,
    general_edge_model,
    keep_likely,
    mean_confidence,
    with_confidence,
)
from tests.drawing import drawn

BORDER = shapely.box(0, -50, 200, 50).exterior


def measured(*roads, **columns):
    """Draw measured edges: certain roads 4 m wide, unless columns say otherwise."""
    usual = {
        "inferred": np.zeros(len(roads), dtype=np.uint8),
        "confidence": np.full(len(roads), np.nan),
        **{name: np.ones(len(roads)) for name in ("probability", "min_probability")},
        "width_m": np.full(len(roads), 4.0),
    }
    return drawn(*roads, **(usual | columns))


WEST, EAST = [(0, 0), (100, 0)], [(100, 0), (160, 0)]


def terms(*roads, **columns):
    return edge_terms(measured(*roads, **columns), BORDER)


def test_all_terms_are_known_by_name():
    assert tuple(terms(WEST)) == EDGE_TERMS
    assert set(general_edge_model().coefficients) == set(EDGE_TERMS)


def test_probabilities_along_an_edge_are_log_odds():
    found = terms(WEST, probability=[0.8], min_probability=[0.3])
    assert found[MEAN] == log_odds(np.array([0.8]))
    assert found[LOWEST] == log_odds(np.array([0.3]))
    assert found[MET] == log_odds(np.array(0.0))  # It meets no road.


def test_lengths_and_widths_below_a_metre_are_alike_and_an_unknown_width_is_that_of_a_line():
    roads = [(0, 0), (0.5, 0)], [(0, 9), (np.e, 9)], [(0, 19), (1, 19)]
    found = terms(*roads, width_m=[0.2, np.e, np.nan], inferred=[0, 1, 0])
    assert found[LENGTH] == pytest.approx([0, 1, 0], abs=1e-3)
    assert found[WIDTH] == pytest.approx([0, 1, 0])
    assert found[IS_LINK].tolist() == [0, 1, 0]


def test_an_edge_knows_the_mean_probability_of_those_that_it_meets():
    third = [(100, 0), (100, 30)]
    found = terms(WEST, EAST, third, probability=[0.5, 0.9, 0.6])
    assert found[MET][0] == pytest.approx(log_odds(np.array((60 * 0.9 + 30 * 0.6) / 90)))


def test_a_straight_road_has_a_straightness_of_1_and_a_detour_less():
    assert terms(WEST)[STRAIGHTNESS] == 1
    assert terms([(0, 0), (30, 40), (60, 0)])[STRAIGHTNESS] == pytest.approx(0.6)


@pytest.mark.parametrize(("x", "ends"), [(198.1, 1), (197.9, 2)])
def test_a_dead_end_within_2_m_of_the_border_is_none(x, ends):
    assert terms([(100, 0), (x, 0)])[DEAD_ENDS] == ends


def test_confidence_is_what_the_model_says():
    graph = with_confidence(measured(WEST, EAST), LogisticModel(0.0, {LENGTH: 1.0}), BORDER)
    assert graph.attributes["confidence"] == pytest.approx([100 / 101, 60 / 61])


def test_long_roads_count_more_in_the_mean_confidence():
    graph = measured([(0, 0), (90, 0)], [(0, 50), (10, 50)], confidence=[0.9, 0.4])
    assert mean_confidence(graph) == pytest.approx(0.85)


def test_without_roads_or_without_their_confidence_there_is_no_mean():
    roads = measured(WEST, EAST)
    assert mean_confidence(graph_from_lines(roads.lines, roads.crs)) is None
    none = take_edges(measured(WEST, EAST, confidence=[0.9, 0.4]), np.zeros(2, dtype=bool))
    assert mean_confidence(none) is None


@pytest.mark.parametrize(("min_confidence", "kept"), [(0.3, 3), (0.301, 2)])
def test_links_that_are_less_sure_go(min_confidence, kept):
    graph = measured(
        WEST, EAST, [(160, 0), (199, 0)], inferred=[0, 1, 0], confidence=[1.0, 0.3, 1.0]
    )
    assert len(keep_likely(graph, BORDER, min_confidence=min_confidence).lines) == kept


@pytest.mark.parametrize(("min_confidence", "kept"), [(0.3, 4), (0.301, 3), (0.95, 0)])
def test_dead_ends_that_are_less_sure_go(min_confidence, kept):
    graph = measured(
        WEST, EAST, [(160, 0), (190, 0)], [(100, 0), (100, 40)], confidence=[0.9, 0.9, 0.9, 0.3]
    )
    assert len(keep_likely(graph, BORDER, min_confidence=min_confidence).lines) == kept


def test_a_doubtful_dead_end_of_several_edges_goes_as_a_whole():
    graph = measured(
        [(0, 0), (100, 0)],
        [(100, 0), (110, 0)],
        [(110, 0), (150, 0)],
        [(110, 0), (110, 40)],
        confidence=[0.9, 0.1, 0.1, 0.1],
    )
    assert keep_likely(graph, BORDER, min_confidence=0.2).length_m.tolist() == [100]


def test_a_doubtful_road_that_leaves_the_scene_stays():
    graph = measured(
        [(0, 0), (22, 0)], [(22, 0), (22, 40)], [(22, 0), (90, 0)], confidence=[0.1] * 3
    )
    assert keep_likely(graph, BORDER, min_confidence=0.2).length_m.tolist() == []
    graph = measured(
        [(0, 0), (22, 0)], [(22, 0), (22, 40)], [(22, 0), (90, 0)], confidence=[0.1, 0.1, 0.9]
    )
    assert keep_likely(graph, BORDER, min_confidence=0.2).length_m.tolist() == [22, 68]


def test_a_doubtful_way_between_sure_roads_stays():
    graph = measured(
        [(0, 0), (100, 0)],
        [(100, 0), (150, 0)],
        [(150, 0), (250, 0)],
        confidence=[0.9, 0.1, 0.9],
    )
    assert len(keep_likely(graph, BORDER, min_confidence=0.2).lines) == 3


def test_a_link_goes_that_landed_on_an_unlikely_one():
    graph = measured(
        [(0, 0), (100, 0)],
        [(100, 0), (110, 0)],
        [(110, 0), (120, 0)],
        [(110, 40), (110, 0)],
        inferred=[0, 1, 1, 1],
        confidence=[1.0, 0.1, 0.1, 0.9],
    )
    assert keep_likely(graph, BORDER, min_confidence=0.2).length_m.tolist() == [100]
