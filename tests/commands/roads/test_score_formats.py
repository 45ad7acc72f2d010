"""One graph scores 1 against itself, whatever format either side is in and whoever wrote it."""

import itertools
from operator import methodcaller

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from shapely import affinity

from roadseg.commands.roads.score import run
from roadseg.roads.formats.by_suffix import write_graphs
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph
from roadseg.roads.graph.shortest_paths import place_control_points
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.metrics.canonical import canonical_graph
from roadseg.roads.options import CompareOptions
from tests.drawing import LAS_VEGAS as ORIGIN
from tests.drawing import UTM, lines_of

EXACT = ("gpkg", "graphml", "parquet")  # GeoJSON has decimals for a centimetre
FORMATS = (*EXACT, "geojson")
APART_M = 0.05  # Further apart, places are told apart after rounding.


def make_graph(ends, bends, speeds, slow=1.0):
    """Draw a graph on nodes 150 m apart, every edge bent once; `slow` is that of its traffic."""
    ends = np.array(ends, dtype=np.int64)
    nodes = np.array([(150.0 * x, 150.0 * y) for x, y in itertools.product(range(3), range(3))])
    used, rows = np.unique(ends, return_inverse=True)
    nodes, rows = nodes[used] + ORIGIN, rows.reshape(-1, 2)
    middle = nodes[rows].mean(axis=1) + np.array(bends)
    xy = np.stack([nodes[rows[:, 0]], middle, nodes[rows[:, 1]]], axis=1).round(3)
    graph = RoadGraph(UTM, nodes, rows, lines_of(*xy))
    graph = add_travel(graph, np.array(speeds))
    graph.attributes[TRAVEL_TIME] = graph.attributes[TRAVEL_TIME] * slow
    graph.attributes["highway"] = np.full(len(ends), "road", dtype=object)
    return graph


SQUARE = make_graph(
    [(0, 1), (1, 4), (4, 3), (3, 0), (1, 2)],
    [(3.37, 1.91), (-2.2, 7.7), (5.1, -4.3), (-6.6, 2.9), (0.4, 9.3)],
    [40.2336, 64.37376, 88.51392, 8.0, 120.0],
)


@st.composite
def graphs(draw):
    pairs = list(itertools.combinations(range(9), 2))
    ends = draw(st.lists(st.sampled_from(pairs), min_size=2, max_size=9, unique=True))
    off = st.floats(2.0, 40.0)
    bends = draw(st.lists(st.tuples(off, off), min_size=len(ends), max_size=len(ends)))
    kph = st.floats(3.0, 250.0)
    speeds = draw(st.lists(kph, min_size=len(ends), max_size=len(ends)))
    graph = make_graph(ends, bends, speeds, slow=draw(st.floats(1.0, 3.0)))
    # Formats of lines alone join edges that share a vertex, as graphs with a bridge do not.
    middles = shapely.get_coordinates(shapely.get_point(graph.lines, 1))
    assume(pdist(middles).min() > APART_M)
    assume(says_on_which_road(graph))
    return graph


def says_on_which_road(graph):
    """Whether no control point of APLS lies where roads cross without a node.

    There, rounded lines may snap it to the other road, or to where its own one passes again.
    """
    graph = canonical_graph(graph)
    points = shapely.points(place_control_points(graph, spacing_m=50)[1])[:, np.newaxis]
    ends = np.concatenate([list(itertools.pairwise(line.coords)) for line in graph.lines])
    pieces = shapely.linestrings(ends)
    at_end = shapely.dwithin(points, shapely.boundary(pieces), APART_M)
    within = shapely.dwithin(points, pieces, APART_M) & ~at_end
    return bool((within.sum(axis=1) + at_end.any(axis=1) == 1).all())


def scores(reference, predicted):
    (pair,) = run(reference, predicted, options=CompareOptions()).pairs
    apls = pair["apls"]
    return apls["length"]["score"], apls["time"]["score"], pair["topo"]["f1"]


def write(folder, graph, name="a", formats=FORMATS):
    write_graphs(folder, name, graph, formats=formats)
    return {suffix: folder / f"{name}.{suffix}" for suffix in formats}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs(), sides=st.sampled_from(list(itertools.permutations(EXACT, 2))))
def test_a_graph_is_the_same_in_every_format(tmp_path, graph, sides):
    files = write(tmp_path, graph)
    assert scores(*(files[side] for side in sides)) == pytest.approx((1, 1, 1), abs=1e-6)
    length, time, topo = scores(files[sides[0]], files["geojson"])
    assert (length, time) == pytest.approx((1, 1), abs=1e-3)
    assert topo == pytest.approx(1, abs=0.03)  # of few roads one point without a partner is 0.01


def save(path, tables, **options):
    """Write layers as another program does."""
    for number, (layer, table) in enumerate(tables.items()):
        pyogrio.write_dataframe(table, path, layer=layer, append=number > 0, **options)
    return path


def layers(path):
    return {layer: pyogrio.read_dataframe(path, layer=layer) for layer in ("nodes", "edges")}


def as_texts(table):
    names = [name for name in table.columns if name != "geometry"]
    return table.assign(**{name: table[name].astype(str) for name in names})


def as_floats(table):
    numbers = table.select_dtypes("number").columns
    return table.assign(**{name: table[name].astype(float) for name in numbers})


def with_fid(table):
    return table.assign(fid=np.arange(len(table)) + 7)[["fid", *table.columns]]


def backwards(table):
    return table[list(table.columns)[::-1]]


def shuffled(table):
    return table.sample(frac=1, random_state=1)


IN_CRSS = [methodcaller("to_crs", epsg) for epsg in (4326, 3857, 32611, 32612)]


@pytest.mark.parametrize("change", [as_texts, as_floats, with_fid, backwards, shuffled, *IN_CRSS])
def test_a_geopackage_that_was_saved_again_is_the_same_graph(tmp_path, change):
    ours = write(tmp_path, SQUARE)["gpkg"]
    again = {name: change(table) for name, table in layers(ours).items()}
    assert scores(ours, save(tmp_path / "again.gpkg", again)) == pytest.approx((1, 1, 1), abs=1e-6)


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "fgb", "shp"])
def test_edges_without_nodes_are_the_same_graph(tmp_path, suffix):
    ours = write(tmp_path, SQUARE)["gpkg"]
    edges = layers(ours)["edges"].to_crs(4326)
    path = tmp_path / f"edges.{suffix}"
    if suffix == "shp":
        edges = edges.rename(columns={"travel_time": "travel_tim"})  # as GDAL cuts it
    save(path, {"edges": edges}, **({"COORDINATE_PRECISION": 15} if suffix == "geojson" else {}))
    assert scores(ours, path) == pytest.approx((1, 1, 1), abs=1e-6)


@pytest.mark.parametrize("projected", [False, True])
def test_what_osmnx_saves_is_the_same_graph(tmp_path, projected):
    osmnx = pytest.importorskip("osmnx")
    ours = write(tmp_path, SQUARE)
    loaded = osmnx.load_graphml(ours["graphml"])
    loaded = osmnx.project_graph(loaded, to_crs=UTM) if projected else loaded
    osmnx.save_graph_geopackage(loaded, tmp_path / "osmnx.gpkg", directed=True)
    assert scores(ours["gpkg"], tmp_path / "osmnx.gpkg") == pytest.approx((1, 1, 1), abs=1e-6)


def test_times_count_before_speeds(tmp_path):
    jam = make_graph([(0, 1), (1, 4)], [(3, 1), (2, 5)], [50.0, 50.0], slow=2.0)
    free = make_graph([(0, 1), (1, 4)], [(3, 1), (2, 5)], [25.0, 25.0])
    paths = write(tmp_path, jam)["geojson"], write(tmp_path, free, name="b")["parquet"]
    assert scores(*paths)[1] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "value"), [("speed_kph", 40.2336), ("inferred_speed_mph", 25.0), ("speed_mph", "25")]
)
def test_stated_speeds_count_before_the_class_of_the_road(tmp_path, name, value):
    line = shapely.LineString(np.array([(0, 0), (300, 0)]) + ORIGIN)
    facts = {"highway": ["motorway"], name: [value]}
    table = gpd.GeoDataFrame(facts, geometry=[line], crs=UTM)
    slow = make_graph([(0, 6)], [(0, 0)], [40.2336])
    ours = write(tmp_path, slow)["gpkg"]
    path = save(tmp_path / "stated.gpkg", {"roads": table})
    assert scores(ours, path)[1] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("suffix", EXACT)
def test_edges_without_speed_get_the_usual_one_and_are_told(tmp_path, suffix):
    graph = make_graph([(0, 1), (1, 2)], [(3, 1), (2, 5)], [50.0, 40.2336])
    for name, values in graph.attributes.items():
        if name != "highway":
            values[1] = np.nan
    graph.attributes["highway"][1] = None
    found = run(*[write(tmp_path, graph)[suffix]] * 2, options=CompareOptions()).pooled
    assert found["predicted"]["assumed_speed_km"] == pytest.approx(0.15, abs=0.001)
    full = make_graph([(0, 1), (1, 2)], [(3, 1), (2, 5)], [50.0, 40.2336])
    other = write(tmp_path, full, name="b")["gpkg"]
    assert scores(tmp_path / f"a.{suffix}", other)[1] == pytest.approx(1, abs=1e-6)


def test_a_road_that_was_moved_by_hand_lies_where_it_was_moved(tmp_path):
    ours = write(tmp_path, SQUARE)["gpkg"]
    tables = layers(ours)
    lines = tables["edges"].geometry.to_numpy().copy()
    lines[0] = affinity.translate(lines[0], yoff=60)
    edges = tables["edges"].set_geometry(lines)
    moved = save(tmp_path / "moved.gpkg", {"nodes": tables["nodes"], "edges": edges})
    (pair,) = run(ours, moved, options=CompareOptions()).pairs
    assert pair["predicted"]["components"] == 2
