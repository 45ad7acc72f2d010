import networkx as nx
import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.raster.grid import LOCAL_CRS
from roadseg.roads.formats.graphml import read_graphml, write_graphml

UTM = CRS.from_epsg(32631)


@pytest.fixture
def write(tmp_path):
    def write(network):
        path = tmp_path / "roads.graphml"
        nx.write_graphml(network, path)
        return path

    return write


def network(*edges, kind=nx.MultiGraph, **facts):
    """Draw a network of nodes a at (0, 0), b at (300, 0), c at (300, 400)."""
    drawn = kind(**facts)
    for name, (x, y) in {"a": (0, 0), "b": (300, 0), "c": (300, 400)}.items():
        drawn.add_node(name, x=430000 + x, y=4580000 + y)
    for start, goal, more in edges:
        drawn.add_edge(start, goal, **more)
    return drawn


def sorted_as(back, graph):
    """Return the rows of a graph's edges in the order in which they were read back."""
    places = [[line.interpolate(0.3, normalized=True) for line in g.lines] for g in (graph, back)]
    return shapely.STRtree(places[0]).nearest(places[1])


def test_a_graph_of_ours_read_back_is_the_same_to_a_millimetre(tmp_path, graph):
    write_graphml(tmp_path / "a.graphml", graph)
    back = read_graphml(tmp_path / "a.graphml")
    rows = sorted_as(back, graph)
    assert (back.crs, sorted(rows)) == (UTM, [0, 1, 2, 3, 4, 5])
    assert np.abs(back.nodes - graph.nodes).max() < 1e-3
    assert np.array_equal(back.ends, graph.ends[rows])
    assert shapely.equals_exact(back.lines, graph.lines[rows], 1e-3).all()
    for name, column in graph.attributes.items():
        assert back.attributes[name] == pytest.approx(column[rows])


def test_a_graph_without_place_on_earth_read_back_is_the_same(tmp_path, local):
    write_graphml(tmp_path / "a.graphml", local)
    back = read_graphml(tmp_path / "a.graphml")
    assert back.crs == LOCAL_CRS
    assert shapely.equals_exact(back.lines, local.lines[sorted_as(back, local)], 1e-6).all()


def test_an_empty_graph_is_empty(write):
    assert len(read_graphml(write(nx.MultiGraph())).lines) == 0


def test_an_edge_without_geometry_is_straight(write):
    back = read_graphml(write(network(("a", "b", {}), crs="epsg:32631")))
    assert back.length_m.tolist() == [300]


@pytest.mark.parametrize(
    ("edges", "kind", "one_way"),
    [
        ([("a", "b", {})], nx.MultiDiGraph, 1),
        ([("a", "b", {}), ("b", "a", {})], nx.MultiDiGraph, 0),
        ([("a", "b", {"oneway": "True"})], nx.MultiGraph, 0),
        ([("a", "b", {"highway": "motorway"}), ("b", "a", {})], nx.MultiDiGraph, 0),
    ],
)
def test_an_edge_without_one_in_the_other_direction_is_one_way(write, edges, kind, one_way):
    back = read_graphml(write(network(*edges, kind=kind, crs="epsg:32631")))
    assert back.attributes["oneway"].tolist() == [one_way]


def test_lines_run_from_the_first_node_to_the_last(write):
    line = {"geometry": "LINESTRING (430300 4580000, 430100 4580050, 430000 4580000)"}
    back = read_graphml(write(network(("a", "b", line), crs="epsg:32631")))
    assert back.lines[0].coords[0] == (430000, 4580000)


def test_lines_that_cross_at_a_vertex_stay_apart(write):
    lines = (
        {"geometry": "LINESTRING (430000 4580000, 430200 4580200, 430300 4580400)"},
        {"geometry": "LINESTRING (430300 4580000, 430200 4580200, 430000 4580000)"},
    )
    edges = ("a", "c", lines[0]), ("b", "a", lines[1])
    assert len(read_graphml(write(network(*edges, crs="epsg:32631"))).lines) == 2


@pytest.mark.parametrize(
    ("crs", "ends", "epsg", "length_m"),
    [
        ("epsg:4326", [(2.0, 41.0), (2.0, 41.001)], 32631, pytest.approx([111.0], abs=0.2)),
        (  # In feet.
            *("epsg:2229", [(6_480_000.0, 1_840_000.0), (6_480_000.0, 1_841_000.0)], 32611),
            pytest.approx([304.8], rel=0.001),
        ),
    ],
)
def test_degrees_and_feet_come_to_metres(write, crs, ends, epsg, length_m):
    graph = nx.Graph(crs=crs)
    for number, (x, y) in enumerate(ends, 1):
        graph.add_node(number, x=x, y=y)
    graph.add_edge(1, 2)
    back = read_graphml(write(graph))
    assert back.crs == CRS.from_epsg(epsg)
    assert back.length_m == length_m


@pytest.mark.parametrize("crs", [{}, {"crs": ""}])
def test_coordinates_that_can_be_degrees_are_taken_for_them(write, crs):
    unnamed = nx.Graph(**crs)
    unnamed.add_node(1, x=2.0, y=41.0)
    assert read_graphml(write(unnamed)).crs == UTM


@pytest.mark.parametrize(
    ("edges", "kph"),
    [
        ([{"speed_kph": 50.0}, {}], [50, np.nan]),
        ([{"highway": "primary"}, {"maxspeed": "30 mph"}], [45 * 1.609344, 30 * 1.609344]),
    ],
)
def test_edges_have_their_speed_or_that_of_their_class(write, edges, kph):
    found = write(network(("a", "b", edges[0]), ("b", "c", edges[1]), crs="epsg:32631"))
    speeds = read_graphml(found).attributes["speed_kph"]
    assert speeds == pytest.approx(kph, nan_ok=True)


def without_places():
    return nx.path_graph(3)


def in_two_crss():
    line = {"geometry": "LINESTRING (2.0 41.0, 2.1 41.0)"}
    return network(("a", "b", line), crs="epsg:32631")


def with_a(geometry):
    return network(("a", "b", {"geometry": geometry}), crs="epsg:32631")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (without_places(), "a graph without geometry: not every node has numbers x and y"),
        (in_two_crss(), "m away from its node; expected nodes and geometry in one CRS"),
        (with_a("POINT (1 2)"), "geometry of an edge is not a LineString"),
        (with_a("POLYGON ((0 0, 1 0, 1 1, 0 0))"), "geometry of an edge is not a LineString"),
        (with_a("LINESTRING EMPTY"), "geometry of an edge is not a LineString"),
        (with_a("road"), "geometry of an edge is not a LineString"),
        (
            network(("a", "b", {"geometry_utm_wkt": ""})),
            "are in geometry_utm_wkt, expected geometry",
        ),
        (network(crs="epsg:1"), "its crs epsg:1 is unknown"),
        (network(), "has no coordinate system, and x 430000, y 4580000 are not degrees"),
        (network(crs="epsg:4326"), "is not a valid position in WGS 84"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, wrong, message):
    with pytest.raises(DataError, match=message) as caught:
        read_graphml(write(wrong))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", [None, "", "<html></html>", "<graphml><graph>"])
def test_what_is_no_graphml_is_turned_down(tmp_path, text):
    path = tmp_path / "roads.graphml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=r"roads\.graphml: cannot be read as GraphML"):
        read_graphml(path)
