"""Every format of graphs gives back the roads that were written to it."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import ConfigError, DataError
from roadseg.roads.formats.any_roads import common_crs, find_placement, place_roads, read_drawn
from roadseg.roads.formats.by_suffix import FORMATS, check_formats, write_graphs
from roadseg.roads.formats.pairing import find_sources

PLACED = ["osm", "pbf"]
KEEP_ALL = ["gpkg", "geojson", "graphml", "parquet", "pbf", "fgb", "shp"]
PACKAGES = {"parquet": "pyarrow", "pbf": "osmium"}


@pytest.fixture
def graph(graph):
    """The drawn roads with names, classes, directions and whole speeds."""
    kph = np.array([30.0, 50.0, 40.2336, 80.0, 20.0, 50.0])
    return replace(
        graph,
        attributes={
            "speed_kph": kph,
            "travel_time_s": graph.length_m * 3.6 / kph,
            "highway": np.array(["residential", "motorway", "tertiary"] * 2, dtype=object),
            "name": np.array(["Größe & <1>", "b", "c", None, "e", "f"], dtype=object),
            "oneway": np.array([0, 0, 1, -1, 0, 0]),
            "width_m": np.array([7.25, np.nan, 1, 2, 3, 4]),
            "confidence": np.array([0.5, np.nan, 0.25, 1, 1, 0]),
            "inferred": np.array([0, 1, 0, 0, 0, 1], dtype=np.uint8),
        },
    )


@pytest.fixture
def back(tmp_path):
    """Give a function that writes a graph in a format and reads it, as `convert` does."""

    def read(graph, name, crs=None):
        if package := PACKAGES.get(name):
            pytest.importorskip(package)
        write_graphs(tmp_path, "a", graph, formats=[name])
        (source,) = find_sources(tmp_path / f"a.{name}").values()
        drawn = read_drawn(source, find_placement(None, None), every_column=True)
        return place_roads(drawn, crs or graph.crs).graph, common_crs(drawn, None)

    return read


def by_place(graph, column):
    """Return the values of edges in the order of the points half way along them."""
    x, y = shapely.get_coordinates(
        shapely.line_interpolate_point(graph.lines, 0.5, normalized=True)
    ).T
    return [column[row] for row in np.lexsort([y.round(), x.round()])]


@pytest.mark.parametrize("name", FORMATS)
def test_lines_and_junctions_come_back(back, graph, name):
    found, crs = back(graph, name)
    assert crs == CRS.from_epsg(32631)
    assert len(found.nodes) == len(graph.nodes)
    np.testing.assert_allclose(
        by_place(found, found.length_m), by_place(graph, graph.length_m), atol=0.02
    )
    assert sorted(found.degree) == sorted(graph.degree)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "osm"])
def test_travel_times_come_back(back, graph, name):
    found, _ = back(graph, name)
    seconds = [by_place(side, side.attributes["travel_time_s"]) for side in (found, graph)]
    np.testing.assert_allclose(*seconds, rtol=1e-3)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "osm"])
def test_names_classes_and_directions_come_back(back, graph, name):
    found, _ = back(graph, name)
    for key in ("name", "highway"):
        sides = [by_place(side, side.attributes[key]) for side in (found, graph)]
        assert sides[0] == sides[1]
    ways = [by_place(side, driven(side)) for side in (found, graph)]
    np.testing.assert_allclose(*ways, atol=0.02)


def driven(graph):
    """Return where travel on one-way edges begins, 0 for others, relative to a corner."""
    ends = shapely.get_coordinates(shapely.get_point(graph.lines[:, np.newaxis], [0, -1]))
    ends = ends.reshape(-1, 2, 2) - [430_000, 4_580_000]
    one_way = graph.attributes["oneway"]
    start = np.where((one_way < 0)[:, np.newaxis], ends[:, 1], ends[:, 0])
    return np.where((one_way != 0)[:, np.newaxis], start, 0)


@pytest.mark.parametrize("key", ["width_m", "confidence"])
@pytest.mark.parametrize("name", KEEP_ALL)
def test_other_attributes_come_back(back, graph, name, key):
    found, _ = back(graph, name)
    values = [
        by_place(side, np.asarray(side.attributes[key], dtype=float)) for side in (found, graph)
    ]
    np.testing.assert_allclose(*values)


@pytest.mark.parametrize("name", PLACED)
def test_formats_in_degrees_refuse_a_graph_without_georeference(tmp_path, local, name):
    with pytest.raises(
        DataError,
        match=rf"a\.{name}: .* no georeference, .* format {name} needs.*georeference the image",
    ):
        write_graphs(tmp_path, "a", local, formats=[name])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["parquet", "pbf"])
def test_a_format_without_its_package_is_refused_in_one_line(monkeypatch, name):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(
        ConfigError, match=rf"format {name} needs {PACKAGES[name]}, .* another format"
    ):
        check_formats(["gpkg", name])
