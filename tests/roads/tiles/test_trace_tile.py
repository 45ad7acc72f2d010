import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.roads.graph.cleaning import simplify_lines
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import GraphOptions
from roadseg.roads.tiles.borders import border_ids, cut_graph, join_tiles
from roadseg.roads.tiles.crossings import settle_crossings
from roadseg.roads.tiles.tiling import parse_tile, tiles_on
from roadseg.roads.tiles.trace_tile import touches, trace_tile
from roadseg.roads.tracing.trace import find_lines

UTM, SIDE_PX, MARGIN_M = CRS.from_epsg(32632), 1200, 200
CORNER = (474_000 - MARGIN_M, 5_472_000 + MARGIN_M)  # of four tiles of 1 km
OPTIONS = GraphOptions()


def raster(road, *, gsd_m=2.0, corner=CORNER, crs=UTM):
    grid = Grid(crs, Affine(gsd_m, 0, corner[0], 0, -gsd_m, corner[1]), *road.shape)
    return Probability(grid, road, threshold=0.4)


def whole_tiles(pixels):
    """The tiles of a network that was traced as a whole, by the same rule at borders."""
    lines = find_lines(pixels, OPTIONS.model_copy(update={"simplify_m": 0.0}))
    level = OPTIONS.level_for(pixels.threshold)
    cut = cut_graph(lines, km=1)
    settled = {t: settle_crossings(graph, t, [(pixels, level)]) for t, graph in cut.items()}
    return {t: simplify_lines(graph, tolerance_m=0.5) for t, graph in settled.items()}


def ids(graph):
    return set(border_ids(graph.nodes, graph.crs, km=1)) - {""}


def apart_m(lines, others):
    """How far the furthest place of either lies from the other."""
    return shapely.hausdorff_distance(*map(shapely.union_all, (lines, others)), densify=0.2)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tile_that_is_traced_alone_is_that_of_the_whole(drawn, seed):
    pixels = raster(drawn(SIDE_PX, seed=seed))
    whole = whole_tiles(pixels)
    for name in ("32UMV7470", "32UMV7570", "32UMV7471", "32UMV7571"):
        tile = parse_tile(name)
        of_whole = whole[tile]
        alone, _ = trace_tile(tile, [pixels], OPTIONS)
        assert ids(alone) == ids(of_whole)
        assert len(ids(alone)) > 5
        assert apart_m(alone.lines, of_whole.lines) < 2.0  # lines are simplified to 0.5 m


def test_tiles_that_are_traced_alone_join_at_the_nodes_that_they_share(drawn):
    pixels = raster(drawn(SIDE_PX, seed=2))
    tiles = [parse_tile(f"32UMV{place}") for place in ("7470", "7570", "7471", "7571")]
    joined = join_tiles(
        {t: trace_tile(t, [pixels], OPTIONS)[0] for t in tiles}, crs=UTM, within_m=0
    )
    inner = shapely.box(474_000, 5_470_000, 476_000, 5_472_000).exterior
    ends = shapely.points(joined.graph.nodes[joined.graph.degree == 1])
    assert joined.shared > 10
    assert joined.loose == (shapely.distance(ends, inner) < 0.01).sum()


def test_tiles_of_two_zones_share_their_nodes(drawn):
    at = reproject(np.array([shapely.Point(12.0, 48.1)]), DEGREES, UTM)[0]
    pixels = raster(drawn(800, seed=3), corner=(at.x - 800, at.y + 800))
    outline = reproject(np.array([pixels.grid.footprint]), UTM, DEGREES)[0]
    tiles = tiles_on(outline, km=1)
    assert {tile.zone for tile in tiles} == {32, 33}
    graphs = {tile: trace_tile(tile, [pixels], OPTIONS)[0] for tile in tiles}
    west, east = (
        {name for t, g in graphs.items() if t.zone == zone for name in ids(g) if name[0] == "+"}
        for zone in (32, 33)
    )
    assert west == east
    assert len(west) > 3


def test_the_roads_of_two_rasters_beside_each_other_are_joined(drawn):
    road = drawn(SIDE_PX, seed=4)
    tile = parse_tile("32UMV7470")
    left = raster(road[:, :500])
    right = raster(road[:, 500:], corner=(CORNER[0] + 1000, CORNER[1]))
    graph, _ = trace_tile(tile, [left, right], OPTIONS)
    whole, _ = trace_tile(tile, [raster(road)], OPTIONS)
    assert graph.length_m.sum() == pytest.approx(whole.length_m.sum(), rel=0.05)


def test_a_tile_without_roads_and_one_without_pixels_are_empty():
    pixels = raster(np.zeros((600, 600), dtype=np.uint8))
    here, far = parse_tile("32UMV7471"), parse_tile("32UMV8080")
    assert len(trace_tile(here, [pixels], OPTIONS)[0].lines) == 0
    graph, read_px = trace_tile(far, [pixels], OPTIONS)
    assert (len(graph.lines), read_px) == (0, 0)
    assert touches(here, pixels)
    assert not touches(far, pixels)


def test_only_the_tile_and_its_halo_are_read():
    pixels = raster(np.zeros((SIDE_PX, SIDE_PX), dtype=np.uint8))
    _, read_px = trace_tile(parse_tile("32UMV7471"), [pixels], OPTIONS)
    assert 728**2 <= read_px <= 730**2  # 1,456 m of 2 m, and rounding


def cross(row_m, half=4):
    """A road from west to east, that many metres below the upper side of a raster of 600 m."""
    road = np.zeros((600, 600), dtype=np.uint8)
    road[row_m - half : row_m + half] = 255
    return raster(road, gsd_m=1.0, corner=(474_700, 5_471_600))


@pytest.mark.parametrize(("row_m", "north"), [(300, "5471300.000"), (301, "5471299.000")])
def test_a_road_crosses_a_border_in_the_middle_of_its_pixels(row_m, north):
    for name in ("32UMV7471", "32UMV7571"):
        graph, _ = trace_tile(parse_tile(name), [cross(row_m)], OPTIONS)
        (node,) = ids(graph)
        assert node.startswith("32N 475000.000 ")
        assert float(node.split()[2]) == pytest.approx(float(north), abs=0.25)


def test_a_road_along_a_border_is_in_one_of_the_tiles():
    road = np.zeros((600, 600), dtype=np.uint8)
    road[:, 296:306] = 255  # the border is at column 300
    pixels = raster(road, gsd_m=1.0, corner=(474_700, 5_471_600))
    graphs = [trace_tile(parse_tile(f"32UMV{p}"), [pixels], OPTIONS)[0] for p in ("7471", "7571")]
    assert sum(graph.length_m.sum() for graph in graphs) == pytest.approx(600, abs=20)
