import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from roadseg.raster.windows import Window, cut_blocks, shared_window

windows = st.builds(
    Window, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(1, 9)
)


def drawn(window):
    """Draw a window as ones on a sheet of zeros."""
    sheet = np.zeros((20, 20), dtype=int)
    row, col, height, width = window
    sheet[row : row + height, col : col + width] = 1
    return sheet


def test_blocks_come_row_by_row_and_the_last_ones_are_the_rest():
    assert cut_blocks(5, 6, block_px=4) == [(0, 0, 4, 4), (0, 4, 4, 2), (4, 0, 1, 4), (4, 4, 1, 2)]


@given(st.integers(1, 90), st.integers(1, 90), st.integers(1, 40))
def test_every_pixel_is_in_one_block(height, width, block_px):
    covered = np.zeros((height, width), dtype=int)
    for row, col, rows, cols in cut_blocks(height, width, block_px=block_px):
        covered[row : row + rows, col : col + cols] += 1
    assert (covered == 1).all()


@given(windows, windows)
def test_what_two_windows_share_is_what_both_cover(first, second):
    both = drawn(first) & drawn(second)
    shared = shared_window(first, second)
    if both.any():
        assert np.array_equal(drawn(shared), both)
    else:
        assert min(shared.height, shared.width) < 1
