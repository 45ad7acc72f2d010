import numpy as np
import pytest

from roadseg.dataset.reference_graphs import Reference
from roadseg.raster.grid import local_grid
from roadseg.raster.windows import Window
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.mask_files import write_mask
from roadseg.roads.speeds import DEFAULT_BINS

GRID = local_grid(2100, 50, gsd_m=1.0)
BLOCK_PX = 2048  # After so many rows, the mask is read on.


@pytest.mark.parametrize(("rows", "left_out_m2"), [(25, 1000), (24, 0)])
def test_large_ground_without_data_is_left_out_across_two_blocks_as_well(
    tmp_path, rows, left_out_m2
):
    mask, whole = np.zeros((GRID.height, GRID.width), dtype=np.uint8), Window(0, 0, 2100, 50)
    mask[BLOCK_PX - 12 : BLOCK_PX - 12 + rows, 5:45] = IGNORE
    write_mask(tmp_path / "mask.tif", [(whole, mask)], GRID, bins=DEFAULT_BINS)
    roads = graph_from_lines(np.zeros(0, dtype=object), GRID.crs)
    area = Reference(roads, GRID, None, tmp_path / "mask.tif").area_in(whole)
    assert area.area == pytest.approx(2100 * 50 - left_out_m2)
