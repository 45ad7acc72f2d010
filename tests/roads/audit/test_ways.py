"""Ways of maps: which are roads for cars, with all attributes, from many formats."""

import json

import geopandas as gpd
import numpy as np
import pytest
import shapely

from roadseg.errors import DataError
from roadseg.roads.audit.ways import read_ways

LINES = [[(8.6, 49.4), (8.61, 49.4)], [(8.6, 49.41), (8.61, 49.41)], [(8.6, 49.42), (8.61, 49.42)]]


@pytest.fixture
def write(tmp_path):
    """Give a function that writes lines with attributes as GeoJSON, and returns the path."""

    def write_lines(*properties):
        features = [
            {
                "type": "Feature",
                "properties": own,
                "geometry": {"type": "LineString", "coordinates": line},
            }
            for own, line in zip(properties, LINES, strict=False)
        ]
        path = tmp_path / "map.geojson"
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        return path

    return write_lines


def test_all_attributes_are_kept(write):
    ways = read_ways(write({"osm_id": "7", "name": "A", "highway": "primary", "lanes": 2}))
    assert {key: column.tolist() for key, column in ways.columns.items()} == {
        "osm_id": ["7"],
        "name": ["A"],
        "highway": ["primary"],
        "lanes": [2],
    }


def test_ways_that_are_not_for_cars_and_tunnels_are_left_out_and_counted(write):
    ways = read_ways(
        write({"highway": "footway"}, {"highway": "residential", "tunnel": "yes"}, {"highway": "x"})
    )
    assert len(ways.lines) == 1
    assert dict(ways.left_out) == {"not for cars": 1, "tunnel": 1}


def test_a_map_of_footways_only_is_refused(write):
    with pytest.raises(
        DataError, match=r"none of its 1 features is a road for cars \(1 not for cars\)"
    ):
        read_ways(write({"highway": "footway"}))


def test_a_file_without_attributes_is_read(tmp_path):
    table = gpd.GeoDataFrame(geometry=[*map(shapely.LineString, LINES)], crs="EPSG:4326")
    table.to_file(tmp_path / "map.gpkg")
    assert len(read_ways(tmp_path / "map.gpkg").lines) == 3


def test_polygons_are_left_out(tmp_path):
    shapes = [shapely.LineString(LINES[0]), shapely.box(8.6, 49.4, 8.61, 49.41)]
    collection = {"id": [1, 2]}
    gpd.GeoDataFrame(collection, geometry=shapes, crs="EPSG:4326").to_file(
        tmp_path / "map.geojson", driver="GeoJSON"
    )
    ways = read_ways(tmp_path / "map.geojson")
    assert (len(ways.lines), dict(ways.left_out)) == (1, {"a polygon": 1})


def test_ways_can_be_chosen(write):
    ways = read_ways(write({"id": 1}, {"id": 2}, {"id": 3})).take(np.array([2, 0]))
    assert ways.columns["id"].tolist() == [3, 1]
