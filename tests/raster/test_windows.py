"""Covering a scene with windows, and what each window counts in the blend."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.raster.windows import (
    Window,
    blend_weights,
    cover,
    fitting_batch,
    fitting_window,
    spread_starts,
)


@st.composite
def sides(draw):
    window_px = draw(st.integers(1, 12))
    return draw(st.integers(1, 60)), window_px, draw(st.integers(0, window_px - 1))


@st.composite
def layouts(draw):
    height, window_px, overlap_px = draw(sides())
    return height, draw(st.integers(1, 30)), window_px, overlap_px


@given(layouts())
def test_windows_cover_every_pixel(layout):
    height, width, window_px, overlap_px = layout
    seen = np.zeros((height, width), dtype=bool)
    for row, col, rows, cols in cover(height, width, window_px=window_px, overlap_px=overlap_px):
        seen[row : row + rows, col : col + cols] = True
    assert seen.all()


@given(layouts())
def test_windows_leave_a_scene_only_if_it_is_smaller(layout):
    height, width, window_px, overlap_px = layout
    for window in cover(height, width, window_px=window_px, overlap_px=overlap_px):
        assert window.row + window_px <= max(height, window_px)
        assert window.col + window_px <= max(width, window_px)


def test_windows_go_row_by_row_and_the_last_ends_at_the_edge():
    assert cover(4, 7, window_px=4, overlap_px=1) == [Window(0, 0, 4, 4), Window(0, 3, 4, 4)]
    assert [w.col for w in cover(4, 8, window_px=4, overlap_px=1)] == [0, 3, 4]


def test_a_scene_smaller_than_the_window_gets_one_whole_window():
    assert cover(3, 2, window_px=4, overlap_px=0) == [Window(0, 0, 4, 4)]


@pytest.mark.parametrize("overlap_px", [-1, 4])
def test_an_overlap_that_does_not_fit_is_refused(overlap_px):
    with pytest.raises(ValueError, match=f"overlap of {overlap_px} px does not fit"):
        cover(9, 9, window_px=4, overlap_px=overlap_px)
    with pytest.raises(ValueError, match=f"overlap of {overlap_px} px does not fit"):
        spread_starts(9, window_px=4, overlap_px=overlap_px)


def test_an_empty_scene_is_refused():
    with pytest.raises(ValueError, match="a side of 0 pixels has no window"):
        cover(0, 9, window_px=4, overlap_px=0)


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
    assert len(starts) == len(cover(1, length, window_px=window_px, overlap_px=overlap_px))
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


def test_a_pixel_that_only_one_window_shows_has_all_its_weight():
    weights = blend_weights([0, 6], window_px=8)
    assert weights[0, :6].tolist() == [1] * 6
    assert weights[1, 2:].tolist() == [1] * 6


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


@given(st.lists(st.integers(1, 50)), st.integers(1, 16))
def test_no_batch_holds_more_than_wanted_or_than_a_scene_has(windows, most):
    size = fitting_batch(windows, most=most)
    assert 1 <= size <= most
    assert not windows or size <= max(windows)


@pytest.mark.parametrize(
    ("height", "width", "side"),
    [
        (512, 512, 512),
        (513, 512, 544),
        (600, 600, 608),
        (1024, 1024, 1024),
        (1300, 1300, 704),
        (2000, 500, 512),
        (60, 50, 128),
    ],
)
def test_a_window_fits_the_scene(height, width, side):
    assert fitting_window(height, width, overlap_px=64, multiple=32, most=1024) == side


@pytest.mark.parametrize(
    ("overlap_px", "side"), [(0, 32), (1, 64), (32, 64), (33, 96), (512, 1024)]
)
def test_the_smallest_window_is_twice_the_overlap(overlap_px, side):
    assert fitting_window(1, 1, overlap_px=overlap_px, multiple=32, most=1024) == side


@given(st.integers(1, 9000), st.integers(1, 9000))
def test_no_other_window_computes_fewer_pixels(height, width):
    def pixels(side):
        options = {"window_px": side, "overlap_px": 64, "multiple": 32}
        return math.prod(len(spread_starts(n, **options)) for n in (height, width)) * side**2

    side = fitting_window(height, width, overlap_px=64, multiple=32, most=1024)
    assert pixels(side) == min(map(pixels, range(128, 1025, 32)))
