"""Valhalla takes the PBF files of graphs, and drives them as fast as `roadseg route` says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.commands.roads.route import find_route
from roadseg.raster.grid import DEGREES, transformer
from roadseg.roads.formats.pbf import write_pbf
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.options import RouteOptions

UTM = CRS.from_epsg(32631)
ORIGIN = np.array([430_000.0, 4_580_000.0])
PAIRS = [((0, 0), (9, 9)), ((0, 9), (9, 0)), ((0, 4), (9, 5)), ((3, 0), (3, 9)), ((1, 7), (8, 7))]
# Drive a way, and print the seconds of the edges without turns, all seconds, and the metres.
PROGRAM = """
import json, sys, valhalla
actor = valhalla.Actor(sys.argv[1])
for ends in json.loads(sys.argv[2]):
    places = [{"lon": lon, "lat": lat} for lon, lat in ends]
    trip = actor.route({"locations": places, "costing": "auto"})["trip"]
    wanted = {"action": "include", "attributes": ["edge.length", "edge.speed"]}
    traced = actor.trace_attributes({
        "encoded_polyline": trip["legs"][0]["shape"], "costing": "auto",
        "shape_match": "edge_walk", "filters": wanted,
    })
    seconds = sum(edge["length"] / edge["speed"] * 3600 for edge in traced["edges"])
    print(json.dumps([seconds, trip["summary"]["time"], trip["summary"]["length"] * 1000]))
"""
CONFIG = """
import json, sys, valhalla
config = valhalla.get_config(tile_extract="", tile_dir=sys.argv[1])
for key in ("admin", "timezone", "tile_extract"):
    config["mjolnir"].pop(key, None)
config["mjolnir"]["concurrency"] = 1
print(json.dumps(config))
"""


@pytest.fixture(scope="module")
def python():
    """Return a Python with pyvalhalla, and the program of its that builds tiles."""
    python = os.environ.get("ROADSEG_VALHALLA", sys.executable)
    place = "import valhalla, pathlib; print(pathlib.Path(valhalla.__file__).parent / 'bin')"
    found = subprocess.run([python, "-c", place], check=False, capture_output=True, text=True)
    builder = Path(found.stdout.strip() or "none") / "valhalla_build_tiles"
    if not builder.exists():
        pytest.skip("needs pyvalhalla 3.9 or later (Python 3.12); ROADSEG_VALHALLA names a Python")
    return python, builder


@pytest.fixture(scope="module")
def graph():
    """Give a grid of 10 by 10 streets of several speeds, 200 m apart."""
    streets = []
    for along in range(10):
        stops = np.arange(10) * 200.0
        streets += [np.column_stack([stops, np.full(10, along * 200.0)])]
        streets += [np.column_stack([np.full(10, along * 200.0), stops])]
    lines = np.array([shapely.LineString(xy + ORIGIN) for xy in streets])
    kph = np.tile([30.0, 40.2336, 50.0, 64.37376], 5)
    roads = graph_from_lines(lines, UTM, {"speed_kph": kph})
    return add_travel(roads, roads.attributes["speed_kph"])


@pytest.fixture(scope="module")
def driven(python, graph, tmp_path_factory):
    """Build Valhalla's tiles of the graph; return what it says of each pair of places."""
    pytest.importorskip("osmium")
    folder = tmp_path_factory.mktemp("valhalla")
    write_pbf(folder / "a.pbf", graph)
    (folder / "tiles").mkdir()

    def call(*words):
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    interpreter, builder = python
    config = folder / "a.json"
    config.write_text(call(interpreter, "-c", CONFIG, folder / "tiles"))
    call(builder, "-c", config, folder / "a.pbf")
    said = call(interpreter, "-c", PROGRAM, config, json.dumps(places()))
    return [json.loads(line) for line in said.splitlines()]


def places():
    """Return both ends of each pair in degrees."""
    xy = np.array(PAIRS, dtype=float).reshape(-1, 2) * 200 + ORIGIN
    lon, lat = transformer(UTM, DEGREES).transform(*xy.T)
    return np.column_stack([lon, lat]).reshape(-1, 2, 2).tolist()


def test_valhalla_drives_as_fast_as_route_says(graph, driven):
    ours = [find_route(graph, *ends, RouteOptions(), name="grid")[1] for ends in places()]
    seconds = np.array([way.seconds for way in ours])
    assert np.array([said[0] for said in driven]) == pytest.approx(seconds, rel=0.05)
    # Turns and crossings take it some more time.
    assert np.all(np.array([said[1] for said in driven]) >= seconds * 0.98)


def test_valhalla_finds_ways_as_long(graph, driven):
    ours = [find_route(graph, *ends, RouteOptions(), name="grid")[1] for ends in places()]
    metres = [way.length_m for way in ours]
    assert [said[2] for said in driven] == pytest.approx(metres, rel=0.02)
