"""Covering a scene with windows and blending them back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.core.windows import Piece, Window, blend, cover, taper


@st.composite
def layouts(draw):
    window_px = draw(st.integers(1, 12))
    overlap_px = draw(st.integers(0, window_px - 1))
    height, width = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    return height, width, window_px, overlap_px


def read(scene, window):
    """Read a window of a scene (class, row, col), repeating the edge beyond it."""
    rows = np.minimum(window.row + np.arange(window.height), scene.shape[1] - 1)
    cols = np.minimum(window.col + np.arange(window.width), scene.shape[2] - 1)
    return scene[:, rows[:, None], cols]


def pieces(scene, window_px, overlap_px):
    everywhere = np.ones((window_px, window_px), dtype=bool)
    for window in cover(*scene.shape[1:], window_px=window_px, overlap_px=overlap_px):
        yield Piece(window, read(scene, window), everywhere)


def random_scene(height, width):
    return np.random.default_rng(0).random((2, height, width), dtype=np.float32)


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


@given(layouts())
def test_blended_windows_give_the_scene_back(layout):
    height, width, window_px, overlap_px = layout
    scene = random_scene(height, width)
    rows = list(blend(pieces(scene, window_px, overlap_px), classes=2, height=height, width=width))
    np.testing.assert_allclose(np.concatenate([r.values for r in rows], axis=1), scene, rtol=1e-5)
    assert all(r.known.all() for r in rows)


@given(layouts())
def test_finished_rows_follow_each_other(layout):
    height, width, window_px, overlap_px = layout
    scene = random_scene(height, width)
    stop = 0
    for rows in blend(pieces(scene, window_px, overlap_px), classes=2, height=height, width=width):
        assert rows.start == stop
        stop += rows.values.shape[1]
    assert stop == height


def test_windows_go_row_by_row_and_the_last_ends_at_the_edge():
    assert cover(4, 7, window_px=4, overlap_px=1) == [Window(0, 0, 4, 4), Window(0, 3, 4, 4)]
    assert [w.col for w in cover(4, 8, window_px=4, overlap_px=1)] == [0, 3, 4]


def test_a_scene_smaller_than_the_window_gets_one_whole_window():
    assert cover(3, 2, window_px=4, overlap_px=0) == [Window(0, 0, 4, 4)]


@pytest.mark.parametrize("overlap_px", [-1, 4])
def test_an_overlap_that_does_not_fit_is_refused(overlap_px):
    with pytest.raises(ValueError, match=f"overlap of {overlap_px} px does not fit"):
        cover(9, 9, window_px=4, overlap_px=overlap_px)


def test_an_empty_scene_is_refused():
    with pytest.raises(ValueError, match="0 x 9 pixels has no window"):
        cover(0, 9, window_px=4, overlap_px=0)


@pytest.mark.parametrize("window_px", [1, 2, 5, 1024])
def test_taper_is_positive_symmetric_and_highest_in_the_middle(window_px):
    weights = taper(window_px)
    assert weights.min() > 0
    np.testing.assert_allclose(weights, weights[::-1, ::-1], rtol=1e-4)
    assert weights[window_px // 2, window_px // 2] == weights.max()


def test_a_pixel_near_the_middle_of_a_window_follows_that_window():
    ones, zeros = np.ones((1, 4, 4), np.float32), np.zeros((1, 4, 4), np.float32)
    known = np.ones((4, 4), dtype=bool)
    left = Piece(Window(0, 0, 4, 4), ones, known)
    right = Piece(Window(0, 2, 4, 4), zeros, known)
    (rows,) = blend([left, right], classes=1, height=4, width=6)
    assert np.all(np.diff(rows.values[0, 0]) <= 0)
    np.testing.assert_allclose(rows.values[0, 0, [0, 1, 4, 5]], [1, 1, 0, 0])
    assert rows.values[0, 0, 2] == pytest.approx(1 - rows.values[0, 0, 3])


def test_unknown_pixels_become_zero_and_say_so():
    known = np.array([[True, False], [True, True]])
    piece = Piece(Window(0, 0, 2, 2), np.full((1, 2, 2), 0.5, np.float32), known)
    (rows,) = blend([piece], classes=1, height=2, width=2)
    np.testing.assert_array_equal(rows.known, known)
    np.testing.assert_allclose(rows.values[0], [[0.5, 0], [0.5, 0.5]])


def test_a_window_without_values_leaves_its_rows_unknown():
    windows = cover(6, 2, window_px=2, overlap_px=0)
    nothing = np.zeros((2, 2), dtype=bool)
    skipped = [Piece(window, None, nothing) for window in windows]
    rows = list(blend(skipped, classes=3, height=6, width=2))
    assert [r.start for r in rows] == [0, 2, 4]
    assert not any(r.known.any() or r.values.any() for r in rows)


def test_rows_are_given_out_before_the_next_row_of_windows_is_read():
    read_rows = []

    def reading():
        for piece in pieces(random_scene(8, 4), 4, 2):
            read_rows.append(piece.window.row)
            yield piece

    blended = blend(reading(), classes=2, height=8, width=4)
    assert next(blended).values.shape == (2, 2, 4)
    assert read_rows == [0, 2]


def test_windows_out_of_order_are_refused():
    disordered = reversed(list(pieces(random_scene(4, 2), 2, 0)))
    with pytest.raises(ValueError, match="comes after row 2 was reached"):
        list(blend(disordered, classes=2, height=4, width=2))
