"""Roads that a map lacks, joined to its ways."""

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from roadseg.roads.conflation.conflate import find_new_roads, merged_graph
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.conflation.obstacles import Obstacles
from roadseg.roads.graph.road_graph import DECIMALS, unique_pairs
from roadseg.roads.options import ConflateOptions
from tests.drawing import drawn as graph
from tests.drawing import lines_of

STREET = [(0, 0), (200, 0)]
NOTHING = Obstacles(np.zeros(0, object), np.zeros(0, object), np.zeros(0))


def ways_of(*roads, is_open=True, is_apart=False, is_motorway=False):
    lines = lines_of(*roads)
    node = unique_pairs(np.round(shapely.get_coordinates(lines), DECIMALS))[1]
    flags = [np.full(len(lines), flag) for flag in (is_open, is_apart, is_motorway)]
    return MapWays(lines, node, *flags)


def new_roads(predicted, ways, obstacles=NOTHING, **options):
    return find_new_roads(predicted, ways, obstacles, ConflateOptions(**options))


def drawn(new):
    return [np.round(shapely.get_coordinates(line), 1).tolist() for line in new.lines]


def test_a_road_that_a_map_draws_twice_is_as_long_as_if_it_did_so_once():
    ways = ways_of([(0, 0), (10, 0), (90, 0), (100, 0)], [(0, 0), (10, 0), (90, 0), (100, 0)])
    apart = ways.distances(np.array([0, 0]), np.array([5.0, 95.0]), limit_m=200)
    assert apart[0, 1] == pytest.approx(90)


@pytest.mark.parametrize(("x", "inserted"), [(101.9, 0), (102.1, 1), (4.9, 0), (5.1, 1)])
def test_a_node_of_the_way_within_2_m_and_an_end_within_5_m_is_taken(x, inserted):
    new = new_roads(graph([(x, 0), (x, 90)]), ways_of([(0, 0), (100, 0), (200, 0)]))
    assert len(new.insertions.way) == inserted


def test_a_way_gets_a_node_where_a_road_crosses_it():
    ways = ways_of(STREET)
    new = new_roads(graph([(100, -90), (100, 90)]), ways)
    assert drawn(new) == [[[100, -90], [100, 0], [100, 90]]]
    assert shapely.get_coordinates(new.ways_with_nodes(ways)).tolist() == [
        *([0, 0], [100, 0], [200, 0])
    ]


def test_the_travel_time_of_a_road_counts_what_leads_it_back():
    predicted = graph([(0, 0), (100, 0), (200, 30)], travel_time_s=[20.0])
    new = new_roads(predicted, ways_of(STREET))
    speed = predicted.length_m[0] / 20
    assert new.attributes["travel_time_s"] == pytest.approx(shapely.length(new.lines) / speed)


@pytest.mark.parametrize(
    ("apart", "is_open", "joined"),
    [(1.9, True, True), (2.1, True, False), (0.04, False, True), (0.06, False, False)],
)
def test_a_road_that_passes_a_dead_end_of_the_map_gets_its_node(apart, is_open, joined):
    other = [(100, 100 - apart), (100, 60)]
    ways = ways_of([(0, 0), (0, 300)], other, is_open=[True, is_open])
    new = new_roads(graph([(0, 100), (200, 100)]), ways)
    (line,) = drawn(new)
    assert ([100, round(100 - apart, 1)] in line) == joined


@pytest.mark.parametrize(
    ("roads", "joined"),
    [
        ([[(100, 90), (100, 24.9)], [(0, 90), (100, 90)]], True),
        ([[(100, 90), (100, 25.1)], [(0, 90), (100, 90)]], False),
        ([[(100, 20), (100, 71)]], True),
        ([[(100, 20), (100, 69)]], False),
        ([[(60, 20), (100, 20)], [(60, 20), (60, 90)]], False),
        ([[(100, 90), (100, 20)], [(0, 90), (100, 90)], [(60, 12), (140, 12)]], False),
    ],
    ids=[
        *("ahead", "too far ahead", "a lone road", "longer than two fifths of a lone road"),
        *("a way beside it", "another road before it"),
    ],
)
def test_a_dead_end_is_linked_to_the_way_ahead(roads, joined):
    assert new_roads(graph(*roads), ways_of(STREET)).is_linked.any() == joined


@pytest.mark.parametrize(("link_m", "reason"), [(49, ""), (51, "no image shows it")])
def test_a_road_that_is_mostly_a_link_across_a_gap_has_to_be_checked(link_m, reason):
    # The map hides 8 m at either end.
    roads = [(100, 0), (100, 8 + link_m)], [(100, 8 + link_m), (100, 116)]
    ways = ways_of(STREET, [(0, 116), (200, 116)])
    predicted = graph(*roads, inferred=np.array([1, 0], dtype=np.uint8))
    assert new_roads(predicted, ways).reason.tolist() == [reason] * 2


def railway(*lines):
    return Obstacles(np.array(["railway"], object), lines_of(*lines), np.array([8.0]))


def test_a_road_behind_one_to_check_has_to_be_checked_too():
    predicted = graph([(100, 0), (100, 90)], [(100, 90), (200, 90)])
    new = new_roads(predicted, ways_of(STREET), railway([(0, 50), (200, 50)]))
    assert new.reason.tolist() == ["near a railway", "not connected with the map"]


@pytest.mark.parametrize(("apart", "near"), [(7.9, True), (8.1, False)])
def test_a_road_beside_a_railway_has_to_be_checked(apart, near):
    rail = railway([(100 + apart, 10), (100 + apart, 200)])
    assert new_roads(graph([(100, 0), (100, 90)]), ways_of(STREET), rail).is_added[0] != near


@pytest.mark.parametrize(("x", "added"), [(4, True), (100, False), (196, True)])
def test_a_road_meets_a_bridge_at_its_ends_only(x, added):
    new = new_roads(graph([(x, 0), (x, 90)]), ways_of(STREET, is_apart=True))
    assert new.is_added.tolist() == [added]
    assert len(new.insertions.way) == 0


@pytest.mark.parametrize(("top", "added"), [((200, 60), True), ((100, 90), False)])
def test_only_a_ramp_meets_a_motorway(top, added):
    new = new_roads(graph([(100, 0), top]), ways_of([(0, 0), (300, 0)], is_motorway=True))
    assert new.is_added.tolist() == [added]


@pytest.mark.parametrize(
    ("predicted", "ways", "new"),
    [
        (
            graph([(0, 2), (100, 2), (200, 2)], [(100, 2), (101, 4), (100, 90)]),
            [STREET],
            [[[100, 0], [100, 90]]],
        ),
        (graph([(0, 3), (200, 3)]), [STREET], []),
        (graph(STREET), [[(0, 0), (100, 0)], [(109, 0), (200, 0)]], [[[100, 0], [109, 0]]]),
        (
            graph([(0, 0), (111, -1), (111, 100)]),
            [[(0, 0), (100, 0), (110, 10), (110, 100)]],
            [],
        ),
        (
            graph([(100, 30), (100, 120)]),
            [STREET, [(0, 12), (200, 12)]],
            [[[100, 12], [100, 30], [100, 120]]],
        ),
        (
            graph([(100, -60), (100, 0.9), (110, 0.9), (110, -60)]),
            [[(0, 0), (100, 0), (110, 0), (200, 0)]],
            [[[100, -60], [100, 0]], [[110, 0], [110, -60]]],
        ),
        (graph([(100, 0), (100, 20)]), [STREET], [[[100, 0], [100, 20]]]),
        (graph([(100, 0), (100, 19.9)]), [STREET], []),
        (
            graph([(100, 0), (100, 90)], confidence=np.array([0.5])),
            [STREET],
            [[[100, 0], [100, 90]]],
        ),
        (graph([(100, 0), (100, 90)], confidence=np.array([0.49])), [STREET], []),
    ],
    ids=[
        *("a side street ends on the way", "a road that the map has", "a short gap between ways"),
        *("a corner that the map cuts", "a link leaves out no road in between"),
        *("no road runs between nodes that a way joins", "20 m"),
        *("a road that is too short", "sure enough", "a doubtful road"),
    ],
)
def test_roads_are_new_where_the_map_lacks_them(predicted, ways, new):
    assert drawn(new_roads(predicted, ways_of(*ways))) == new


def test_a_dead_end_beside_that_of_a_way_is_not_joined_to_it():
    new = new_roads(graph([(101, 6), (200, 6)]), ways_of([(0, 0), (100, 0)]))
    assert new.reason.tolist() == ["not connected with the map"]


def test_a_road_that_leaves_a_way_is_joined_to_it_as_far_off_as_it_is_predicted():
    new = new_roads(graph([(0, 7), (60, 7), (200, 60)]), ways_of(STREET))
    assert new.reason.tolist() == [""]


def test_roads_to_check_that_end_together_share_the_node():
    bridge = ways_of(STREET, is_apart=True)
    new = new_roads(graph([(100, 0), (100, 90)], [(100, 0), (160, 90)]), bridge)
    used = new.xy[-1 - np.unique(new.refs)]
    assert len(np.unique(np.round(used, 3), axis=0)) == len(used) == 3


@pytest.mark.parametrize("end_x", [115, 115.01])
def test_new_roads_from_one_junction_near_a_way_do_not_overlap(end_x):
    junction = (100, 6)
    along = [junction, (100.5, 7.9), (end_x, 7.9), (end_x, 90)]
    predicted = graph([junction, (100, 90)], along, [(0, 0), junction])
    first, second = new_roads(predicted, ways_of(STREET)).lines
    assert first.intersection(second).equals(shapely.Point(100, 0))


def test_the_sides_of_a_new_crossing_share_its_node():
    roads = [(100, 0), (100, 50)], [(100, 50), (100, 100)], [(100, 50), (150, 50)]
    new = new_roads(graph(*roads), ways_of(STREET))
    firsts = np.cumsum(new.sizes) - new.sizes
    assert new.refs[firsts[1]] == new.refs[firsts[2]] == new.refs[firsts[1] - 1]


def test_the_merged_graph_joins_old_and_new_roads():
    ways = ways_of(STREET)
    new = new_roads(graph([(100, 0), (100, 90)]), ways)
    assert merged_graph(ways, {}, new).degree.tolist().count(3) == 1


def streets(most):
    """Streets of a few vertices on a grid, which meet often, and cross each other."""
    place = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda xy: (xy[0] * 37, xy[1] * 41))
    street = st.lists(place, min_size=2, max_size=5, unique=True)
    return st.lists(street, min_size=1, max_size=most)


shifts = st.tuples(st.floats(-3, 3), st.floats(-3, 3))


def moved(roads, shift):
    """A prediction that has nodes wherever its roads cross, as traced ones have."""
    lines = shapely.union_all(lines_of(*[np.add(road, shift) for road in roads]))
    return graph(*map(shapely.get_coordinates, shapely.get_parts(lines)))


@settings(max_examples=60)
@given(streets(6), streets(6), shifts)
def test_ways_of_any_map_change_but_for_nodes_on_them(mapped, predicted, shift):
    ways = ways_of(*mapped)
    new = new_roads(moved([*mapped, *predicted], shift), ways)
    for before, after in zip(ways.lines, new.ways_with_nodes(ways), strict=True):
        old = shapely.get_coordinates(before).tolist()
        assert [xy for xy in shapely.get_coordinates(after).tolist() if xy in old] == old
        assert before.hausdorff_distance(after) < 1e-6


@settings(max_examples=60)
@given(streets(5), streets(5), shifts)
def test_new_roads_stay_within_reach_of_the_prediction(mapped, predicted, shift):
    roads = moved(predicted, shift)
    new = new_roads(roads, ways_of(*mapped), max_gap_m=0)
    assert shapely.within(new.lines, shapely.union_all(roads.lines).buffer(9)).all()
