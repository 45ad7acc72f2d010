import numpy as np
import pytest
from affine import Affine

from roadseg.core.grid import LOCAL_CRS, Grid
from roadseg.core.sketches import join_sketches, sketch_block
from roadseg.core.windows import cut_blocks


def sketched(mask, *, pixel_m, block_px):
    grid = Grid(LOCAL_CRS, Affine(pixel_m, 0, 0, 0, -pixel_m, 0), *mask.shape)
    parts = [
        (
            block,
            sketch_block(
                mask[block.row :, block.col :][: block.height, : block.width], block, grid
            ),
        )
        for block in cut_blocks(*mask.shape, block_px=block_px)
    ]
    return join_sketches(parts, grid)


MASK = np.random.default_rng(0).random((77, 91)) < 0.5


@pytest.mark.parametrize("block_px", [200, 40, 13])
@pytest.mark.parametrize(("pixel_m", "step"), [(1.0, 1), (0.5, 1), (0.3, 2), (0.15, 4)])
def test_a_sketch_has_every_nth_pixel_whatever_the_blocks(block_px, pixel_m, step):
    sketch = sketched(MASK, pixel_m=pixel_m, block_px=block_px)
    expected = MASK[step // 2 :: step, step // 2 :: step]
    whole = sketch.read(0, 0, sketch.grid.height, sketch.grid.width)
    assert np.array_equal(whole, 255 * expected)


@pytest.mark.parametrize("window", [(0, 0, 5, 5), (3, 9, 20, 30), (70, 80, 7, 11)])
def test_a_window_is_the_part_of_the_whole(window):
    row, col, height, width = window
    found = sketched(MASK, pixel_m=1.0, block_px=40).read(*window)
    assert np.array_equal(found, 255 * MASK[row : row + height, col : col + width])


def test_a_sketch_lies_where_its_scene_lies():
    sketch = sketched(MASK, pixel_m=0.3, block_px=200)
    assert sketch.grid.pixel_size_m == pytest.approx((0.6, 0.6))
    assert sketch.grid.to_map(np.array([[0.0, 0.0]])).tolist() == [[0, 0]]
