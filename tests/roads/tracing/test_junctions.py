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
ACROSS = [(-20, 50), (120, 50)]


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


@pytest.mark.parametrize("goal", [(50, -20), (100, -20), (-20, -40)])
def test_a_junction_lies_where_the_lines_of_its_roads_meet(goal):
    graph = placed(ACROSS, [(50, 50), goal])
    assert junctions(graph) == pytest.approx(np.array([[50, 50]]), abs=0.5)


def test_thinning_alone_draws_the_junction_into_the_mouth_of_the_side_road():
    graph = thinned(burnt(ACROSS, [(50, 50), (50, -20)]))
    assert np.abs(junctions(graph) - [50, 50]).max() > 1.0


def test_a_road_goes_straight_past_a_side_road():
    graph = placed(ACROSS, [(50, 50), (50, -20)])
    y = shapely.get_coordinates(graph.lines[shapely.bounds(graph.lines)[:, 1] > 40])[:, 1]
    assert y == pytest.approx(50, abs=0.5)


def test_a_curve_keeps_its_radius_past_a_side_road():
    ring = shapely.Point(50, 50).buffer(25).exterior.coords
    graph = placed(list(ring), [(50, 25), (50, -20)])
    loop = graph.lines[graph.length_m > 60]
    radii = np.hypot(*(shapely.get_coordinates(loop) - [50, 50]).T)
    assert radii == pytest.approx(25, abs=0.6)


def test_an_oblique_crossing_is_one_node():
    road = burnt(ACROSS, [(-20, 10), (120, 90)])
    graph = find_graph(Probability(GRID, 255 * road.astype(np.uint8)), TraceOptions())
    assert graph.degree[graph.degree > 2].tolist() == [4]
    assert graph.nodes[graph.degree == 4][0] == pytest.approx([50, 50], abs=0.5)


@pytest.mark.parametrize(("x", "moves"), [(90, True), (97, False)])
def test_a_junction_whose_disc_reaches_the_border_stays(x, moves):
    lines = ACROSS, [(x, 50), (x, -20)]
    before, after = (junctions(of) for of in (thinned(burnt(*lines)), placed(*lines)))
    assert (np.abs(after - before).max() > 0.5) == moves


@pytest.mark.parametrize(("width_m", "moves"), [(14, True), (30, False)])
def test_a_junction_moves_by_four_metres_at_most(width_m, moves):
    lines = ACROSS, [(50, 50), (50, -20)]
    before = junctions(thinned(burnt(*lines, width_m=width_m)))
    after = junctions(placed(*lines, width_m=width_m))
    assert (np.hypot(*(after - before).T).max() > 0) == moves


def test_roads_without_a_junction_stay_as_they_are():
    graph = thinned(burnt(ACROSS))
    same = placed(ACROSS)
    assert shapely.equals(same.lines, graph.lines).all()
