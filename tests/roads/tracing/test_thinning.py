import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage
from skimage.morphology import skeletonize

from roadseg.roads.tracing.thinning import thin


def blots(seed, shape, reach, share):
    """Draw parts of a mask that are about `reach` pixels wide."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).random(shape), reach)
    return noise > np.quantile(noise, 1 - share)


@given(hnp.arrays(bool, st.tuples(st.integers(0, 9), st.integers(0, 70))))
def test_any_pixels_are_thinned_as_by_scikit_image(mask):
    assert np.array_equal(thin(mask), skeletonize(mask))


@pytest.mark.parametrize("reach", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(200, 300), (131, 64), (64, 129), (1, 500), (500, 1)])
def test_roads_of_any_width_are_thinned_as_by_scikit_image(reach, shape):
    for seed in range(6):
        mask = blots(seed, shape, reach, share=0.15 * (seed + 1))
        assert np.array_equal(thin(mask), skeletonize(mask))


def test_more_than_is_looked_at_in_one_go():
    mask = blots(0, (900, 1200), 3, share=0.3)
    assert np.array_equal(thin(mask), skeletonize(mask))


def test_a_full_mask_is_thinned():
    mask = np.ones((150, 400), dtype=np.uint8)
    assert np.array_equal(thin(mask), skeletonize(mask))


def test_the_mask_itself_stays():
    mask = np.ones((20, 30), dtype=bool)
    thin(mask)
    assert mask.all()
