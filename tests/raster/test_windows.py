"""Windows: blocks and chips of a scene, windows that cover or sample it, and their blend."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.raster.windows import (
    Window,
    blend_weights,
    cover,
    cut_blocks,
    cut_chips,
    fitting_batch,
    fitting_window,
    shared_window,
    spread,
    spread_starts,
    spread_windows,
)


@st.composite
def sides(draw):
    window_px = draw(st.integers(1, 12))
    return draw(st.integers(1, 60)), window_px, draw(st.integers(0, window_px - 1))


@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 12))
def test_windows_cover_every_pixel_and_leave_a_scene_only_if_it_is_smaller(
    height, width, window_px
):
    seen = np.zeros((height, width), dtype=bool)
    for row, col, rows, cols in cover(height, width, window_px=window_px):
        seen[row : row + rows, col : col + cols] = True
        assert row + window_px <= max(height, window_px)
        assert col + window_px <= max(width, window_px)
    assert seen.all()


def test_windows_go_row_by_row_and_the_last_ends_at_the_edge():
    assert cover(4, 7, window_px=4) == [Window(0, 0, 4, 4), Window(0, 3, 4, 4)]
    assert [w.col for w in cover(4, 9, window_px=4)] == [0, 4, 5]
    assert cover(3, 2, window_px=4) == [Window(0, 0, 4, 4)]


@given(sides())
def test_spread_windows_reach_from_edge_to_edge_with_at_least_the_overlap(side):
    length, window_px, overlap_px = side
    starts = spread_starts(length, window_px=window_px, overlap_px=overlap_px)
    assert (starts[0], starts[-1]) == (0, max(length - window_px, 0))
    assert all(0 < gap <= window_px - overlap_px for gap in np.diff(starts))


@given(sides())
def test_spread_windows_are_as_many_as_needed_and_equally_far_apart(side):
    length, window_px, overlap_px = side
    starts = spread_starts(length, window_px=window_px, overlap_px=overlap_px)
    assert len(starts) == math.ceil(max(length - window_px, 0) / (window_px - overlap_px)) + 1
    assert np.ptp(np.diff(starts)) <= 1 if len(starts) > 1 else True


@given(st.integers(1, 9000), st.sampled_from([64, 96, 512]), st.integers(0, 32))
def test_windows_at_multiples_reach_little_beyond_the_scene(length, window_px, overlap_px):
    starts = spread_starts(length, window_px=window_px, overlap_px=overlap_px, multiple=32)
    assert not any(start % 32 for start in starts)
    assert 0 <= starts[-1] + window_px - max(length, window_px) < 32
    assert all(0 < gap <= window_px - overlap_px for gap in np.diff(starts))


@given(sides())
def test_the_weights_of_every_pixel_are_positive_and_add_up_to_one(side):
    length, window_px, overlap_px = side
    starts = spread_starts(length, window_px=window_px, overlap_px=overlap_px)
    weights = blend_weights(starts, window_px=window_px)
    sums = np.zeros(starts[-1] + window_px)
    for start, each in zip(starts, weights, strict=True):
        sums[start : start + window_px] += each
    assert weights.min() > 0
    np.testing.assert_allclose(sums, 1, rtol=1e-6)


def test_a_pixel_near_the_middle_of_a_window_follows_that_window():
    left, right = blend_weights([0, 4], window_px=8)
    assert np.all(np.diff(left[4:]) < 0)
    np.testing.assert_allclose(left[4:], 1 - right[:4], rtol=1e-5)
    np.testing.assert_allclose(left, right[::-1], rtol=1e-5)


@pytest.mark.parametrize(
    ("windows", "most", "size"),
    [
        ([1] * 19, 4, 1),  # tiles of one window
        ([2], 4, 2),
        ([9] * 3, 4, 3),
        ([16, 16], 4, 4),
        ([25], 4, 4),  # three places stay empty, but seven batches are fewer than nine
        ([1, 1, 10_000], 4, 4),
        ([12], 8, 6),
        ([], 4, 4),
    ],
)
def test_a_batch_fits_the_scenes(windows, most, size):
    assert fitting_batch(windows, most=most) == size


@pytest.mark.parametrize(
    ("overlap_px", "side"), [(0, 32), (1, 64), (32, 64), (33, 96), (512, 1024)]
)
def test_the_smallest_window_is_twice_the_overlap(overlap_px, side):
    assert fitting_window(1, 1, overlap_px=overlap_px, multiple=32, most=1024) == side


@given(st.integers(1, 9000), st.integers(1, 9000))
def test_no_other_window_computes_fewer_pixels_and_no_larger_one_as_many(height, width):
    def pixels(side):
        options = {"window_px": side, "overlap_px": 64, "multiple": 32}
        return math.prod(len(spread_starts(n, **options)) for n in (height, width)) * side**2

    side = fitting_window(height, width, overlap_px=64, multiple=32, most=1024)
    assert side == min(range(1024, 127, -32), key=pixels)


somewhere = st.builds(
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
def test_every_pixel_is_in_one_block_and_in_one_chip(height, width, side):
    for cut in (cut_blocks(height, width, block_px=side), cut_chips(height, width, chip_px=side)):
        covered = np.zeros((height, width), dtype=int)
        for window in cut:
            covered[window.slices] += 1
        assert (covered == 1).all()


@given(somewhere, somewhere)
def test_what_two_windows_share_is_what_both_cover(first, second):
    both = drawn(first) & drawn(second)
    shared = shared_window(first, second)
    if both.any():
        assert np.array_equal(drawn(shared), both)
    else:
        assert min(shared.height, shared.width) < 1


@pytest.mark.parametrize(("side", "count"), [(1300, 1), (1301, 4), (2600, 4), (2601, 9)])
def test_a_scene_is_cut_when_it_is_larger_than_a_chip(side, count):
    assert len(cut_chips(side, side, chip_px=1300)) == count


@given(st.integers(1, 5000), st.integers(1, 400))
def test_chips_are_of_nearly_one_size_and_none_too_large(width, chip_px):
    widths = [cols for *_, cols in cut_chips(1, width, chip_px=chip_px)]
    assert max(widths) <= chip_px
    assert max(widths) - min(widths) <= 1


lengths = st.integers(1, 400)


def sampled(height, width, block, pixels, **options):
    return list(spread_windows(height, width, block=block, pixels=pixels, **options))


@given(lengths, lengths, st.tuples(lengths, lengths), st.integers(1, 100_000))
def test_windows_lie_inside_apart_and_reach_the_last_pixel(height, width, block, pixels):
    times_read = np.zeros((height, width), dtype=int)
    for row, col, rows, cols in sampled(height, width, block, pixels):
        assert min(row, col) >= 0
        assert min(rows, cols) >= 1
        assert row + rows <= height
        assert col + cols <= width
        times_read[row : row + rows, col : col + cols] += 1
    assert times_read.max() == times_read[-1, -1] == 1


def test_the_strips_of_a_chip_are_read_whole_at_five_places_from_top_to_bottom():
    chosen = sampled(1300, 1300, (25, 1300), 65536)
    assert [window.row for window in chosen] == [125, 375, 650, 900, 1275]
    assert {window[2:] for window in chosen} == {(25, 1300)}
    assert {window[2:] for window in sampled(1300, 1300, (1, 1300), 65536)} == {(10, 1300)}


@pytest.mark.parametrize(("side", "rows"), [(228, 228), (229, 57)])
def test_of_a_tile_more_than_four_times_its_share_some_rows_are_read(side, rows):
    assert sampled(9 * side, 9 * side, (side, side), 65536)[0][2:] == (rows, side)


def test_tiles_are_read_in_different_columns():
    chosen = sampled(5120, 5120, (256, 256), 5 * 256**2)
    assert len({w.row for w in chosen}) == len({w.col for w in chosen}) == 5


@pytest.mark.parametrize(("pixels", "count"), [(5 * 100, 5), (5 * 100 + 1, 6), (1, 5)])
def test_there_are_as_many_windows_as_the_pixels_need_but_five_at_least(pixels, count):
    assert len(sampled(500, 10, (10, 10), pixels)) == count


@pytest.mark.parametrize("places", [1, 5, 20])
def test_there_are_as_many_windows_as_places_and_they_share_the_pixels(places):
    chosen = sampled(5000, 100, (1, 100), 20_000, places=places)
    assert len(chosen) == places
    assert sum(w.height * w.width for w in chosen) == 20_000


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, []), (1, [0]), (3, [0, 4, 9]), (10, list(range(10))), (99, list(range(10)))],
)
def test_items_are_spread_from_the_first_to_the_last(number, expected):
    assert spread(range(10), number) == expected
