import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.raster.windows import Window, spread, spread_windows

sides = st.integers(1, 400)


def windows(height, width, block, pixels, **options):
    return list(spread_windows(height, width, block=block, pixels=pixels, **options))


@given(sides, sides, st.tuples(sides, sides), st.integers(1, 100_000))
def test_windows_lie_inside_apart_and_reach_the_last_pixel(height, width, block, pixels):
    times_read = np.zeros((height, width), dtype=int)
    for row, col, rows, cols in windows(height, width, block, pixels):
        assert min(row, col) >= 0
        assert min(rows, cols) >= 1
        assert row + rows <= height
        assert col + cols <= width
        times_read[row : row + rows, col : col + cols] += 1
    assert times_read.max() == times_read[-1, -1] == 1


def test_the_strips_of_a_chip_are_read_at_five_places_from_top_to_bottom():
    rows = [window.row for window in windows(1300, 1300, (25, 1300), 65536)]
    assert rows == [125, 375, 650, 900, 1275]


def test_a_strip_is_read_whole():
    assert {w[2:] for w in windows(1300, 1300, (25, 1300), 65536)} == {(25, 1300)}


def test_small_strips_are_read_together():
    assert {w[2:] for w in windows(1300, 1300, (1, 1300), 65536)} == {(10, 1300)}


@pytest.mark.parametrize(("side", "rows"), [(228, 228), (229, 57)])
def test_of_a_tile_more_than_four_times_its_share_some_rows_are_read(side, rows):
    assert windows(9 * side, 9 * side, (side, side), 65536)[0][2:] == (rows, side)


def test_tiles_are_read_in_different_columns():
    chosen = windows(5120, 5120, (256, 256), 5 * 256**2)
    assert len({w.row for w in chosen}) == len({w.col for w in chosen}) == 5


def test_the_windows_do_not_grow_with_the_scene():
    chosen = windows(100_000, 100_000, (512, 512), 65536)
    assert sum(w.height * w.width for w in chosen) < 2 * 65536


@pytest.mark.parametrize(("pixels", "count"), [(5 * 100, 5), (5 * 100 + 1, 6), (1, 5)])
def test_there_are_as_many_windows_as_the_pixels_need_but_five_at_least(pixels, count):
    assert len(windows(500, 10, (10, 10), pixels)) == count


@pytest.mark.parametrize("places", [1, 5, 20])
def test_there_are_as_many_windows_as_places_and_they_share_the_pixels(places):
    chosen = windows(5000, 100, (1, 100), 20_000, places=places)
    assert len(chosen) == places
    assert sum(w.height * w.width for w in chosen) == 20_000


def test_a_scene_of_one_block_is_read_whole():
    assert windows(8, 9, (512, 512), 65536) == [Window(0, 0, 8, 9)]


def test_the_pattern_is_fixed():
    assert windows(900, 700, (64, 64), 9999) == windows(900, 700, (64, 64), 9999)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, []), (1, [0]), (3, [0, 4, 9]), (10, list(range(10))), (99, list(range(10)))],
)
def test_items_are_spread_from_the_first_to_the_last(number, expected):
    assert spread(range(10), number) == expected
