import numpy as np
import pytest
import shapely

from roadseg.roads.tracing.dead_ends import find_dead_ends
from tests.drawing import drawn


def test_a_dead_end_heads_where_its_last_15_metres_lead():
    ends = find_dead_ends(drawn([(0, 0), (50, 0), (50, 15), (50, 30)]), None)
    east = ends.place[:, 0] == 50
    assert ends.heading[east] == pytest.approx(np.array([[0, 1]]))
    assert ends.heading[~east] == pytest.approx(np.array([[-1, 0]]))


@pytest.mark.parametrize(("border_m", "expected"), [(2.9, 2), (3.0, 1)])
def test_ends_up_to_some_distance_from_the_border_are_none(border_m, expected):
    border = shapely.LineString([(-3, -9), (-3, 9)])
    assert len(find_dead_ends(drawn([(0, 0), (50, 0)]), border, border_m).edge) == expected
