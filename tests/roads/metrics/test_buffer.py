"""Correctness, completeness and quality on drawn roads."""

from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.buffer import BufferMatch, lengths_near, match_lines
from tests.drawing import edges_of

ROAD = [(0, 0), (100, 0)]


def shares(found):
    return found.correctness, found.completeness, found.quality


EMPTY = edges_of()


@pytest.mark.parametrize(("aside", "expected"), [(4, 1), (4.01, 0)])
def test_the_tolerance_itself_is_near(aside, expected):
    found = match_lines(edges_of(ROAD), edges_of([(0, aside), (100, aside)]), tolerance_m=4)
    assert shares(found) == (expected, expected, expected)


@pytest.mark.parametrize(
    ("reference", "predicted", "tolerance_m", "near_m"),
    [
        # A crossing road 3 m beyond the end is near for 4 m to both sides.
        ([ROAD], [(103, -50), (103, 50)], 5, (8, 2)),
        ([ROAD], [(50, -50), (50, 50)], 4, (8, 8)),
        ([ROAD], [(0, 0), (40, 30)], 4, (4 * 5 / 3, 4 * 5 / 3)),
        ([ROAD, [(50, 2), (150, 2)]], [(0, 1), (150, 1)], 4, (150, 200)),
        ([[(0, 0), (108, 0)]], [(0, 0), (50, 0)], 4, (50, 54)),
    ],
    ids=["a round end", "a crossing road", "an inclined road", "near two roads", "half a road"],
)
def test_parts_within_the_tolerance_are_near(reference, predicted, tolerance_m, near_m):
    found = match_lines(edges_of(*reference), edges_of(predicted), tolerance_m=tolerance_m)
    assert (found.predicted_near, found.reference_near) == pytest.approx(near_m, abs=1e-5)


def test_correctness_is_of_the_prediction_and_completeness_of_the_reference():
    assert shares(BufferMatch(10, 6, 20, 8)) == pytest.approx((0.6, 0.4, 0.24 / 0.76))


def test_pairs_are_pooled_by_length():
    assert sum([BufferMatch(1, 2, 3, 4), BufferMatch(10, 20, 30, 40)], BufferMatch()) == (
        BufferMatch(11, 22, 33, 44)
    )


@pytest.mark.parametrize(
    ("reference", "predicted", "expected"),
    [(EMPTY, EMPTY, 1), (EMPTY, edges_of(ROAD), 0), (edges_of(ROAD), EMPTY, 0)],
    ids=["both empty", "reference empty", "predicted empty"],
)
def test_nothing_against_nothing_is_right_and_against_something_wrong(
    reference, predicted, expected
):
    assert shares(match_lines(reference, predicted)) == (expected, expected, expected)


points = st.tuples(st.integers(0, 60), st.integers(0, 60))
roads = st.lists(st.lists(points, min_size=2, max_size=4, unique=True), min_size=1, max_size=5)


@given(roads, roads, st.floats(1, 20))
@settings(max_examples=50)
def test_lengths_are_those_inside_the_buffer_polygon(lines, others, tolerance_m):
    """A polygon is a little smaller than the buffer, and with another 0.01 per mille larger.

    Pieces are looked at one by one, as shapely counts a line that turns back on itself once.
    """
    found = match_lines(edges_of(*others), edges_of(*lines), tolerance_m=tolerance_m).predicted_near
    radii = tolerance_m, tolerance_m * 1.00001 + 2e-6
    least, most = (shapely.MultiLineString(others).buffer(r, quad_segs=256) for r in radii)
    pieces = [shapely.LineString(two) for line in lines for two in pairwise(line)]
    inside = [shapely.length(shapely.intersection(pieces, area)) for area in (least, most)]
    assert inside[0].sum() - 1e-6 <= found <= inside[1].sum() + 1e-6


@pytest.mark.parametrize("tolerance_m", [0, np.nan])
def test_the_tolerance_must_be_above_0(tolerance_m):
    with pytest.raises(ValueError, match="must be above 0"):
        match_lines(EMPTY, EMPTY, tolerance_m=tolerance_m)


def test_graphs_in_different_crss_are_turned_down():
    elsewhere = RoadGraph(CRS.from_epsg(32612), EMPTY.nodes, EMPTY.ends, EMPTY.lines)
    with pytest.raises(ValueError, match=r"the CRSs differ: .*11N and .*12N"):
        match_lines(EMPTY, elsewhere)


def test_each_line_has_its_own_length_near_others():
    lines = edges_of([(0, 0), (10, 0)], [(0, 3), (40, 3)], [(0, 90), (10, 90)]).lines
    others = edges_of([(0, 0), (20, 0)], [(0, 1), (20, 1)]).lines
    # Round the end at (20, 1) the second line is near for nothing more, as it is 2 m aside.
    assert lengths_near(lines, others, tolerance_m=2) == pytest.approx([10, 20, 0], abs=0.01)
