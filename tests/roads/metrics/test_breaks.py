"""Breaks of drawn roads, counted by hand."""

import pytest
from pyproj import CRS

from roadseg.roads.metrics.breaks import Breaks, count_breaks
from tests.drawing import drawn

ROAD = [(0, 0), (300, 0)]
CROSS = [[(0, 0), (150, 0), (300, 0)], [(150, -100), (150, 0), (150, 100)]]
TEE = [[(0, 0), (150, 0), (300, 0)], [(150, 0), (150, 100)]]


def count(reference, predicted):
    return count_breaks(drawn(*reference), drawn(*predicted)).count


@pytest.mark.parametrize("roads", [[ROAD], CROSS, TEE, [[(0, 0), (50, 0), (50, 50), (0, 0)]]])
def test_a_network_compared_with_itself_has_no_breaks(roads):
    assert count(roads, roads) == 0


@pytest.mark.parametrize("gap_m", [2, 30, 200])
def test_a_gap_counts_once_however_long_it_is(gap_m):
    assert count([ROAD], [[(0, 0), (40, 0)], [(40 + gap_m, 0), (300, 0)]]) == 1


def test_every_gap_of_a_road_counts():
    parts = [[(0, 0), (100, 0)], [(130, 0), (200, 0)], [(220, 0), (300, 0)]]
    assert count([ROAD], parts) == 2


def test_a_road_that_is_missing_has_no_breaks():
    assert count(CROSS, CROSS[:1]) == 0


def test_a_road_whose_dead_end_is_missing_has_no_breaks():
    assert count([ROAD], [[(0, 0), (100, 0)]]) == 0


def test_a_missing_road_between_two_found_roads_has_no_breaks():
    parallel = [[(0, 0), (150, 0), (300, 0)], [(0, 100), (150, 100), (300, 100)]]
    assert count([*parallel, [(150, 0), (150, 100)]], parallel) == 0


def test_a_missing_junction_breaks_both_roads_that_cross_there():
    arms = [[(0, 0), (140, 0)], [(160, 0), (300, 0)]]
    arms += [[(150, -100), (150, -10)], [(150, 10), (150, 100)]]
    assert count(CROSS, arms) == 2


def test_a_road_is_followed_straight_on_across_junctions():
    """The street between two cross streets is missing, of a street that goes on on both sides."""
    sides = [[(x, -60), (x, 0), (x, 60)] for x in (100, 200)]
    street = [(0, 0), (100, 0), (200, 0), (300, 0)]
    assert count([street, *sides], [street[:2], street[2:], *sides]) == 1


@pytest.mark.parametrize("short_m", [3, 20])
def test_a_road_that_stops_short_of_the_one_it_leads_to_has_a_break(short_m):
    assert count(TEE, [TEE[0], [(150, short_m), (150, 100)]]) == 1


def test_a_road_that_leads_to_a_missing_road_has_no_break():
    assert count(TEE, [[(150, 20), (150, 100)]]) == 0


@pytest.mark.parametrize(("aside_m", "expected"), [(25, 0), (26, 1)])
def test_a_short_way_around_a_gap_joins_its_ends(aside_m, expected):
    """From the place at 102.5 m to that at 142.5 m a way has at most 2 x 40 + 16 = 96 m."""
    around = [(0, 0), (100, 0), (100, aside_m), (145, aside_m), (145, 0), (300, 0)]
    assert count([ROAD], [around]) == expected


@pytest.mark.parametrize(("aside_m", "expected"), [(4, 1), (4.01, 0)])
def test_roads_within_the_tolerance_are_found(aside_m, expected):
    parts = [[(0, aside_m), (100, aside_m)], [(150, aside_m), (300, aside_m)]]
    assert count([ROAD], parts) == expected


def test_a_road_drawn_as_two_lanes_has_no_breaks():
    assert count([ROAD], [[(0, 3), (300, 3)], [(0, -3), (300, -3)]]) == 0


def test_lanes_that_are_not_joined_break_a_road_where_one_takes_over():
    assert count([ROAD], [[(0, 3), (160, 3)], [(140, -3), (300, -3)]]) == 1


@pytest.mark.parametrize(("length_m", "expected"), [(10, 0), (15, 1)])
def test_stretches_shorter_than_20_m_are_dropped(length_m, expected):
    """Places are found from 2.5 m before the road to 2.5 m behind it."""
    assert count([ROAD], [[(0, 0), (100, 0)], [(200, 0), (200 + length_m, 0)]]) == expected


def test_a_road_that_turns_off_at_a_small_angle_does_not_find_the_one_it_leaves():
    assert count([ROAD, [(0, 0), (200, 40)]], [ROAD]) == 0


def test_a_shifted_junction_is_no_break():
    across = [(150, -100), (150, 0), (150, 8), (150, 100)]
    assert count(CROSS, [[(0, 0), (150, 0)], [(150, 8), (300, 8)], across]) == 0


def test_breaks_are_counted_per_km_of_the_reference():
    breaks = count_breaks(drawn(ROAD), drawn([(0, 0), (100, 0)], [(150, 0), (300, 0)]))
    assert breaks.per_km == pytest.approx(1 / 0.3)


def test_found_roads_have_the_length_of_the_parts_around_found_places():
    found_km = count_breaks(drawn(ROAD), drawn([(0, 0), (100, 0)])).found_km
    assert found_km == pytest.approx(0.105)  # The place at 102.5 m is 2.5 m away.


@pytest.mark.parametrize("sides", [([], []), ([ROAD], []), ([], [ROAD])])
def test_breaks_per_km_are_unknown_where_nothing_is_found(sides):
    assert count_breaks(*(drawn(*side) for side in sides)).per_km is None


def test_breaks_of_two_places_add_up():
    assert Breaks(1, 2.0, 1.5) + Breaks(2, 1.0, 1.0) == Breaks(3, 3.0, 2.5)


def test_it_does_not_matter_where_roads_are_cut_into_edges():
    gap = [[(0, 0), (100, 0)], [(150, 0), (300, 0)]]
    cut = [[(0, 0), (60, 0)], [(60, 0), (100, 0)], [(300, 0), (150, 0)]]
    assert count([[(0, 0), (210, 0)], [(300, 0), (210, 0)]], cut) == count([ROAD], gap)


def test_roads_in_different_crss_cannot_be_compared():
    with pytest.raises(ValueError, match="the CRSs differ"):
        count_breaks(drawn(ROAD), drawn(ROAD, crs=CRS.from_epsg(32612)))


def test_a_tolerance_of_nothing_is_refused():
    with pytest.raises(ValueError, match="tolerance_m must be above 0, got 0"):
        count_breaks(drawn(ROAD), drawn(ROAD), tolerance_m=0)
