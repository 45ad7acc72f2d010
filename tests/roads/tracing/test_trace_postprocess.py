import numpy as np
import pytest
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.blocks import join_blocks, trace_block
from roadseg.roads.tracing.trace import postprocess

OPTIONS = TraceOptions(min_spur_m=0, min_component_m=0)


def network(road, options=OPTIONS, *, sure=255):
    """Trace and postprocess a mask with pixels of 1 m, whose roads have a probability in bytes."""
    grid = Grid(CRS.from_epsg(32611), Affine(1, 0, 500000, 0, -1, 4000000), *road.shape)
    whole = Window(0, 0, *road.shape)
    traced = trace_block(road, whole, grid)
    graph, mask = join_blocks([traced], grid)
    return postprocess(graph, Probability(grid, np.uint8(sure) * road), options, mask=mask)


def street(gap=0):
    """A street 20 m wide from border to border, with a gap in the middle."""
    road = np.zeros((100, 300), dtype=bool)
    road[40:60] = True
    road[:, 150 : 150 + gap] = False
    return road


def test_a_link_starts_in_the_middle_of_the_ends_of_a_wide_road():
    graph = network(street(gap=10))
    link = graph.lines[graph.attributes["inferred"] == 1]
    assert len(link) == 1
    assert link[0].length < 20  # thinning ends a road half its width early, on either side
    rows = 4000000 - np.array(link[0].coords)[:, 1]
    assert np.abs(rows - 50).max() < 3


def test_pieces_shorter_than_the_limit_go():
    assert len(network(street(), TraceOptions(min_component_m=299)).lines) == 1
    assert len(network(street(), TraceOptions(min_component_m=301)).lines) == 0


@pytest.mark.parametrize(
    ("first_m", "length_m", "sure", "edges"),
    [(20, 40, 200, 0), (20, 40, 255, 1), (20, 60, 200, 1), (0, 40, 200, 1), (0, 15, 200, 0)],
    ids=["lone", "in a mask", "longer", "at the border", "shorter at the border"],
)
def test_lone_pieces_of_probabilities_have_to_be_longer(first_m, length_m, sure, edges):
    road = np.zeros((50, 100), dtype=bool)
    road[20:28, first_m : first_m + length_m] = True
    assert len(network(road, TraceOptions(), sure=sure).lines) == edges


@pytest.mark.parametrize(("sure", "edges"), [(200, 0), (255, 1)], ids=["lone", "in a mask"])
def test_a_lone_ring_is_a_lone_piece_though_no_road_ends(sure, edges):
    down, across = np.indices((50, 50)) - 25
    is_ring = np.abs(np.hypot(down, across) - 6) < 2  # 38 m around.
    assert len(network(is_ring, TraceOptions(), sure=sure).lines) == edges
