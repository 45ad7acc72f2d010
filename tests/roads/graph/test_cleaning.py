import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.graph.cleaning import (
    contract_edges,
    drop_components,
    merge_chains,
    merge_near_junctions,
    prune_spurs,
    simplify_lines,
)
from roadseg.roads.graph.road_graph import RoadGraph, lines_from
from roadseg.roads.tracing.skeletons import skeletonise, smooth_paths, trace_paths
from tests.drawing import UTM, drawn, vertices_of


def extracted(mask, reach_px=3, tolerance_m=0.5, pixel_m=0.3):
    """The graph of a mask, as the graph stage makes it: traced, smoothed, simplified."""
    paths = smooth_paths(trace_paths(skeletonise(mask)), reach_px=reach_px)
    lines = lines_from(paths.points[:, ::-1] * pixel_m, np.diff(paths.offsets))
    graph = RoadGraph(UTM, paths.nodes[:, ::-1] * pixel_m, paths.ends, lines)
    return simplify_lines(merge_chains(graph), tolerance_m=tolerance_m)


CORNER, RING = [(0, 0), (4, 0), (4, 3)], [(0, 0), (4, 0), (4, 3), (0, 0)]
TEE = [[(0, 0), (5, 0)], [(5, 0), (9, 0)], [(5, 0), (5, 3)]]


@pytest.mark.parametrize(
    ("roads", "merged"),
    [
        (
            [[(0, 0), (5, 0)], [(5, 0), (9, 0)], [(9, 0), (9, 3)]],
            [[(0, 0), (5, 0), (9, 0), (9, 3)]],
        ),
        ([[(0, 0), (5, 0)], [(9, 0), (7, 1), (5, 0)]], [[(0, 0), (5, 0), (7, 1), (9, 0)]]),
        (TEE, TEE),
        ([CORNER, [(0, 0), (4, 3)]], [RING]),
        ([RING, [(0, 0), (-5, 0)]], [RING, [(0, 0), (-5, 0)]]),
    ],
    ids=["in a row", "towards each other", "a junction of three", "a ring", "a loop on a stalk"],
)
def test_edges_in_a_row_become_one(roads, merged):
    found = merge_chains(drawn(*roads))
    as_drawn, as_merged = (
        sorted(shapely.to_wkt(shapely.normalize(graph.lines))) for graph in (drawn(*merged), found)
    )
    assert as_merged == as_drawn
    ends = {tuple(place) for line in merged for place in (line[0], line[-1])}
    assert {tuple(node) for node in found.nodes.tolist()} == ends


@pytest.mark.parametrize(
    ("name", "values", "merged"),
    [
        ("speed_kph", [30, 30], [30]),
        ("speed_kph", [30, 50], [30, 50]),
        ("speed_kph", [np.nan, np.nan], [np.nan]),
        ("speed_kph", [30, np.nan], [30, np.nan]),
        ("name", ["A", "A"], ["A"]),
        ("name", ["A", "B"], ["A", "B"]),
        ("travel_time_s", [2.0, 3.0], [5]),
    ],
)
def test_edges_merge_only_where_their_attributes_are_equal(name, values, merged):
    column = np.array(values, dtype=object if name == "name" else float)
    graph = merge_chains(drawn([(0, 0), (5, 0)], [(5, 0), (9, 0)], **{name: column}))
    np.testing.assert_array_equal(graph.attributes[name], merged)


corners = st.tuples(st.integers(0, 4), st.integers(0, 4))
walks = st.lists(st.lists(corners, min_size=2, max_size=8), min_size=1, max_size=6)


@given(walks)
def test_merging_keeps_every_metre_and_leaves_no_node_of_two_edges(lines):
    graph = drawn(*lines)
    merged = merge_chains(graph)
    assert merged.length_m.sum() == pytest.approx(graph.length_m.sum())
    through = np.flatnonzero(merged.degree == 2)
    rows = [np.flatnonzero((merged.ends == node).any(axis=1)) for node in through]
    assert all(len(row) == 1 for row in rows)


@given(walks)
def test_merged_edges_start_and_end_exactly_at_their_nodes(lines):
    merged = merge_chains(drawn(*lines))
    ends = [[line[0], line[-1]] for line in vertices_of(merged)]
    assert merged.nodes[merged.ends].tolist() == ends


def spur_of(length):
    return drawn([(0, 0), (50, 0)], [(50, 0), (90, 0)], [(50, 0), (50, length)])


FORK = [[(0, 0), (50, 0)], [(50, 0), (53, 4)], [(50, 0), (54, -3.1)]]
STAR = [[(0, 0), (1, 0)], [(0, 0), (-2, 0)], [(0, 0), (0, 3)], [(0, 0), (0, -4)]]
CROSSING = [[(0, 0), (-50, 30)], [(0, 0), (-50, -30)], [(3, 0), (50, 30)], [(3, 0), (50, -30)]]


@pytest.mark.parametrize(
    ("graph", "limit_m", "lengths_m"),
    [
        (spur_of(9.9), 10, [90]),
        (spur_of(10), 10, [10, 40, 50]),
        (drawn(*FORK), 10, [50 + np.hypot(4, 3.1)]),
        (drawn(*STAR), 10, [7]),
        (drawn([(0, 0), (3, 0)]), 10, [3]),
        (
            drawn([(0, 0), (3, 0)], *CROSSING),
            10,
            [3, *[np.hypot(50, 30)] * 2, *[np.hypot(47, 30)] * 2],
        ),
        (drawn(RING, [(0, 0), (-5, 0)]), 6, [12]),
    ],
    ids=[
        *("a spur goes and its road is whole", "a spur of just the limit stays"),
        *("of two the longer is the end of the road", "a star keeps its two longest"),
        *("a free-standing edge", "an edge between junctions", "a ring stays"),
    ],
)
def test_spurs_shorter_than_the_limit_go(graph, limit_m, lengths_m):
    found = prune_spurs(graph, min_spur_m=limit_m)
    assert sorted(found.length_m) == pytest.approx(sorted(lengths_m))


@pytest.mark.parametrize(("border_m", "edges"), [(2.0, 3), (1.9, 1)])
def test_a_spur_that_ends_near_the_border_stays(border_m, edges):
    pruned = prune_spurs(
        spur_of(8),
        min_spur_m=10,
        contains_discs=lambda places, _: np.zeros(len(places), dtype=bool),
        border=shapely.LineString([(0, 10), (90, 10), (90, 0)]),
        border_m=border_m,
    )
    assert len(pruned.lines) == edges


@pytest.mark.parametrize(
    ("length_m", "half_m", "border_m", "edges"),
    [
        *[(15, 10, 99, 1), (15, 9, 99, 3), (55, 99, 99, 3)],
        *[(15, 10, 16, 1), (15, 10, 14, 3)],
    ],
    ids=["in the disc", "beyond it", "long", "far from the border", "as far as the border"],
)
def test_a_spur_in_the_disc_of_road_around_its_junction_goes(length_m, half_m, border_m, edges):
    pruned = prune_spurs(
        drawn([(-60, 0), (0, 0)], [(0, 0), (60, 0)], [(0, 0), (0, length_m)]),
        min_spur_m=10,
        contains_discs=lambda places, radii_m: ~places.any(axis=1) & (radii_m <= half_m),
        border=shapely.LineString([(-500, length_m + border_m), (500, length_m + border_m)]),
    )
    assert len(pruned.lines) == edges


@given(walks, st.floats(0, 6))
def test_no_spur_below_the_limit_is_left(lines, limit):
    pruned = prune_spurs(drawn(*lines), min_spur_m=limit)
    degree = pruned.degree[pruned.ends]
    hangs = (degree.min(axis=1) == 1) & (degree.max(axis=1) >= 3)
    assert (pruned.length_m[hangs] >= limit).all()


@pytest.mark.parametrize(("end", "parts"), [(9.9, [30]), (10, [5, 5, 30])])
def test_a_part_shorter_than_the_limit_is_dropped(end, parts):
    graph = drawn([(0, 0), (5, 0)], [(5, 0), (end, 0)], [(50, 0), (80, 0)])
    assert drop_components(graph, min_component_m=10).length_m.tolist() == parts


@pytest.mark.parametrize(("bump", "vertices"), [(0.49, 2), (0.51, 3)])
def test_a_bump_within_the_tolerance_is_left_out(bump, vertices):
    simple = simplify_lines(drawn([(0, 0), (5, bump), (10, 0)]), tolerance_m=0.5)
    assert shapely.get_num_coordinates(simple.lines).tolist() == [vertices]


def test_a_loop_does_not_collapse():
    graph = drawn([(0, 0), (9, 0), (9, 0.1), (0, 0)])
    assert vertices_of(simplify_lines(graph, tolerance_m=1)) == vertices_of(graph)


@pytest.mark.parametrize(
    "verb",
    [
        merge_chains,
        lambda g: prune_spurs(g, min_spur_m=5),
        lambda g: simplify_lines(drop_components(g, min_component_m=1), tolerance_m=1),
    ],
)
def test_an_empty_graph_stays_empty(verb):
    empty = verb(drawn(speed_kph=np.zeros(0), travel_time_s=np.zeros(0)))
    assert (empty.nodes.shape, empty.ends.shape, empty.lines.shape) == ((0, 2), (0, 2), (0,))
    assert {name: len(column) for name, column in empty.attributes.items()} == {
        "speed_kph": 0,
        "travel_time_s": 0,
    }


@pytest.mark.parametrize("angle_deg", [0, 7, 15, 22.5, 30, 40, 45, 52, 63.4, 71, 80, 90])
def test_the_length_of_a_straight_road_is_right_at_any_angle(angle_deg):
    rows, cols = np.indices((400, 400)) - 199.5
    angle = np.deg2rad(angle_deg)
    along = cols * np.cos(angle) + rows * np.sin(angle)
    across = rows * np.cos(angle) - cols * np.sin(angle)
    graph = extracted((np.abs(across) <= 6) & (np.abs(along) <= 150))
    middle = shapely.LineString([(60 - 42, 60), (60 + 42, 60)])
    turned = shapely.buffer(shapely.LineString(_rotated(middle, angle)), 3, cap_style="flat")
    kept = shapely.length(shapely.intersection(graph.lines, turned)).sum()
    assert kept == pytest.approx(84, rel=0.02)


def _rotated(line, angle):
    xy = shapely.get_coordinates(line) - 60
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return xy @ turn + 60


@pytest.mark.parametrize("radius_px", [40, 100, 180])
def test_the_length_of_a_ring_road_is_right(radius_px):
    rows, cols = np.indices((400, 400)) - 199.5
    graph = extracted(np.abs(np.hypot(rows, cols) - radius_px) <= 6)
    assert graph.length_m.tolist() == pytest.approx([2 * np.pi * radius_px * 0.3], rel=0.02)


def split_crossing(apart=4.0):
    """Two roads that cross, drawn as two junctions."""
    return drawn(
        [(-50, 0), (0, 0)],
        [(0, 40), (0, 0)],
        [(0, 0), (apart, 0)],
        [(apart, 0), (apart, -40)],
        [(apart, 0), (50, 0)],
    )


@pytest.mark.parametrize(("within_m", "degrees"), [(4, [1, 1, 1, 1, 3, 3]), (4.1, [1, 1, 1, 1, 4])])
def test_junctions_nearer_than_the_limit_become_one(within_m, degrees):
    assert sorted(merge_near_junctions(split_crossing(), within_m=within_m).degree) == degrees


def test_the_junction_lies_in_the_middle_and_lines_reach_it():
    graph = merge_near_junctions(split_crossing(), within_m=10)
    node = graph.nodes[graph.degree == 4][0]
    assert node.tolist() == [2, 0]
    assert np.allclose(shapely.distance(graph.lines, shapely.Point(node)), 0)


def test_lines_do_not_turn_back_at_the_new_junction():
    graph = drawn(
        [(-50, 0), (-1, 0), (0, 0)],
        [(0, 40), (0, 1), (0, 0)],
        [(0, 0), (4, 0)],
        [(4, 0), (4, -40)],
        [(4, 0), (3.5, 0), (50, 0)],
    )
    merged = merge_near_junctions(graph, within_m=10)
    assert merged.length_m.max() < 52.1


def test_dead_ends_and_loops_stay():
    loop = [(0, 0), (1, 0), (1, 1), (0, 0)]
    graph = drawn([(0, 0), (2, 0)], [(0, 0), (0, 30)], [(0, 0), (-30, 0)], loop)
    merged = merge_near_junctions(graph, within_m=10)
    assert len(merged.lines) == 4


def test_an_edge_beside_a_contracted_one_becomes_a_loop():
    graph = drawn([(0, 0), (4, 0)], [(0, 0), (2, 9), (4, 0)])
    merged = contract_edges(graph, np.array([True, False]))
    assert merged.ends.tolist() == [[0, 0]]
    assert shapely.is_closed(merged.lines[0])
