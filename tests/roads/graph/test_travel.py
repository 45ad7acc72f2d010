import numpy as np
import pytest
import shapely

from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel, travel_time_s, vote_speeds
from tests.drawing import UTM

SPEEDS = np.array([20.0, 50.0, 90.0])


def vote(*edges):
    return vote_speeds(np.array(edges), SPEEDS).tolist()


def test_the_likeliest_bin_of_each_edge_wins():
    assert vote([0.9, 0, 0.1], [0.3, 0, 0.6]) == [20, 90]


def test_of_equally_likely_bins_the_slower_wins():
    assert vote([0.2, 0.5, 0.5]) == [50]


@pytest.mark.parametrize(("evidence", "speed"), [(0.0499, np.nan), (0.05, 90)])
def test_too_little_evidence_gives_no_speed(evidence, speed):
    assert vote([0, 0, evidence]) == pytest.approx([speed], nan_ok=True)


def test_a_kilometre_at_36_km_per_hour_takes_100_seconds():
    assert travel_time_s(np.array([1000.0]), np.array([36.0])).tolist() == [100]


@pytest.mark.parametrize("speed", [0, -1, np.nan, np.inf])
def test_a_speed_that_is_not_above_zero_is_refused(speed):
    with pytest.raises(ValueError, match="above 0 km/h"):
        travel_time_s(np.array([1000.0]), np.array([speed]))


def test_travel_adds_two_attributes_and_keeps_the_others():
    drawn = np.array([shapely.LineString([(0, 0), (100, 0)])])
    graph = graph_from_lines(drawn, UTM, {"lanes": np.array([2])})
    travelled = add_travel(graph, np.array([36]))
    assert {k: v.tolist() for k, v in travelled.attributes.items()} == {
        "lanes": [2],
        "speed_kph": [36],
        "travel_time_s": [10],
    }
    assert list(graph.attributes) == ["lanes"]
