"""Roads added to a map from Python."""

import numpy as np
import pytest
import shapely

import roadseg
from roadseg.errors import DataError

STREET, SIDE = [(8.68, 49.4), (8.69, 49.4)], [(8.685, 49.4), (8.685, 49.401)]


@pytest.fixture
def read(tmp_path):
    """Give a function that writes a road, and reads it as a graph."""

    def read_road(name, road):
        (tmp_path / name).write_text(shapely.to_geojson(shapely.LineString(road)))
        return roadseg.read_graph(tmp_path / name)

    return read_road


def test_a_graph_is_added_to_a_map(read, tmp_path):
    read("map.geojson", STREET)
    side = read("side.geojson", SIDE)
    summary = roadseg.conflate(side, tmp_path / "map.geojson", tmp_path / "out")
    assert summary.added_km == pytest.approx(side.length_km, abs=1e-4)
    merged = roadseg.read_graph(tmp_path / "out" / "merged.gpkg")
    assert merged.roads.degree.tolist().count(3) == 1


def test_a_graph_without_georeference_cannot_be_added(read, tmp_path):
    read("map.geojson", STREET)
    mask = np.zeros((64, 64), dtype=bool)
    mask[30:34] = True
    local = roadseg.trace(mask, gsd_m=1)
    with pytest.raises(DataError, match="no georeference"):
        roadseg.conflate(local, tmp_path / "map.geojson", tmp_path / "out")
