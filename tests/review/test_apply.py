"""Edits change a graph as they say, can be taken back, and hold for a graph made anew."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.review.apply import Change, Revision, tick
from roadseg.review.edits import Edit
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import graph_from_lines, take_edges

WEST, EAST, NORTH, SOUTH, APART = range(5)


def edited_graph(graph, edits):
    revision = Revision(graph)
    for each in edits:
        revision.apply(each)
    return revision.graph()


@pytest.fixture
def edit(crossroads, drawn):
    """Give the function that does edits to the crossroads: kind, and a row or places."""

    def edited(*edits, graph=crossroads):
        def made(kind, what, **values):
            return Edit(
                kind, graph.lines[what] if isinstance(what, int) else drawn(*what), **values
            )

        return edited_graph(graph, [made(*each[:2], **dict(each[2:])) for each in edits])

    return edited


def test_what_all_edits_have_changed_together_is_known(crossroads, drawn):
    revision = Revision(crossroads)
    rejected = revision.apply(Edit("reject", crossroads.lines[APART]))
    new = revision.apply(Edit("draw", drawn((20, 150), (60, 150))))
    assert revision.all_changes() == Change(rejected.before, {**rejected.after, **new.after})
    revision.undo(new)
    revision.undo(rejected)
    assert revision.all_changes() == Change()


def edited_of(graph):
    return sorted(graph.attributes["edited"].tolist())


def test_a_rejected_road_is_gone(edit):
    graph = edit(("reject", APART))
    assert len(graph.lines) == 4
    assert np.allclose(graph.attributes["confidence"], [0.9, 0.8, 0.9, 0.9])


def test_an_accepted_road_says_so_and_keeps_its_confidence(edit):
    graph = edit(("accept", APART))
    assert edited_of(graph) == ["", "", "", "", "accepted"]
    assert graph.attributes["confidence"][4] == 0.2


def test_the_last_decision_counts(edit):
    assert edited_of(edit(("reject", WEST), ("accept", WEST)))[-1] == "accepted"
    assert len(edit(("accept", WEST), ("reject", WEST)).lines) == 4


def test_an_untouched_graph_stays_as_it_is(edit, crossroads):
    graph = edit()
    assert (graph.lines == crossroads.lines).all()
    assert (graph.nodes[graph.ends] == crossroads.nodes[crossroads.ends]).all()


def test_a_speed_changes_the_time_and_is_known(edit, crossroads):
    assumed = {**crossroads.attributes, "speed_known": np.zeros(5, dtype=np.uint8)}
    roads = replace(crossroads, attributes=assumed)
    graph = edit(("speed", EAST, ("speed_kph", 20.0)), graph=roads)
    assert graph.attributes["speed_known"].tolist() == [0, 1, 0, 0, 0]
    assert graph.attributes["speed_kph"][EAST] == 20
    assert graph.attributes["travel_time_s"][EAST] == pytest.approx(
        2 * crossroads.attributes["travel_time_s"][EAST]
    )
    assert edited_of(graph)[-1] == "speed"


def test_a_drawn_road_is_joined_to_those_at_its_ends(edit):
    graph = edit(("draw", [(50, 100), (50, 60), (60, 20)]))
    assert len(np.unique(components(graph))) == 1
    assert edited_of(graph) == ["", "", "", "", "", "", "drawn"]  # west was cut
    assert graph.attributes["confidence"].max() == 1


def test_a_drawn_road_is_joined_to_those_that_it_crosses(edit):
    graph = edit(("draw", [(150, 60), (150, 140)]))
    assert edited_of(graph).count("drawn") == 2
    assert len(graph.lines) == 8  # east in two parts as well


def test_a_drawn_road_through_a_node_is_joined_there(edit):
    graph = edit(("draw", [(60, 60), (100.01, 100), (140, 140)]))
    assert len(graph.lines) == 7
    assert graph.degree.max() == 6


def test_a_drawn_road_has_the_speed_of_those_it_meets(edit):
    graph = edit(
        ("speed", EAST, ("speed_kph", 80.0)),
        ("draw", [(190, 100), (190, 150)]),
    )
    assert graph.attributes["speed_kph"][graph.attributes["edited"] == "drawn"].tolist() == [80]


@pytest.mark.parametrize(("own", "width_m"), [({}, 8.0), ({"width_m": 5.0}, 5.0)])
def test_a_drawn_road_is_as_wide_as_those_it_meets_unless_it_says_otherwise(edit, own, width_m):
    graph = edit(("draw", [(190, 100), (190, 150)], *own.items()))
    assert graph.attributes["width_m"][graph.attributes["edited"] == "drawn"].tolist() == [width_m]


@pytest.mark.parametrize(("away", "joined"), [(2.9, 1), (3.1, 2)])
def test_a_line_drawn_elsewhere_is_joined_up_to_three_metres(edit, crossroads, away, joined):
    streets = take_edges(crossroads, np.arange(4))
    graph = edit(("draw", [(150, 100 + away), (150, 150)]), graph=streets)
    assert len(np.unique(components(graph))) == joined


def test_the_same_road_drawn_twice_is_there_once(edit):
    once, twice = (edit(*[("draw", [(10, 150), (60, 150)])] * times) for times in (1, 2))
    assert (once.lines == twice.lines).all()


def test_a_moved_vertex_takes_all_roads_that_meet_there(edit):
    graph = edit(("move", [(100, 100), (105, 95)]))
    assert edited_of(graph) == ["", "moved", "moved", "moved", "moved"]
    assert len(np.unique(components(graph))) == 2
    assert graph.degree.max() == 4


def test_a_vertex_inside_a_road_can_be_moved(edit, drawn):
    graph = edit(("move", [(50, 100), (50, 90)]))
    assert graph.lines[WEST].equals(drawn((10, 100), (50, 90), (100, 100)))


def test_a_moved_road_that_is_accepted_was_still_moved(edit):
    graph = edit(("move", [(50, 100), (50, 90)]), ("accept", [(10, 100), (50, 90), (100, 100)]))
    assert graph.attributes["edited"][WEST] == "moved"


def test_a_drawn_road_that_is_moved_was_still_drawn(edit):
    graph = edit(("draw", [(10, 150), (60, 150)]), ("move", [(60, 150), (70, 150)]))
    assert edited_of(graph)[-1] == "drawn"


def test_a_joined_end_makes_a_node_on_the_other_road(edit):
    graph = edit(("join", [(60, 20), (100, 20)]))
    assert len(np.unique(components(graph))) == 1
    assert edited_of(graph) == ["", "", "", "", "", "moved"]


def test_a_join_that_cuts_the_road_that_it_moves_can_be_taken_back(crossroads, drawn):
    revision = Revision(crossroads)
    before = revision.graph()
    change = revision.apply(Edit("join", drawn((50, 100), (60, 20))))
    assert len(revision.graph().lines) == len(before.lines) + 1
    revision.undo(change)
    assert same(revision.graph(), before)


def test_a_split_road_has_two_parts_that_can_be_decided_apart(edit, crossroads):
    graph = edit(
        ("split", [(149.5, 99), (150.5, 101)]),
        ("reject", [(100, 100), (150, 100)]),
    )
    assert len(graph.lines) == 5
    assert graph.attributes["travel_time_s"].sum() == pytest.approx(
        crossroads.attributes["travel_time_s"].sum() - 50 / 40 * 3.6
    )


def test_a_tick_crosses_the_road_at_the_nearest_place(drawn):
    road = drawn((0, 0), (100, 0))
    crossing = tick(road, np.array(drawn((40, 5), (0, 0)).coords[0]))
    assert crossing.intersects(road)
    assert crossing.length == pytest.approx(1)
    assert crossing.centroid.distance(shapely.Point(drawn((40, 0), (0, 0)).coords[0])) < 1e-6


def test_rejected_roads_are_not_joined(edit):
    graph = edit(("reject", EAST), ("draw", [(150, 60), (150, 140)]))
    assert edited_of(graph).count("drawn") == 1


def moved(graph, by):
    lines = shapely.transform(graph.lines, lambda xy: xy + by)
    return graph_from_lines(lines, graph.crs, graph.attributes)


@pytest.mark.parametrize(("by", "left"), [(0.4, 4), (2.0, 4), (20.0, 5)])
def test_decisions_hold_for_a_graph_made_anew_where_the_line_is_still_there(crossroads, by, left):
    decided = [Edit("reject", crossroads.lines[EAST])]
    assert len(edited_graph(moved(crossroads, by), decided).lines) == left


def test_a_decision_about_half_of_a_road_does_not_decide_about_all_of_it(crossroads, drawn):
    decided = [Edit("reject", drawn((100, 100.5), (145, 100.5)))]
    assert len(edited_graph(crossroads, decided).lines) == 5


def test_a_decision_holds_for_all_parts_of_a_road_that_is_cut_now(crossroads, drawn):
    cut = edited_graph(crossroads, [Edit("split", drawn((150, 99), (150, 101)))])
    assert len(edited_graph(cut, [Edit("reject", crossroads.lines[EAST])]).lines) == 4


def test_an_accepted_road_that_a_new_graph_lacks_is_drawn(crossroads):
    without = take_edges(crossroads, np.array([WEST, NORTH, SOUTH, APART]))
    graph = edited_graph(without, [Edit("accept", crossroads.lines[EAST])])
    assert edited_of(graph) == ["", "", "", "", "drawn"]
    assert components(graph).max() == components(crossroads).max()  # It is joined again.


def test_an_accepted_road_that_was_drawn_anew_beside_it_is_not_doubled(crossroads, drawn):
    graph = edited_graph(crossroads, [Edit("accept", drawn((100, 106), (200, 106)))])
    assert edited_of(graph) == [""] * 5


def test_edits_about_nothing_change_nothing(edit, crossroads):
    graph = edit(
        ("reject", [(0, 199), (5, 199)]),
        ("move", [(0, 199), (5, 199)]),
        ("split", [(0, 199), (5, 199)]),
    )
    assert (graph.lines == crossroads.lines).all()


def test_a_graph_without_attributes_can_be_edited(crossroads, drawn):
    bare = replace(crossroads, attributes={})
    graph = edited_graph(bare, [Edit("draw", drawn((10, 150), (60, 150)))])
    assert list(graph.attributes) == ["edited"]


def test_roads_can_be_drawn_where_there_are_none(crossroads, drawn):
    nothing = take_edges(crossroads, np.zeros(0, dtype=int))
    graph = edited_graph(nothing, [Edit("draw", drawn((10, 150), (60, 150)))])
    assert graph.attributes["travel_time_s"] == pytest.approx([50 / 40 * 3.6])


PLACES = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda xy: (10 * xy[0], 10 * xy[1]))
KINDS = st.sampled_from(["accept", "reject", "draw", "move", "join", "split", "speed"])


@given(st.lists(st.tuples(KINDS, PLACES, PLACES), max_size=12))
def test_whatever_is_done_can_be_taken_back_and_is_the_same_when_replayed(
    crossroads, drawn, wanted
):
    edits = [Edit(kind, drawn(start, goal), 30.0) for kind, start, goal in wanted if start != goal]
    revision = Revision(crossroads)
    graphs, changes = [revision.graph()], []
    for each in edits:
        changes.append(revision.apply(each))
        graphs.append(revision.graph())
    assert same(graphs[-1], edited_graph(crossroads, edits))
    assert (shapely.length(graphs[-1].lines) > 0).all()
    for change in reversed(changes):
        assert same(graphs.pop(), revision.graph())
        revision.undo(change)
    assert same(graphs.pop(), revision.graph())


def same(left, right):
    columns = all(
        np.array_equal(
            left.attributes[name], right.attributes[name], equal_nan=column.dtype.kind == "f"
        )
        for name, column in left.attributes.items()
    )
    return (
        len(left.lines) == len(right.lines)
        and columns
        and (left.lines == right.lines).all()
        and (left.ends == right.ends).all()
    )
