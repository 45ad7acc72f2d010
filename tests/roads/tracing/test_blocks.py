import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import ndimage

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.windows import Window, cut_blocks
from roadseg.roads.graph.cleaning import components, merge_chains
from roadseg.roads.tracing.blocks import HALO_PX, join_blocks, trace_block, with_halo


def traced(is_road, *, block_px):
    """Trace a mask with pixels of 1 m, block by block."""
    grid = Grid(LOCAL_CRS, Affine(1, 0, 500000, 0, -1, 4000000), *is_road.shape)
    parts = []
    for block in cut_blocks(*is_road.shape, block_px=block_px):
        row, col, height, width = with_halo(block, height=grid.height, width=grid.width)
        part = is_road[row : row + height, col : col + width]
        parts.append(trace_block(part, block, grid))
    return merge_chains(join_blocks(parts, grid)[0])


def streets(size=300, half=3, angle=20):
    """A rotated grid of streets."""
    row, col = np.mgrid[:size, :size]
    turn = np.radians(angle)
    u, v = row * np.cos(turn) + col * np.sin(turn), col * np.cos(turn) - row * np.sin(turn)
    return ((u % 90) < 2 * half) | ((v % 110) < 2 * half)


def meeting_places(graph):
    return shapely.MultiPoint(graph.nodes[graph.degree != 2])


def test_a_block_is_read_with_a_halo_inside_its_scene():
    around = with_halo(Window(0, 500, 500, 500), height=1000, width=1020)
    assert around == Window(0, 500 - HALO_PX, 500 + HALO_PX, 520 + HALO_PX)


@pytest.mark.parametrize("block_px", [64, 100, 128, 299])
def test_the_graph_does_not_depend_on_the_blocks(block_px):
    whole, parts = (traced(streets(), block_px=px) for px in (300, block_px))
    assert np.bincount(parts.degree).tolist() == np.bincount(whole.degree).tolist()
    assert parts.length_m.sum() == pytest.approx(whole.length_m.sum(), rel=1e-3)
    assert meeting_places(parts).hausdorff_distance(meeting_places(whole)) < 1.5


def test_a_road_along_a_seam_is_one_edge():
    is_road = np.zeros((100, 100), dtype=bool)
    is_road[48:51] = True  # its skeleton is the row 49, the last of the upper blocks
    graph = traced(is_road, block_px=50)
    assert graph.length_m == pytest.approx([99])


def test_a_junction_on_the_corner_of_four_blocks_is_one_node():
    is_road = np.zeros((100, 100), dtype=bool)
    is_road[50], is_road[:, 50] = True, True
    graph = traced(is_road, block_px=50)
    assert sorted(graph.degree) == [1, 1, 1, 1, 4]


@settings(max_examples=30)
@given(arrays.arrays(bool, st.tuples(st.integers(5, 48), st.integers(5, 48))), st.integers(8, 30))
def test_blocks_connect_what_the_whole_connects(mask, block_px):
    mask = ndimage.binary_dilation(mask & (np.random.default_rng(0).random(mask.shape) < 0.2))
    whole, parts = (traced(mask, block_px=px) for px in (64, block_px))
    counts = [
        len(np.unique(components(graph)[graph.ends])) - bool(len(graph.lines) == 0)
        for graph in (whole, parts)
    ]
    assert counts[0] == counts[1]
    assert parts.length_m.sum() == pytest.approx(whole.length_m.sum(), rel=0.15, abs=4)
