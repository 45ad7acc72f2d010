import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

from roadseg.commands.stages import road_networks
from roadseg.commands.stages.road_networks import trace_network
from roadseg.config import load_config
from roadseg.roads.graph.cleaning import part_lengths
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.mask_files import bins_tags
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.options import GraphOptions
from roadseg.roads.speeds import SpeedBins
from roadseg.roads.tracing import trace
from roadseg.roads.tracing.trace import find_graph

CORNER = Affine(0.5, 0, 660000, 0, -0.5, 4000000)


def drawn(size=600):
    """Return a mask: two roads 4 m wide from side to side, one from corner to corner."""
    band = np.zeros((size, size), dtype=np.uint8)
    band[196:204] = band[:, 396:404] = 1
    along = np.arange(size)
    for off in range(-5, 6):
        band[along, np.clip(along + off, 0, size - 1)] = 1
    return band


@pytest.fixture
def cut(tmp_path):
    """Give a function that writes windows of a mask as tiles and opens them."""

    def write(*windows, mask=None, off_px=0.0, tags=None, crs="EPSG:32611", **profile):
        mask = drawn() if mask is None else mask
        tiles = {}
        for row, col, height, width in windows:
            name = f"{row}_{col}_{height}_{off_px}"
            band = mask[row : row + height, col : col + width]
            place = CORNER @ Affine.translation(col + off_px, row + off_px)
            options = {"count": 1, "dtype": "uint8", "crs": crs, "transform": place} | profile
            path = tmp_path / f"{name}.tif"
            with rasterio.open(path, "w", "GTiff", width, height, **options) as file:
                file.write(band, 1)
                file.update_tags(**(tags or {}))
            tiles[name] = open_probability(path)
        return tiles

    return write


def quarters(size=600, at=(250, 310)):
    """Return the windows of four tiles of unequal sizes."""
    row, col = at
    rows, cols = [(0, row), (row, size - row)], [(0, col), (col, size - col)]
    return [(top, left, height, width) for top, height in rows for left, width in cols]


def network(tiles, *settings):
    joined = trace_network(tiles, alone(tiles), options=load_config(None, list(settings)).graph)
    return None if joined is None else joined.graph


def alone(tiles):
    return lambda name: find_graph(tiles[name], GraphOptions())


def lines(graph: RoadGraph):
    return set(shapely.normalize(graph.lines))


def whole(cut):
    return find_graph(cut((0, 0, 600, 600))["0_0_600_0.0"], GraphOptions())


@pytest.mark.parametrize(("zone", "is_told"), [(12, False), (31, True)])
def test_roads_far_from_the_zone_of_their_network_are_told(cut, caplog, zone, is_told):
    tiles = cut(*quarters()) | cut(*quarters(), off_px=0.25, crs=f"EPSG:{32600 + zone}")
    network(tiles)
    assert ("_0.25 are 38 % too long; the report and" in caplog.text) == is_told


def test_tiles_have_the_roads_of_their_whole(cut):
    assert lines(network(cut(*quarters()))) == lines(whole(cut))


def test_the_order_of_tiles_does_not_matter(cut):
    assert lines(network(cut(*quarters()[::-1]))) == lines(whole(cut))


def test_blocks_that_are_smaller_than_tiles_change_nothing(cut, monkeypatch):
    expected = whole(cut)
    monkeypatch.setattr(trace, "BLOCK_PX", 256)
    found = network(cut(*quarters()), "compute.workers=2")
    assert len(found.lines) == len(expected.lines)
    assert found.length_m.sum() == pytest.approx(expected.length_m.sum(), rel=1e-4)


def test_tiles_that_overlap_have_the_roads_of_their_whole(cut):
    tiles = cut((0, 0, 600, 330), (0, 290, 600, 310))
    assert lines(network(tiles)) == lines(whole(cut))


def test_a_tile_that_is_there_twice_counts_once(cut):
    left, right = (0, 0, 600, 300), (0, 300, 600, 300)
    twice = {f"again {name}": tile for name, tile in cut(left).items()}
    assert lines(network(cut(left, right) | twice)) == lines(whole(cut))


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (60, 2)])
def test_roads_go_on_across_a_gap_between_tiles_as_in_any_raster(cut, monkeypatch, rows, parts):
    monkeypatch.setattr(road_networks, "_JOIN_M", 40)
    road = np.zeros((600, 600), dtype=np.uint8)
    road[:, 296:304] = 1
    tiles = cut((0, 0, 300, 600), (300 + rows, 0, 300 - rows, 600), mask=road)
    assert len(part_lengths(network(tiles, "graph.max_gap_m=25"))) == parts


@pytest.mark.parametrize(("off_px", "warnings"), [(0.09, 0), (0.11, 1), (0.5, 1)])
def test_tiles_off_common_pixels_are_joined_at_the_ends_of_their_roads(
    cut, caplog, off_px, warnings
):
    tiles = cut((0, 0, 600, 300)) | cut((0, 300, 600, 300), off_px=off_px)
    found = network(tiles)
    assert len(part_lengths(found)) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings


def test_masks_of_other_speed_bins_are_not_one_raster(cut, caplog):
    of = [bins_tags(SpeedBins(edges, "mph")) for edges in ((20.0,), (30.0,))]
    tagged = [{**tags, "ROADSEG_CONTENT": "speed bins"} for tags in of]
    tiles = cut((0, 0, 600, 300), tags=tagged[0]) | cut((0, 300, 600, 300), tags=tagged[1])
    assert len(part_lengths(network(tiles))) == 1
    assert "touch or overlap but" in caplog.text
    assert "speed bins" in caplog.text
    assert "(1 border)" in caplog.text


def test_two_places_are_one_network_of_two_parts(cut):
    here = cut((0, 0, 600, 300), (0, 300, 600, 300))
    there = cut((0, 0, 600, 290), (0, 290, 600, 310), off_px=90_000.0)
    assert len(part_lengths(network(here | there))) == 2


def test_tiles_of_other_places_stay_out(cut):
    tiles = cut((0, 0, 600, 300), (0, 300, 600, 300)) | cut((0, 0, 600, 600), off_px=90_000.0)
    joined = trace_network(tiles, alone(tiles), options=GraphOptions())
    assert joined.scenes == ["0_0_600_0.0", "0_300_600_0.0"]


def test_tiles_apart_are_no_network(cut):
    assert network(cut((0, 0, 600, 280), (0, 320, 600, 280))) is None


def test_an_edge_is_of_the_scene_in_which_its_middle_lies(cut):
    found = network(cut((0, 0, 600, 280), (0, 280, 600, 320)))
    middles = shapely.line_interpolate_point(found.lines, 0.5, normalized=True)
    is_left = shapely.get_x(middles) < 660000 + 140
    assert np.array_equal(found.attributes["source"] == "0_0_600_0.0", is_left)
    assert 0 < is_left.sum() < len(is_left)


def test_tiles_of_probabilities_and_masks_are_one_raster(cut):
    left = cut((0, 0, 600, 300), mask=drawn() * np.uint8(200))
    assert lines(network(left | cut((0, 300, 600, 300)))) == lines(whole(cut))
