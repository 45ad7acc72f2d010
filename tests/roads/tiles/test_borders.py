import numpy as np
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.road_graph import graph_from_lines, take_edges
from roadseg.roads.metrics.canonical import canonical_graph
from roadseg.roads.tiles.borders import border_ids, cut_graph, join_tiles, move_ends
from roadseg.roads.tiles.tiling import parse_tile

UTM = CRS.from_epsg(32632)
CORNER = np.array([475_000.0, 5_470_000.0])  # of four tiles of 1 km, and of two of 10 km
ON_MERIDIAN, ON_EQUATOR = (12.0, 48.1), (9.3, 0.0)
DATE_LINE = (180.0, -17.004)


def graph_of(*lines, crs=UTM, at=CORNER, **attributes):
    """A graph of lines given as lists of (x, y) in metres from a place."""
    drawn = np.array([shapely.LineString(np.add(line, at)) for line in lines], dtype=object)
    return graph_from_lines(drawn, crs, attributes)


def place(lon, lat, epsg):
    point = np.array([shapely.Point(lon, lat)], dtype=object)
    return shapely.get_coordinates(reproject(point, DEGREES, CRS.from_epsg(epsg)))[0].round()


def rejoined(graph, km=1):
    return join_tiles(cut_graph(graph, km=km), crs=graph.crs, within_m=0.0)


def ids_of(tiles, km=1):
    """The ids of the nodes of each tile that lie on borders."""
    graphs = tiles.values()
    return [set(border_ids(g.nodes, g.crs, km=km).tolist()) - {""} for g in graphs]


def test_an_edge_is_cut_where_it_crosses_and_both_tiles_have_the_node():
    tiles = cut_graph(graph_of([(-100, 10), (100, 30)]), km=1)
    assert [tile.id for tile in tiles] == ["32UMV7470", "32UMV7570"]
    assert ids_of(tiles) == [{"32N 475000.000 5470020.000"}] * 2
    assert [graph.length_m.sum() for graph in tiles.values()] == pytest.approx(
        [100.499] * 2, abs=1e-3
    )


def test_an_edge_that_crosses_several_tiles_is_in_each_of_them():
    tiles = cut_graph(graph_of([(-100, 500), (2100, 500)]), km=1)
    assert [round(g.length_m.sum()) for g in tiles.values()] == [100, 1000, 1000, 100]
    assert len(cut_graph(graph_of([(-100, 500), (2100, 500)]), km=10)) == 1


def test_an_edge_along_a_border_is_in_one_tile():
    tiles = cut_graph(graph_of([(0, 100), (0, 400)]), km=1)
    assert [tile.id for tile in tiles] == ["32UMV7570"]


def test_an_edge_that_touches_a_border_stays_in_its_tile():
    tiles = cut_graph(graph_of([(50, 50), (0, 100), (50, 150)]), km=1)
    assert [(tile.id, len(graph.lines)) for tile, graph in tiles.items()] == [("32UMV7570", 2)]
    assert len(rejoined(graph_of([(50, 50), (0, 100), (50, 150)])).graph.lines) == 1


def test_pieces_share_the_travel_time_and_keep_all_else():
    graph = graph_of([(-30, 5), (10, 5)], travel_time_s=np.array([4.0]), lanes=np.array([2]))
    parts = [part.attributes for part in cut_graph(graph, km=1).values()]
    assert [part["travel_time_s"].tolist() for part in parts] == [[3.0], [1.0]]
    assert [part["lanes"].tolist() for part in parts] == [[2], [2]]


@pytest.mark.parametrize(
    ("at", "epsg", "ids"),
    [
        (ON_MERIDIAN, 32632, ["32UQU2332", "33UTP7632"]),
        (ON_MERIDIAN, 32633, ["32UQU2332", "33UTP7632"]),
        (ON_EQUATOR, 32632, ["32MNE3399", "32NNF3300"]),
        (ON_EQUATOR, 32732, ["32MNE3399", "32NNF3300"]),
        (DATE_LINE, 32701, ["01KAB8018", "60KZG1918"]),
        (DATE_LINE, 32760, ["01KAB8018", "60KZG1918"]),
    ],
)
def test_an_edge_is_cut_between_zones_and_both_have_the_node(at, epsg, ids):
    origin = place(*at, epsg)
    line = [(-60, -55), (3, 4), (60, 52)]
    tiles = cut_graph(graph_of(line, crs=CRS.from_epsg(epsg), at=origin), km=1)
    assert {tile.square_id for tile in tiles} == {name[:5] for name in ids}
    left, right = ids_of(tiles)
    assert left == right != set()
    degrees = [shapely.get_coordinates(reproject(g.lines, g.crs, DEGREES)) for g in tiles.values()]
    apart = (degrees[0][:, None] - degrees[1][None] + 180) % 360 - 180
    assert np.abs(apart).max(axis=2).min() < 1e-11  # degrees; the same place, from either zone


def test_the_same_line_gives_the_same_node_whichever_way_and_in_whichever_zone_it_is_drawn():
    origin = place(*ON_MERIDIAN, 32632)
    there = graph_of([(-61, -55), (63, 52)], crs=UTM, at=origin)
    back = graph_of([(63, 52), (-61, -55)], crs=UTM, at=origin)
    assert ids_of(cut_graph(there, km=1)) == ids_of(cut_graph(back, km=1))


def test_roads_beyond_the_latitudes_of_utm_are_refused():
    polar = CRS.from_epsg(32661)
    with pytest.raises(DataError, match="expected -80 to 84, which tiles cover"):
        cut_graph(graph_of([(0, 0), (10, 10)], crs=polar, at=(2_000_000, 2_000_000)), km=1)


def test_ends_that_lie_near_each_other_are_joined_up_to_a_limit():
    left, right = graph_of([(-50, 5), (0, 5)]), graph_of([(0, 8), (50, 8)])
    tiles = {parse_tile("32UMV7470"): left, parse_tile("32UMV7570"): right}
    joined = join_tiles(tiles, crs=UTM, within_m=3.1)
    assert (joined.shared, joined.near, joined.loose, len(joined.graph.lines)) == (0, 1, 0, 1)
    apart = join_tiles(tiles, crs=UTM, within_m=2.9)
    assert (apart.near, apart.loose, len(apart.graph.lines)) == (0, 2, 2)


def test_nothing_is_cut_and_joined_to_nothing():
    assert cut_graph(graph_of(), km=1) == {}
    assert len(join_tiles({}, crs=UTM, within_m=1).graph.lines) == 0


def test_nodes_that_move_to_one_place_become_one():
    graph = graph_of([(1, 0), (10, 0)], [(1, 1), (10, 9)])
    places = np.where(graph.nodes[:, :1] == CORNER[0] + 1, CORNER, graph.nodes)
    moved = move_ends(graph, places)
    assert len(moved.nodes) == 3
    assert [line.coords[0] for line in moved.lines] == [tuple(CORNER)] * 2


steps = st.tuples(st.floats(-700, 700), st.floats(-700, 700))
walks = st.lists(st.lists(steps, min_size=2, max_size=6), min_size=1, max_size=5)


def same(graph, other):
    """Say whether two graphs have the same canonical form to 5 mm."""
    graph, other = canonical_graph(graph), canonical_graph(other)
    if len(graph.lines) != len(other.lines):
        return False
    near = shapely.STRtree(other.lines).query(graph.lines, predicate="dwithin", distance=0.005)
    fit = {
        (a, b)
        for a, b in near.T.tolist()
        if shapely.hausdorff_distance(graph.lines[a], other.lines[b], densify=0.1) < 0.005
    }
    return {a for a, _ in fit} == set(range(len(graph.lines))) == {b for _, b in fit}


def network(lines, crs, origin):
    """A network whose lines begin where the ones before them ended, or not.

    No two lie on each other, or cross a border at one place: there they would be joined.
    """
    jitter = iter(np.random.default_rng(1).uniform(-9, 9, (99, 2)))
    lines = [[np.add(step, next(jitter)) for step in line] for line in lines]
    drawn = [[*(lines[row - 1][-1:] if row % 2 else []), *line] for row, line in enumerate(lines)]
    return graph_of(*drawn, crs=crs, at=origin)


@settings(deadline=None, max_examples=60)
@given(walks, st.sampled_from([1, 10, 100]))
def test_a_graph_that_is_cut_and_joined_is_what_it_was(lines, km):
    graph = network(lines, UTM, CORNER)
    joined = rejoined(graph, km)
    assert joined.near == 0
    assert same(joined.graph, graph)
    assert joined.graph.length_m.sum() == pytest.approx(graph.length_m.sum(), abs=0.05)


@example([[(0, 0), (0, 0), (0, 0), (0, 512), (-661, -696)]], (DATE_LINE, 32701))
@settings(deadline=None, max_examples=40)
@given(walks, st.sampled_from([(ON_MERIDIAN, 32632), (ON_EQUATOR, 32732), (DATE_LINE, 32701)]))
def test_a_graph_across_zones_that_is_cut_and_joined_is_what_it_was(lines, where):
    (lon, lat), epsg = where
    graph = network(lines, CRS.from_epsg(epsg), place(lon, lat, epsg))
    joined = rejoined(graph)
    assert joined.near == 0
    assert same(joined.graph, graph)


@settings(deadline=None, max_examples=40)
@given(walks, st.integers(0, 4))
def test_a_part_of_a_network_is_cut_as_the_whole_is(lines, chosen):
    """A tile alone, with only the edges that touch it, is the same tile of the whole."""
    graph = merge_chains(network(lines, UTM, CORNER))
    tiles = cut_graph(graph, km=1)
    if not tiles:
        return
    tile = list(tiles)[chosen % len(tiles)]
    touches = shapely.intersects(graph.lines, tile.square)
    part = take_edges(graph, touches)
    alone = cut_graph(part, km=1)[tile]
    assert np.array_equal(
        np.sort(shapely.to_wkb(alone.lines)), np.sort(shapely.to_wkb(tiles[tile].lines))
    )
