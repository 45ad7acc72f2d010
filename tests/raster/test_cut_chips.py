import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.raster.windows import cut_chips


@pytest.mark.parametrize(("side", "count"), [(1300, 1), (1301, 4), (2600, 4), (2601, 9)])
def test_a_scene_is_cut_when_it_is_larger_than_a_chip(side, count):
    assert len(cut_chips(side, side, chip_px=1300)) == count


def test_chips_come_row_by_row():
    assert cut_chips(10, 8, chip_px=5) == [
        (0, 0, 5, 4),
        (0, 4, 5, 4),
        (5, 0, 5, 4),
        (5, 4, 5, 4),
    ]


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 40))
def test_every_pixel_is_in_one_chip(height, width, chip_px):
    covered = np.zeros((height, width), dtype=int)
    for row, col, rows, cols in cut_chips(height, width, chip_px=chip_px):
        covered[row : row + rows, col : col + cols] += 1
    assert (covered == 1).all()


@given(st.integers(1, 5000), st.integers(1, 400))
def test_chips_are_of_nearly_one_size_and_none_too_large(width, chip_px):
    widths = [cols for *_, cols in cut_chips(1, width, chip_px=chip_px)]
    assert max(widths) <= chip_px
    assert max(widths) - min(widths) <= 1
