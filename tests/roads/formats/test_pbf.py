from dataclasses import replace

import numpy as np
import pytest

from roadseg.roads.formats.pbf import FIRST_NODE, FIRST_WAY, write_pbf

osmium = pytest.importorskip("osmium", reason="needs osmium of roadseg[osm]")
LARGEST_NODE, LARGEST_WAY = 2**34, 2**32  # of OSRM, and of older Valhallas


@pytest.fixture
def written(tmp_path):
    """Give a function that writes a graph with further attributes, and returns what it wrote."""

    def write(graph, **attributes):
        told = {name: np.array(column) for name, column in attributes.items()}
        path = tmp_path / "a.pbf"
        write_pbf(path, replace(graph, attributes={**graph.attributes, **told}))
        with osmium.io.Reader(str(path)) as reader:
            header = reader.header()
        found = [
            (thing.type_str(), thing.id, dict(thing.tags)) for thing in osmium.FileProcessor(path)
        ]
        return header, found

    return write


def tags(found, key):
    return [facts.get(key) for kind, _, facts in found if kind == "w"]


def test_objects_are_sorted_and_their_ids_are_those_of_no_map(written, graph):
    _, found = written(graph)
    assert [kind for kind, *_ in found] == sorted(kind for kind, *_ in found)
    nodes, ways = ([number for kind, number, _ in found if kind == each] for each in "nw")
    assert nodes == list(range(FIRST_NODE, FIRST_NODE + 9))
    assert ways == list(range(FIRST_WAY, FIRST_WAY + 6))
    assert (max(nodes) < LARGEST_NODE, max(ways) < LARGEST_WAY) == (True, True)


def test_the_header_says_what_it_is_and_where(written, graph):
    header, _ = written(graph)
    box = header.box()
    assert "not for upload" in header.get("generator")
    assert header.get("sorting") == "Type_then_ID"
    assert box.valid()
    assert (round(box.bottom_left.lon, 1), round(box.bottom_left.lat, 1)) == (2.2, 41.4)


@pytest.mark.parametrize(
    ("kph", "text"),
    [(50.0, "50"), (40.2336, "25 mph"), (37.46, "37.5"), (48.28032, "30 mph"), (np.nan, None)],
)
def test_speeds_are_written_as_openstreetmap_does(written, graph, kph, text):
    _, found = written(graph, speed_kph=[kph] * 6, travel_time_s=[np.nan] * 6)
    assert tags(found, "maxspeed") == [text] * 6


@pytest.mark.parametrize(("factor", "text"), [(1.004, "36"), (2.0, "18")])
def test_a_stated_time_that_is_far_from_the_speed_counts(written, graph, factor, text):
    seconds = graph.length_m / 10 * factor
    _, found = written(graph, speed_kph=[36.0] * 6, travel_time_s=seconds)
    assert set(tags(found, "maxspeed")) == {text}


def test_it_says_which_speeds_are_predicted_and_which_assumed(written, graph):
    _, found = written(graph, speed_kph=[40.0] * 6, speed_known=[1, 0, 1, 1, 1, 1])
    assert tags(found, "source:maxspeed")[:2] == ["predicted", "assumed"]


def test_one_way_roads_say_so_and_motorways_that_are_not(written, graph):
    classes = ["motorway", "motorway_link", "primary", "primary", "primary", "motorway"]
    _, found = written(graph, oneway=[0, 0, 1, -1, 0, 1], highway=classes)
    assert tags(found, "oneway") == ["no", "no", "yes", "-1", None, "yes"]
