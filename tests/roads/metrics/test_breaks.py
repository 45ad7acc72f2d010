"""Breaks of drawn roads, counted by hand."""

import pytest

from roadseg.roads.metrics.breaks import count_breaks
from tests.drawing import drawn

ROAD = [(0, 0), (300, 0)]
CROSS = [[(0, 0), (150, 0), (300, 0)], [(150, -100), (150, 0), (150, 100)]]
TEE = [[(0, 0), (150, 0), (300, 0)], [(150, 0), (150, 100)]]


def count(reference, predicted):
    return count_breaks(drawn(*reference), drawn(*predicted)).count


@pytest.mark.parametrize("gap_m", [2, 30, 200])
def test_a_gap_counts_once_however_long_it_is(gap_m):
    assert count([ROAD], [[(0, 0), (40, 0)], [(40 + gap_m, 0), (300, 0)]]) == 1


ARMS = [[(0, 0), (140, 0)], [(160, 0), (300, 0)]]
ARMS += [[(150, -100), (150, -10)], [(150, 10), (150, 100)]]
PARALLEL = [[(0, 0), (150, 0), (300, 0)], [(0, 100), (150, 100), (300, 100)]]
SIDES = [[(x, -60), (x, 0), (x, 60)] for x in (100, 200)]
STREET = [(0, 0), (100, 0), (200, 0), (300, 0)]
ACROSS = [(150, -100), (150, 0), (150, 8), (150, 100)]


def around(aside_m):
    """From the place at 102.5 m to that at 142.5 m a way has at most 2 x 40 + 16 = 96 m."""
    return [[(0, 0), (100, 0), (100, aside_m), (145, aside_m), (145, 0), (300, 0)]]


def beside(aside_m):
    return [[(0, aside_m), (100, aside_m)], [(150, aside_m), (300, aside_m)]]


@pytest.mark.parametrize(
    ("reference", "predicted", "expected"),
    [
        ([ROAD], [[(0, 0), (100, 0)], [(130, 0), (200, 0)], [(220, 0), (300, 0)]], 2),
        (CROSS, CROSS[:1], 0),
        ([ROAD], [[(0, 0), (100, 0)]], 0),
        ([*PARALLEL, [(150, 0), (150, 100)]], PARALLEL, 0),
        (CROSS, ARMS, 2),
        ([STREET, *SIDES], [STREET[:2], STREET[2:], *SIDES], 1),
        (TEE, [TEE[0], [(150, 3), (150, 100)]], 1),
        (TEE, [TEE[0], [(150, 20), (150, 100)]], 1),
        (TEE, [[(150, 20), (150, 100)]], 0),
        ([ROAD], around(25), 0),
        ([ROAD], around(26), 1),
        ([ROAD], beside(4), 1),
        ([ROAD], beside(4.01), 0),
        ([ROAD], [[(0, 3), (300, 3)], [(0, -3), (300, -3)]], 0),
        ([ROAD], [[(0, 3), (160, 3)], [(140, -3), (300, -3)]], 1),
        # Places are found from 2.5 m before the road to 2.5 m behind it.
        ([ROAD], [[(0, 0), (100, 0)], [(200, 0), (210, 0)]], 0),
        ([ROAD], [[(0, 0), (100, 0)], [(200, 0), (215, 0)]], 1),
        ([ROAD, [(0, 0), (200, 40)]], [ROAD], 0),
        (CROSS, [[(0, 0), (150, 0)], [(150, 8), (300, 8)], ACROSS], 0),
    ],
    ids=[
        *("every gap of a road counts", "a missing road", "a missing dead end"),
        *("a missing road between two", "a missing junction breaks both roads that cross"),
        *("a road is followed straight on across junctions", "3 m short of the road it leads to"),
        *("20 m short of it", "a road that leads to a missing one", "a short way around a gap"),
        *("a longer way around", "within the tolerance", "beyond it", "two lanes"),
        *("lanes that are not joined", "a stretch shorter than 20 m", "a longer stretch"),
        *("a road that turns off at a small angle", "a shifted junction"),
    ],
)
def test_breaks_are_counted(reference, predicted, expected):
    assert count(reference, predicted) == expected


def test_breaks_are_counted_per_km_of_the_reference():
    breaks = count_breaks(drawn(ROAD), drawn([(0, 0), (100, 0)], [(150, 0), (300, 0)]))
    assert breaks.per_km == pytest.approx(1 / 0.3)


def test_found_roads_have_the_length_of_the_parts_around_found_places():
    found_km = count_breaks(drawn(ROAD), drawn([(0, 0), (100, 0)])).found_km
    assert found_km == pytest.approx(0.105)  # The place at 102.5 m is 2.5 m away.


@pytest.mark.parametrize("sides", [([], []), ([ROAD], []), ([], [ROAD])])
def test_breaks_per_km_are_unknown_where_nothing_is_found(sides):
    assert count_breaks(*(drawn(*side) for side in sides)).per_km is None


def test_it_does_not_matter_where_roads_are_cut_into_edges():
    gap = [[(0, 0), (100, 0)], [(150, 0), (300, 0)]]
    cut = [[(0, 0), (60, 0)], [(60, 0), (100, 0)], [(300, 0), (150, 0)]]
    assert count([[(0, 0), (210, 0)], [(300, 0), (210, 0)]], cut) == count([ROAD], gap)
