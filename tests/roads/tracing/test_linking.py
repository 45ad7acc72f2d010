import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.tracing.linking import general_link_model, link_gaps

GRID = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 60), 60, 120)  # x 0 to 120, y 0 to 60
FACING = [(10, 30), (50, 30)], [(62, 30), (110, 30)]


def linked(*lines, max_gap_m=10.0, **options):
    found = graph_from_lines(np.array([shapely.LineString(xy) for xy in lines]), LOCAL_CRS)
    return link_gaps(found, max_gap_m=max_gap_m, **options)


def links(graph):
    return graph.lines[graph.attributes["inferred"] == 1]


def through(road, *lines, max_gap_m=20.0, **options):
    def read_road(window):
        return road[window.row :, window.col :][: window.height, : window.width]

    return linked(*lines, max_gap_m=max_gap_m, grid=GRID, read_road=read_road, **options)


def drawn(*lines, value=100):
    """Draw lines 3 m wide into a raster of no road."""
    road = np.zeros((60, 120), dtype=np.uint8)
    y, x = 59.5 - np.arange(60), np.arange(120) + 0.5
    pixels = shapely.points(*np.meshgrid(x, y))
    for xy in lines:
        road[shapely.distance(pixels, shapely.LineString(xy)) < 1.5] = value
    return road


@pytest.mark.parametrize(("gap_m", "expected"), [(10.0, 1), (10.1, 0)])
def test_two_ends_that_face_each_other_are_linked_once_up_to_the_longest_gap(gap_m, expected):
    found = linked([(0, 0), (50, 0)], [(50 + gap_m, 0), (110, 0)])
    assert found.attributes["inferred"].tolist() == [0, 0, 1][: 2 + expected]
    assert (
        np.isfinite(found.attributes["confidence"]).tolist() == [False, False, True][: 2 + expected]
    )
    assert found.length_m.sum() == pytest.approx(110 - gap_m * (1 - expected))


ROAD, SIDE = [(0, 0), (50, 0)], [(0, 0), (150, 0)]


def turned(degrees):
    """Return a road, and one that goes on 8 m further after a turn."""
    ahead = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    return ROAD, [(50, 0) + 8 * ahead, (50, 0) + 60 * ahead]


def joined(beside_m):
    """Return two ends 10 m apart, which a road so far beside them joins."""
    west, east = [(-50, 0), (-1, 0)], [(11, 0), (60, 0)]
    stubs = [(-1, 0), (0, 0)], [(10, 0), (11, 0)]
    return west, east, *stubs, [(-1, 0), (-1, beside_m), (11, beside_m), (11, 0)]


def stub(own_m):
    """Return a short road that leads from a junction to a road 8 m ahead."""
    ahead = [(own_m + 8, -9), (own_m + 8, 9)]
    return [(-50, -30), (0, 0), (-50, 30)], [(0, 0), (own_m, 0)], ahead


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [
        (turned(89), {}, 1),
        (turned(91), {}, 0),
        (joined(0.4), {}, 0),
        (joined(0.6), {}, 1),
        (([(-50, 16), (150, 16)], ROAD), {"max_gap_m": 20}, 0),
        (([(0, 12), (50, 2)], SIDE), {"max_gap_m": 20}, 1),
        ((ROAD, [(58, 0), (64, 0)]), {}, 0),
        ((ROAD, [(58, 0), (64, 0)], [(54, 7), (54, 60)]), {}, 0),
        ((ROAD, [(55, 0), (64.9, 0)]), {}, 0),
        ((ROAD, [(55, 0), (65.1, 0)]), {}, 1),
        (stub(10.0), {"max_gap_m": 9}, 0),
        (stub(11.0), {"max_gap_m": 9}, 1),
        (([(0, 0), (30, 0)], [(41.9, -40), (41.9, 40)]), {"max_gap_m": 15}, 1),
        (([(0, 0), (30, 0)], [(42.1, -40), (42.1, 40)]), {"max_gap_m": 15}, 0),
        ((ROAD, [(51, 0), (110, 0)]), {"max_gap_m": 0}, 0),
        ((ROAD, [(54, -3), (54, -60)]), {"max_gap_m": 12}, 1),
    ],
    ids=[
        *("a turn of less than 90 degrees", "a link does not turn back"),
        *("ends that a road of half as much again joins", "ends that a longer road joins"),
        "a road 16 m alongside",
        *("an end that merges into a road", "a lone piece with one neighbour"),
        *("a link to a link that is taken back", "a piece shorter than the longest gap"),
        *("a piece longer than that is a road", "a short stub reaches less far", "a longer stub"),
        *("a piece with two dead ends before a side", "that reaches less far", "no gap allowed"),
        "two ends beside each other's road are linked once",
    ],
)
def test_links_keep_the_rules_and_roads_as_they_were(lines, options, expected):
    found = linked(*lines, **options)
    made = links(found)
    assert len(made) == expected
    roads_m = found.length_m.sum() - shapely.length(made).sum()
    assert roads_m == pytest.approx(sum(shapely.LineString(xy).length for xy in lines))


def test_a_link_between_two_ends_crosses_a_road_and_is_joined_with_it():
    # Stubs of 6 m are too short for a link to the road, which is 6 m from both.
    west = [(-50, -30), (0, 0), (-50, 30)], [(0, 0), (6, 0)]
    east = [(74, -30), (24, 0), (74, 30)], [(24, 0), (18, 0)]
    found = linked(*west, *east, [(12, -40), (12, 40)], max_gap_m=15)
    assert shapely.union_all(links(found)).equals(shapely.LineString([(6, 0), (18, 0)]))
    crossing = np.flatnonzero((found.nodes == (12, 0)).all(axis=1))
    assert found.degree[crossing].tolist() == [4]


@pytest.mark.parametrize(("gap_m", "expected"), [(1, 0.975), (10, 0.75), (20, 0.5)])
def test_without_a_raster_short_links_are_surer(gap_m, expected):
    found = linked([(0, 0), (50, 0)], [(50 + gap_m, 0), (110, 0)], max_gap_m=20)
    assert found.attributes["confidence"][2] == pytest.approx(expected)


ARMS = [[(8 * x, 8 * y), (60 * x, 60 * y)] for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))]
ENDS = [(0, 0), (46, 0)], [(54, 0), (100, 0)]
RING_DEG = np.radians(np.linspace(10, 350, 80))


@pytest.mark.parametrize(
    ("lines", "degrees", "metres"),
    [
        ([[(0, 0), (100, 0)], [(50, 8), (50, 60)]], [1, 1, 1, 2, 3], 160),
        (ARMS, [1, 1, 1, 1, 2, 2, 2, 2, 4], 240),
        ([*ENDS, [(50, -40), (50, 40)]], [1, 1, 1, 1, 2, 2, 4], 180),
        ([*ENDS, [(50, 7), (50, 60)]], [1, 1, 1, 2, 2, 2, 3], 160),
        ([ROAD, [(58, 0), (64, 0)], [(72, 0), (120, 0)]], [1, 1, 2, 2, 2, 2], 120),
        ([50 * np.column_stack([np.cos(RING_DEG), np.sin(RING_DEG)])], [2, 2], 314),
    ],
    ids=[
        *("an end in front of a side", "a hole in a crossing", "ends that a road passes between"),
        *("a third end at a lost junction", "a lone piece between two gaps", "a ring with a gap"),
    ],
)
def test_links_join_roads_as_they_were(lines, degrees, metres):
    found = linked(*lines, max_gap_m=20)
    assert sorted(found.degree) == degrees
    assert found.length_m.sum() == pytest.approx(metres, abs=0.5)


@pytest.mark.parametrize(
    ("lines", "max_gap_m", "link"),
    [
        ([[(44, 25), (37, 26), (24, 31)], [(21, 27), (14, 39), (18, 32)]], 20, "24 31, 18 32.2"),
        ([ROAD, [(60, 0), (61, 0), (110, 0)], [(52, 40), (62, 7), (72, -26)]], 15, "50 0, 60 0"),
        ([ROAD, [(54, -40), (54, 40)], [(57, -40), (57, 40)]], 10, "50 0, 54 0"),
    ],
    ids=["not to an end that looks away", "to the end ahead rather than a side", "to the first"],
)
def test_a_link_leads_to_the_likeliest_place(lines, max_gap_m, link):
    found = shapely.to_wkt(links(linked(*lines, max_gap_m=max_gap_m)), rounding_precision=1)
    assert found[0] == f"LINESTRING ({link})"


@pytest.mark.parametrize("seed", range(12))
def test_links_keep_all_roads_and_cross_none(seed):
    rng = np.random.default_rng(seed)
    starts = rng.uniform(0, 200, (80, 2))
    ends = starts + rng.uniform(-25, 25, (80, 2))
    drawn = shapely.union_all(shapely.linestrings(np.stack([starts, ends], axis=1)))
    lines = [part.coords for part in shapely.get_parts(drawn)]
    found = linked(*lines, max_gap_m=20)
    made = links(found)
    crossed, _ = shapely.STRtree(found.lines).query(made, predicate="crosses")
    assert len(made) > 0
    assert len(crossed) == 0
    assert found.length_m.sum() - shapely.length(made).sum() == pytest.approx(
        drawn.length, rel=1e-3
    )


def test_ends_at_the_border_of_the_scene_are_left_alone():
    lines = [(0, 0), (50, 0)], [(58, 0), (110, 0)]
    border = shapely.LineString([(51, -10), (51, 10)])
    assert len(links(linked(*lines, border=border))) == 1  # the other end links
    both = shapely.MultiLineString([border, [(57, -10), (57, 10)]])
    assert len(links(linked(*lines, border=both))) == 0


def test_a_link_goes_where_the_raster_shows_road():
    ways = drawn(*FACING, [(50, 30), (56, 34), (62, 30)], value=220)
    found = through(ways, *FACING)
    assert shapely.bounds(links(found)[0])[3] > 31.5
    assert found.attributes["confidence"][2] == pytest.approx(220 / 255, abs=0.01)


def test_a_link_has_the_probability_that_the_model_says_and_needs_enough():
    road = drawn([(10, 30), (110, 30)])
    found = through(road, *FACING, model=general_link_model())
    said = found.attributes["confidence"][2]
    assert len(links(through(road, *FACING, model=general_link_model(), min_probability=said))) == 1
    more = through(road, *FACING, model=general_link_model(), min_probability=said + 1e-6)
    assert len(links(more)) == 0


def test_a_link_along_a_visible_road_is_more_probable_than_one_across_open_ground():
    along, across = (
        through(drawn(*shown, value=150), *FACING, model=general_link_model()).attributes[
            "confidence"
        ]
        for shown in ([[(10, 30), (110, 30)]], FACING)
    )
    assert 0 < across[2] < along[2] < 1


def test_a_link_across_ground_without_any_road_is_straight():
    road = drawn(*FACING, value=200)
    found = through(road, *FACING)
    assert shapely.to_wkt(links(found)) == ["LINESTRING (50 30, 62 30)"]
    assert found.attributes["confidence"][2] < 0.5


def test_a_mask_says_nothing_about_links():
    without, mask = linked(*FACING, max_gap_m=20), drawn(*FACING, value=255)
    found = through(mask, *FACING, min_probability=0.9)  # Which a link on a mask cannot lack.
    assert found.attributes["confidence"][2] == pytest.approx(without.attributes["confidence"][2])


def test_only_windows_around_links_are_read():
    grid = Grid(LOCAL_CRS, Affine(0.5, 0, 0, 0, -0.5, 20_000), 40_000, 40_000)
    sizes = []

    def read_road(window):
        sizes.append(window[2:])
        return np.full(window[2:], 90, dtype=np.uint8)

    near, far = ([(x, 9000), (x + 90, 9000)] for x in (5000, 5100))
    linked(near, far, max_gap_m=20, grid=grid, read_road=read_road)
    assert sizes
    assert max(max(size) for size in sizes) < 40


def test_without_roads_there_are_no_links():
    assert linked().attributes["inferred"].tolist() == []
