"""Routes of the report across scenes that touch: on their network, as the command finds them."""

import pytest

from roadseg.commands.roads import route
from roadseg.roads.formats.files import read_gpkg
from roadseg.system.workspace import ROAD_NETWORK


@pytest.fixture
def ends(joined_run, middle):
    """Return a place on the road from west to east in each of two scenes that touch."""
    graphs = [read_gpkg(joined_run.graph(name)) for name in ("city_0", "city_1")]
    longest = [graph.length_m.argmax() for graph in graphs]
    return [middle(graph, row) for graph, row in zip(graphs, longest, strict=True)]


@pytest.mark.parametrize("scene", ["a0", "s0"])
def test_a_route_across_a_border_takes_the_time_that_the_command_says(
    open_page, joined_run, ends, scene
):
    page = open_page(joined_run)
    page.select_option("#scene", scene)
    found = page.evaluate("ends => roadseg.route(...ends)", [list(end) for end in ends])
    expected = route.run(joined_run.graph(ROAD_NETWORK), *ends)
    assert found["seconds"] == pytest.approx(expected.seconds, abs=0.001)


def test_roads_of_scenes_that_touch_are_in_the_page_once(open_page, joined_run):
    names = open_page(joined_run).evaluate("roadseg.map.graphs.map(({ name }) => name)")
    assert names == [ROAD_NETWORK]
