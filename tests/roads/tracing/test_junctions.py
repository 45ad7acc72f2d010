import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.road_graph import RoadGraph, lines_from
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.junctions import place_junctions
from roadseg.roads.tracing.skeletons import skeletonise, smooth_paths, trace_paths
from roadseg.roads.tracing.trace import find_graph

GRID = Grid(LOCAL_CRS, Affine(0.5, 0, 0, 0, -0.5, 100), 200, 200)  # 100 m by 100 m
ALONG = np.array([np.cos(np.deg2rad(17)), np.sin(np.deg2rad(17))])  # Not along rows of pixels.
MIDDLE = np.array([50, 50])
ACROSS = [MIDDLE - 90 * ALONG, MIDDLE + 90 * ALONG]


def branch(turn_deg, at=MIDDLE):
    """Return a road that leaves the one across at an angle, to the south for 90 degrees."""
    turn = np.deg2rad(17 - turn_deg)
    return [at, at + 90 * np.array([np.cos(turn), np.sin(turn)])]


def burnt(*lines, width_m=8.0):
    """Burn lines with a width."""
    shape = shapely.union_all([shapely.LineString(line).buffer(width_m / 2) for line in lines])
    y, x = np.meshgrid(99.75 - np.arange(200) / 2, np.arange(200) / 2 + 0.25, indexing="ij")
    return shapely.contains_xy(shape, x, y)


def thinned(road):
    """Trace a mask of road."""
    paths = smooth_paths(trace_paths(skeletonise(road)), reach_px=3)
    lines = lines_from(GRID.to_metric(paths.points), np.diff(paths.offsets))
    return merge_chains(
        RoadGraph(GRID.metric_crs, GRID.to_metric(paths.nodes), paths.ends, lines, {})
    )


def placed(*lines, width_m=8.0):
    """Trace burnt lines, and place the junctions."""
    road = burnt(*lines, width_m=width_m)
    return place_junctions(thinned(road), mask=CoarseMask(GRID, np.packbits(road, axis=1)))


def junctions(graph):
    return graph.nodes[graph.degree >= 3]


@pytest.mark.parametrize("turn_deg", [70, 90, 110, 120])
def test_a_junction_lies_where_the_lines_of_its_roads_meet(turn_deg):
    graph = placed(ACROSS, branch(turn_deg))
    assert junctions(graph) == pytest.approx(MIDDLE[None], abs=0.75)


def test_a_road_goes_straight_past_a_side_road():
    across = shapely.LineString(ACROSS)
    graph = placed(ACROSS, branch(90))
    apart = shapely.distance(shapely.points(shapely.get_coordinates(graph.lines)), across)
    # Only the border, where the road is cut off obliquely, bends the line.
    assert np.sort(apart[apart < 5])[:-2].max() < 0.5


def test_a_crossing_that_thinning_draws_as_two_junctions_is_one_node():
    road = burnt(ACROSS, branch(65), branch(245))
    assert (thinned(road).degree > 2).sum() == 2
    graph = find_graph(Probability(GRID, 255 * road.astype(np.uint8)), TraceOptions())
    assert graph.degree[graph.degree > 2].tolist() == [4]
    assert graph.nodes[graph.degree == 4][0] == pytest.approx(MIDDLE, abs=0.5)


@pytest.mark.parametrize(("inside_m", "moves"), [(5, True), (4, False)])
def test_a_junction_whose_disc_reaches_the_border_stays(inside_m, moves):
    lines = [(-20, inside_m), (120, inside_m)], [(50, inside_m), (90, 90)]
    before, after = (junctions(of) for of in (thinned(burnt(*lines)), placed(*lines)))
    assert (np.hypot(*(after - before).T).max() > 0.1) == moves


@pytest.mark.parametrize(
    ("turn_deg", "width_m", "moves"),
    [(70, 8, True), (70, 14, False), (90, 12, True), (90, 18, False)],
)
def test_a_junction_moves_by_four_metres_at_most_and_not_on_wide_roads(turn_deg, width_m, moves):
    lines = ACROSS, branch(turn_deg)
    before = junctions(thinned(burnt(*lines, width_m=width_m)))
    after = junctions(placed(*lines, width_m=width_m))
    assert (np.hypot(*(after - before).T).max() > 0.1) == moves
