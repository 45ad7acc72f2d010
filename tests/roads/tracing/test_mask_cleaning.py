import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from roadseg.roads.tracing.mask_cleaning import Sides, clean_mask
from tests.drawing import pixels_of as drawn

EIGHT = np.ones((3, 3))
masks = hnp.arrays(bool, st.tuples(st.integers(1, 40), st.integers(1, 40)))


@pytest.mark.parametrize(
    ("mask", "min_blob_px", "min_hole_px", "cleaned"),
    [
        ("##. ##. ...", 5, 0, "... ... ..."),
        ("##. ##. ...", 4, 0, "##. ##. ..."),
        ("#... .#.. ..#. ...#", 4, 0, "#... .#.. ..#. ...#"),
        ("#### #..# ####", 0, 3, "#### #### ####"),
        ("#### #..# ####", 0, 2, "#### #..# ####"),
        ("#### #... ####", 0, 9, "#### #... ####"),
        ("##### #...# #.#.# #...# #####", 0, 10, "##### ##### ##### ##### #####"),
        ("##### #...# #.#.# #...# #####", 26, 0, "..... ..... ..... ..... ....."),
    ],
    ids=[
        *("a blob that is too small", "a blob of just the limit", "touching at corners"),
        *("a hole that is too small", "a hole of just the limit", "background at the border"),
        *("an island counts for its hole", "a hole counts for its blob"),
    ],
)
def test_small_blobs_and_holes_go(mask, min_blob_px, min_hole_px, cleaned):
    found = clean_mask(drawn(mask), min_blob_px=min_blob_px, min_hole_px=min_hole_px)
    assert np.array_equal(found, drawn(cleaned))


def by_numbering(mask, min_blob_px, min_hole_px):
    """Clean a mask by numbering and counting the pixels of its parts."""
    cleaned, kept = mask.copy(), []
    labels, count = ndimage.label(mask, EIGHT)
    for number in range(1, count + 1):
        whole = ndimage.binary_fill_holes(labels == number)
        if whole.sum() < min_blob_px:
            cleaned[whole] = False
        else:
            kept.append(whole & (labels != number))
    for holes in kept:
        labels_of_holes, count = ndimage.label(holes)
        for number in range(1, count + 1):
            if (labels_of_holes == number).sum() < min_hole_px:
                cleaned[labels_of_holes == number] = True
    return cleaned


@settings(max_examples=300)
@given(masks, st.integers(0, 12), st.integers(0, 12))
def test_pixels_are_counted_as_by_numbering_them(mask, min_blob_px, min_hole_px):
    cleaned = clean_mask(mask, min_blob_px=min_blob_px, min_hole_px=min_hole_px)
    assert np.array_equal(cleaned, by_numbering(mask, min_blob_px, min_hole_px))


def test_rings_within_rings_are_counted_with_what_they_hold():
    mask = np.zeros((60, 60), dtype=bool)
    for side in range(0, 28, 4):
        mask[side : 60 - side, side : 60 - side] ^= True
        mask[side + 1 : 59 - side, side + 1 : 59 - side] ^= True
    for limit in range(0, 300, 30):
        cleaned = clean_mask(mask, min_blob_px=limit, min_hole_px=2 * limit)
        assert np.array_equal(cleaned, by_numbering(mask, limit, 2 * limit))


@pytest.mark.parametrize("side", range(4))
def test_a_blob_at_a_side_beyond_which_the_scene_goes_on_stays(side):
    mask = np.rot90(drawn("##. ... ..."), -side)[:, ::1]
    corner = [Sides(top=True), Sides(right=True), Sides(bottom=True), Sides(left=True)][side]
    assert clean_mask(mask, min_blob_px=5, min_hole_px=0, goes_on=corner).sum() == 2
    other = Sides(*np.roll([True, False, False, False], side + 2).tolist())
    assert not clean_mask(mask, min_blob_px=5, min_hole_px=0, goes_on=other).any()
