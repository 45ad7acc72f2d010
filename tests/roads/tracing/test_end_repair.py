import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.graph.road_graph import RoadGraph, lines_from
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.end_repair import draw_out_ends, straighten_ends
from roadseg.roads.tracing.skeletons import skeletonise, trace_paths

GRID = Grid(LOCAL_CRS, Affine(0.5, 0, 0, 0, -0.5, 60), 120, 200)  # 100 m by 60 m


def straightened(*boxes):
    """Trace boxes of road, given by west, south, east and north, and straighten their ends."""
    shapes = [shapely.box(*box) for box in boxes]
    return straightened_shape(shapely.union_all(shapes))


def straightened_shape(shape):
    """Trace a shape of road, and straighten its ends."""
    graph, mask = traced(shape)
    scene = {"mask": mask, "border": GRID.footprint_m.exterior}
    return draw_out_ends(straighten_ends(graph, **scene), **scene)


def traced(shape):
    """Trace a shape of road; the graph, and the mask that it was traced on."""
    y, x = np.meshgrid(59.75 - np.arange(120) / 2, np.arange(200) / 2 + 0.25, indexing="ij")
    road = shapely.contains_xy(shape, x, y)
    paths = trace_paths(skeletonise(road))
    lines = lines_from(GRID.to_metric(paths.points), np.diff(paths.offsets))
    graph = RoadGraph(GRID.metric_crs, GRID.to_metric(paths.nodes), paths.ends, lines)
    return graph, CoarseMask(GRID, np.packbits(road, axis=1))


@pytest.mark.parametrize("width_m", [4, 12, 24])
def test_a_road_that_ends_across_its_width_ends_in_the_middle(width_m):
    found = straightened((-1, 30 - width_m / 2, 70, 30 + width_m / 2))
    assert len(found.lines) == 1
    tip = found.nodes[found.nodes[:, 0].argmax()]
    assert tip == pytest.approx([70, 30], abs=1.0)


def test_a_road_with_two_blunt_ends_keeps_its_length_and_its_line_stays_in_the_middle():
    found = straightened((20, 24, 80, 36))
    assert found.length_m.tolist() == pytest.approx([60], abs=1.5)
    assert shapely.get_coordinates(found.lines)[:, 1] == pytest.approx(30, abs=1.0)


@pytest.mark.parametrize(
    ("boxes", "degrees"),
    [
        ([(-1, 26, 101, 34), (30, 34, 34, 36)], [1, 1]),
        ([(-1, 26, 101, 34), (60, 34, 66, 50)], [1, 1, 1, 3]),
        ([(-1, 12, 101, 36), (40, -1, 50, 14)], [1, 1, 1, 3]),
        ([(-1, 30, 60, 54), (36, -1, 60, 54)], [1, 1]),
    ],
    ids=["a bump goes", "a side road stays", "one to the border", "no end in a wide corner"],
)
def test_roads_have_the_ends_that_they_show(boxes, degrees):
    assert sorted(straightened(*boxes).degree) == degrees


def test_a_wide_bend_whose_outer_side_is_cut_askew_has_no_end_there():
    bend = shapely.box(-1, 15, 101, 45) | shapely.box(40, -1, 70, 45)
    cut = shapely.affinity.rotate(shapely.box(70, -5, 120, 70), 16, origin=(70, 30))
    found = straightened_shape(bend - cut - shapely.box(67, 30, 102, 61))
    assert sorted(found.degree) == [1, 1]


@pytest.mark.parametrize("turn_deg", [0, 5, 12])
def test_a_road_that_leaves_the_scene_by_its_side_has_one_end_where_it_is_cut(turn_deg):
    road = shapely.box(-60, -10, 60, 18)
    found = straightened_shape(shapely.affinity.rotate(road, turn_deg, origin=(60, 4)))
    assert len(found.lines) == 1
    assert found.nodes[:, 0].max() == pytest.approx(60, abs=3)


def unforked(graph, mask):
    border = GRID.footprint_m.exterior
    return straighten_ends(graph, mask=mask, border=border, at_border=True)


def forked_at_the_border(width_m):
    """Trace a road that leaves the scene in the east, but for a bay in the middle of its mask."""
    road = shapely.box(-1, 30 - width_m / 2, 101, 30 + width_m / 2)
    return traced(road - shapely.Point(100, 30).buffer(width_m / 6))


@pytest.mark.parametrize(("width_m", "ends"), [(12, 2), (15, 2), (20, 3)])
def test_a_fork_at_the_border_becomes_one_end_in_the_middle_unless_the_road_is_wide(width_m, ends):
    graph, mask = forked_at_the_border(width_m)
    found = unforked(graph, mask)
    assert (graph.degree == 1).sum() == 3
    assert (found.degree == 1).sum() == ends
    if width_m == 12:
        assert found.nodes[found.nodes[:, 0].argmax()] == pytest.approx([99, 30], abs=1.5)


def test_ragged_edges_of_a_road_along_the_border_are_no_roads():
    road = shapely.union_all(
        [shapely.box(-1, 1, 101, 13), *(shapely.box(x, -1, x + 4, 4) for x in (20, 50, 80))]
    )
    graph, mask = traced(road)
    assert (graph.degree == 3).sum() == 3
    assert sorted(unforked(graph, mask).degree) == [1, 1]


def test_a_side_road_near_the_border_stays():
    road = shapely.box(-1, 20, 101, 30) | shapely.box(50, -1, 56, 21)
    graph, mask = traced(road)
    assert sorted(unforked(graph, mask).degree) == [1, 1, 1, 3]


@pytest.mark.parametrize(("south", "junctions"), [(1, 0), (14, 1)])
def test_a_bump_of_a_road_is_left_out_near_the_border_only(south, junctions):
    road = shapely.box(-1, south, 101, south + 12) | shapely.box(50, south - 3, 54, south + 1)
    graph, mask = traced(road)
    found = unforked(graph, mask)
    assert (found.degree == 3).sum() == junctions
