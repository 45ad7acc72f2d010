"""Tiles from Python: the commands of `roadseg tiles`."""

import pytest
import shapely

import roadseg
from roadseg.errors import ConfigError

BOX = [8.64, 49.395, 8.644, 49.398]


@pytest.fixture
def roads(write_roads_of_place, tmp_path):
    return write_roads_of_place(tmp_path / "roads.geojson")


@pytest.fixture
def write_roads_of_place():
    """Give a function that writes two crossing roads near the border of two tiles of 1 km."""

    def write(path):
        lines = [[(8.63, 49.396), (8.66, 49.397)], [(8.641, 49.39), (8.642, 49.40)]]
        path.write_text(shapely.to_geojson(shapely.MultiLineString(lines)))
        return path

    return write


def test_a_network_is_cut_listed_and_joined(roads, tmp_path):
    cut = roadseg.cut_tiles(roads, tmp_path / "tiles", km=1)
    listed = roadseg.list_tiles(BOX, km=1, folder=tmp_path / "tiles")
    assert set(listed.done) <= set(cut.made)
    joined = roadseg.join_tiles(tmp_path / "tiles", tmp_path / "all.gpkg")
    whole = roadseg.read_graph(roads)
    assert joined.road_km == pytest.approx(whole.length_km, rel=1e-3)
    assert len(roadseg.read_graph(tmp_path / "all.gpkg").edges) == len(whole.edges)


def test_a_mask_is_traced_tile_by_tile(write_raster, tmp_path):
    mask = write_raster(bands=1, shape=(60, 60))
    traced = roadseg.trace_tiles(
        mask, tmp_path / "tiles", km=1, overrides={"graph.formats": ["gpkg"]}
    )
    assert traced.made
    again = roadseg.trace_tiles(
        [mask], tmp_path / "tiles", km=1, overrides={"graph.formats": ["gpkg"]}
    )
    assert (again.made, again.kept) == ([], len(traced.made))


def test_a_side_that_is_none_is_refused(roads, tmp_path):
    with pytest.raises(ConfigError, match="km: expected 1, 10 or 100, got 7"):
        roadseg.cut_tiles(roads, tmp_path / "tiles", km=7)
