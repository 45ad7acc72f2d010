"""All measures of two sides together: connectivity, and pooling."""

import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roadseg.roads.graph.road_graph import graph_from_lines, separate_edges
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.metrics.compare import Side, compare, pool
from roadseg.roads.options import CompareOptions
from tests.drawing import UTM, drawn, lines_of

ROAD = [(0, 0), (300, 0)]
BROKEN = [[(0, 0), (100, 0)], [(150, 0), (300, 0)]]


def driven(*roads):
    """Draw roads that are driven at 40 km/h."""
    graph = drawn(*roads)
    return add_travel(graph, np.full(len(graph.lines), 40.0))


def compared(reference, predicted, **options):
    ours, theirs = (driven(*roads) for roads in (reference, predicted))
    return compare(Side(ours, ours), Side(theirs, theirs), CompareOptions(**options))


def test_connectivity_is_the_ratio_of_the_shares_of_the_largest_parts():
    assert compared([ROAD], BROKEN).connectivity == pytest.approx(0.6)


def test_false_connections_raise_connectivity_above_1():
    assert compared(BROKEN, [ROAD]).connectivity == pytest.approx(1 / 0.6)


@pytest.mark.parametrize(
    ("sides", "expected"), [(([], []), 1), (([ROAD], []), 0), (([], [ROAD]), 0)]
)
def test_connectivity_of_nothing_is_1_if_there_is_nothing_on_either_side(sides, expected):
    assert compared(*sides).connectivity == expected


def test_largest_parts_of_several_places_add_up():
    both = pool([compared([ROAD], [ROAD]), compared([ROAD], BROKEN)])
    assert both.predicted.largest_share == pytest.approx((300 + 150) / (300 + 250))


def test_breaks_of_several_places_are_per_km_of_all_of_them():
    both = pool([compared([ROAD], [ROAD]), compared([ROAD], BROKEN)])
    assert both.breaks.per_km == pytest.approx(1 / 0.6)


def test_of_roads_that_are_drawn_twice_no_more_is_assumed_than_there_is():
    graph = driven(ROAD)
    side = Side(graph, driven(ROAD, ROAD), assumed_m=600.0)
    assert compare(side, side, CompareOptions()).reference.assumed_speed_km == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("options", "points", "snaps", "is_near", "breaks"),
    [
        ({}, 7, False, False, 0),
        ({"spacing_m": 100.0}, 4, False, False, 0),
        ({"snap_m": 6.0}, 7, True, False, 0),
        ({"tolerance_m": 6.0}, 7, False, True, 1),
    ],
)
def test_each_option_counts_for_its_measures(options, points, snaps, is_near, breaks):
    found = compared([ROAD], np.add(BROKEN, (0, 6)), **options)
    assert found.length.reference_points == found.time.reference_points == points
    assert (found.length.score > 0, found.time.score > 0) == (snaps, snaps)
    assert (found.buffer.completeness > 0, found.breaks.count) == (is_near, breaks)


# Streets that cross, touch, overlap and repeat each other and themselves, noded or not.
crossings = st.tuples(*[st.sampled_from([0, 45, 90, 180])] * 2)
drawings = st.lists(crossings, min_size=2, max_size=5).filter(lambda road: len(set(road)) > 1)
BESIDE = [[(x, 0), (x, 180)] for x in (0, 90, 180)] + [[(0, y), (180, y)] for y in (0, 90, 180)]
AGAINST_ITSELF = {"breaks": 0, "breaks_per_km": 0}  # All other figures are shares.


@given(st.lists(st.tuples(drawings, st.floats(5, 120)), min_size=1, max_size=9))
@example([(road, 40.0) for road in [*BESIDE, [(0, 0), (90, 90)]]])
@example([([(180, 45), (180, 0), (180, 90)], 40.0)])
@settings(max_examples=25)
def test_roads_score_exactly_1_against_themselves_however_they_are_drawn(roads):
    lines = lines_of(*(road for road, _ in roads))
    seconds = shapely.length(lines) / np.array([kph / 3.6 for _, kph in roads])
    noded = graph_from_lines(lines, UTM, {"travel_time_s": seconds})
    side = Side(noded, separate_edges(lines, noded.crs, {"travel_time_s": seconds}))
    figures = compare(side, side, CompareOptions()).figures
    assert figures.pop("reference_km") == figures.pop("predicted_km")
    assert {name: value for name, value in figures.items() if value is not None} == {
        name: AGAINST_ITSELF.get(name, 1) for name in figures if figures[name] is not None
    }
