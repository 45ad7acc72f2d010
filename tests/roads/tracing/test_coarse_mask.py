import numpy as np
import pytest
from affine import Affine

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.windows import cut_blocks
from roadseg.roads.tracing.coarse_mask import join_coarse_blocks, pack_block


def coarse_mask(mask, *, pixel_m, block_px):
    grid = Grid(LOCAL_CRS, Affine(pixel_m, 0, 0, 0, -pixel_m, 0), *mask.shape)
    parts = [
        (
            block,
            pack_block(mask[block.row :, block.col :][: block.height, : block.width], block, grid),
        )
        for block in cut_blocks(*mask.shape, block_px=block_px)
    ]
    return join_coarse_blocks(parts, grid)


MASK = np.random.default_rng(0).random((77, 91)) < 0.5


@pytest.mark.parametrize("block_px", [200, 40, 13])
@pytest.mark.parametrize(("pixel_m", "step"), [(1.0, 1), (0.5, 1), (0.3, 2), (0.15, 4)])
def test_a_coarse_mask_has_every_nth_pixel_whatever_the_blocks(block_px, pixel_m, step):
    coarse = coarse_mask(MASK, pixel_m=pixel_m, block_px=block_px)
    expected = MASK[step // 2 :: step, step // 2 :: step]
    rows, cols = np.indices((coarse.grid.height, coarse.grid.width))
    assert np.array_equal(coarse.is_road(rows, cols, outside=True), expected)


@pytest.mark.parametrize("outside", [False, True])
def test_outside_of_the_scene_the_answer_is_given(outside):
    rows, cols = np.arange(-5, 82)[:, None], np.arange(-5, 96)
    is_road = coarse_mask(MASK, pixel_m=1.0, block_px=40).is_road(rows, cols, outside=outside)
    assert np.array_equal(is_road, np.pad(MASK, 5, constant_values=outside))


def test_a_coarse_mask_lies_where_its_scene_lies():
    coarse = coarse_mask(MASK, pixel_m=0.3, block_px=200)
    assert coarse.grid.pixel_size_m == pytest.approx((0.6, 0.6))
    assert coarse.grid.to_map(np.array([[0.0, 0.0]])).tolist() == [[0, 0]]
