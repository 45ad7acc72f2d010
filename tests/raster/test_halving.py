"""A raster in half its rows and columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.raster.overviews import LARGEST_FACTOR, halved, overview_factors


def means_of_known(pixels, known):
    """Average two by two pixels one after the other, as the words say it."""
    height, width, bands = pixels.shape
    found = np.zeros((-(-height // 2), -(-width // 2), bands), dtype=np.uint8)
    held = np.zeros(found.shape[:2], dtype=bool)
    for row, col in np.ndindex(*held.shape):
        square = np.s_[2 * row : 2 * row + 2, 2 * col : 2 * col + 2]
        chosen = pixels[square][known[square]]
        held[row, col] = len(chosen) > 0
        if len(chosen):
            found[row, col] = np.floor(chosen.mean(axis=0) + 0.5)
    return found, held


@st.composite
def rasters(draw):
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 3)))
    seed = np.random.default_rng(draw(st.integers(0, 2**32)))
    known = seed.random(shape[:2]) > draw(st.sampled_from([0.0, 0.3, 1.0]))
    return seed.integers(0, 256, shape, dtype=np.uint8) * known[..., None], known


@given(rasters())
def test_pixels_are_the_means_of_those_that_hold_data(raster):
    pixels, known = raster
    found, held = halved(pixels, known)
    expected = means_of_known(pixels, known)
    assert found.dtype == np.uint8
    assert np.array_equal(found, expected[0])
    assert np.array_equal(held, expected[1])


@given(rasters())
def test_all_known_is_as_no_gaps(raster):
    pixels, known = raster
    everywhere = halved(pixels, np.ones_like(known))
    assert everywhere[1].all()
    if not any(side % 2 for side in known.shape):
        assert np.array_equal(halved(pixels, None)[0], everywhere[0])
    assert np.abs(halved(pixels, None)[0].astype(int) - everywhere[0]).max() <= 1
    assert halved(pixels, None)[1] is None


@pytest.mark.parametrize(
    ("height", "width", "factors"),
    [(512, 512, []), (513, 20, [2]), (1300, 1300, [2, 4]), (12000, 9, [2, 4, 8, 16, 32])],
)
def test_a_raster_is_halved_until_it_is_small(height, width, factors):
    assert overview_factors(height, width) == factors


def test_there_is_a_largest_factor():
    assert overview_factors(1, 10**7)[-1] == LARGEST_FACTOR
