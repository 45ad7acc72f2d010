import itertools
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.roads.formats.osm_xml import write_osm, xml_text
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines

UTM = CRS.from_epsg(32631)
SPEEDS_KPH = [30, 40, 50, 60, 70, 100]
CLASSES = ["unclassified", "residential", "tertiary", "secondary", "primary", "trunk"]


@pytest.fixture
def graph(graph):
    """The drawn roads with a speed of each kind."""
    return replace(graph, attributes={"speed_kph": np.array(SPEEDS_KPH, dtype=float)})


@pytest.fixture
def written(tmp_path):
    """Give a function that writes a graph with further attributes, and parses it."""

    def write(graph, **attributes):
        told = {name: np.array(column) for name, column in attributes.items()}
        write_osm(tmp_path / "a.osm", replace(graph, attributes={**graph.attributes, **told}))
        return ET.parse(tmp_path / "a.osm").getroot()  # noqa: S314 - just written

    return write


def tags(way):
    return {tag.get("k"): tag.get("v") for tag in way.iter("tag")}


def values(root, key):
    return [tags(way).get(key) for way in root.iter("way")]


def refs(root):
    return [[int(nd.get("ref")) for nd in way.iter("nd")] for way in root.iter("way")]


def one_line(vertices):
    xy = np.column_stack([430_000 + np.arange(vertices), np.full(vertices, 4_580_000.0)])
    return RoadGraph(UTM, xy[[0, -1]], np.array([[0, 1]]), np.array([shapely.LineString(xy)]))


def test_roads_meet_in_one_node_and_have_their_other_vertices_to_themselves(written, graph):
    root = written(graph)
    ways = refs(root)
    assert [(way[0], way[-1]) for way in ways] == [tuple(ends) for ends in -1 - graph.ends]
    inner = [node for way in ways for node in way[1:-1]]
    assert sorted(inner) == [-9, -8, -7, -6]
    assert len({way.get("id") for way in root.iter("way")}) == len(ways)


@pytest.mark.parametrize(
    ("columns", "classes"),
    [
        ({}, CLASSES),
        (
            {"highway": ["service", None, "", np.nan, "track", "x"]},
            ["service", *CLASSES[1:4], "track", "x"],
        ),
        ({"speed_known": [1, 1, 1, 0, 1, 1]}, [*CLASSES[:3], "road", *CLASSES[4:]]),
        (
            {"speed_known": np.zeros(6), "highway": ["tertiary", *[None] * 5]},
            ["tertiary", *["road"] * 5],
        ),
    ],
    ids=["of its speed", "its own", "none without evidence", "its own where speed is assumed"],
)
def test_a_road_has_a_class(written, graph, columns, classes):
    if "highway" in columns:
        columns = columns | {"highway": np.array(columns["highway"], dtype=object)}
    assert values(written(graph, **columns), "highway") == classes


def test_roads_without_speed_have_no_class(written, graph):
    assert set(values(written(replace(graph, attributes={})), "highway")) == {"road"}


def test_a_link_across_a_gap_is_to_be_looked_at(written, graph):
    found = values(written(graph, inferred=np.array([0, 1, 0, 0, 0, 0])), "fixme")
    assert found == [None, "inferred across a gap", None, None, None, None]


@pytest.mark.parametrize(
    ("scene", "source"),
    [("a.v2 <b>", "roadseg;a.v2 <b>"), ("", "roadseg"), ("é" * 300, "roadseg;" + "é" * 247)],
)
def test_the_source_is_roadseg_and_the_scene(written, graph, scene, source):
    assert set(values(written(graph, source=[scene] * 6), "source")) == {source}


def test_nothing_is_invented(written, graph):
    told = {"width_m": np.full(6, 7.0), "probability": np.ones(6), "inferred": np.ones(6)}
    root = written(graph, **told)
    assert {key for way in root.iter("way") for key in tags(way)} == {"highway", "source", "fixme"}
    assert {(element.tag, *element.attrib) for element in root.iter()} == {
        ("osm", "version", "generator", "upload"),
        *(("node", "id", "lat", "lon"), ("way", "id"), ("nd", "ref"), ("tag", "k", "v")),
    }


@pytest.mark.parametrize(("vertices", "sizes"), [(2000, [2000]), (2001, [2000, 2])])
def test_a_long_road_is_several_ways(written, vertices, sizes):
    ways = refs(written(one_line(vertices)))
    assert [len(way) for way in ways] == sizes
    assert all(before[-1] == after[0] for before, after in itertools.pairwise(ways))


def test_an_empty_graph_is_an_empty_file_that_is_not_for_upload(written, graph):
    root = written(graph_from_lines(graph.lines[:0], UTM))
    assert (root.tag, len(root)) == ("osm", 0)
    assert (root.get("version"), root.get("upload")) == ("0.6", "never")


@example('a "quote" & <tag>')
@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
    )
)
def test_any_text_comes_back_from_an_element_and_from_an_attribute(text):
    written = ET.fromstring(f'<a v="{xml_text(text)}">{xml_text(text)}</a>')  # noqa: S314 - our own
    assert (written.get("v"), written.text or "") == (text, text)


@pytest.mark.parametrize("kept", ["\t", "\n", "\r"])
def test_the_ends_of_lines_come_back(kept):
    written = ET.fromstring(f'<a v="{xml_text(kept)}"/>')  # noqa: S314 - our own
    assert written.get("v") == kept


@pytest.mark.parametrize("forbidden", ["\0", "\x1b", "\ud800", "\ufffe"])
def test_what_xml_cannot_hold_is_left_out(forbidden):
    assert xml_text(f"a{forbidden}b") == "ab"
