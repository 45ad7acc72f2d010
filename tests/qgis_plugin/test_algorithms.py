"""The algorithms in QGIS itself: a profile with the plugin, and roadseg in its own Python."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from pyproj import CRS
from rasterio.features import rasterize
from starter_places import write_places

from roadseg.commands.tools import qgis
from roadseg.raster.images import read_grid
from roadseg.review.edits import Edit, EditFile
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from tests.drawing import drawn

ROOT = Path(__file__).parents[2]
# Debian's script of the first name passes options that only the window knows.
PROGRAM = shutil.which("qgis_process.bin") or shutil.which("qgis_process")
UTM, X, Y, SIDE_M = CRS.from_epsg(32632), 477_000.0, 5_473_000.0, 300
ROADS = {"1": [(20, 150), (280, 150)], "2": [(150, 20), (150, 280)]}
MAP = {"1": [(20, 150), (280, 150)]}  # It lacks the second road.

# In QGIS's own Python: load the plugin, trace a mask into the project, then cancel a map.
PYTHON_PROGRAM = """
import json, os, sys
sys.path[:0] = sys.argv[1:3]
from qgis.core import QgsApplication, QgsProcessingContext, QgsProcessingFeedback
from qgis.core import QgsProcessingException, QgsProject, QgsRasterLayer
application = QgsApplication([], True)
application.initQgis()
import processing
from processing.core.Processing import Processing
Processing.initialize()
import roadseg_qgis
plugin = roadseg_qgis.classFactory(None)
plugin.initProcessing()
mask, image = sys.argv[3:]

class Impatient(QgsProcessingFeedback):
    def pushInfo(self, text):
        if text.startswith("init"):
            self.cancel()

processing.runAndLoadResults("roadseg:tracemask", {"INPUT": mask, "OUTPUT": "TEMPORARY_OUTPUT"})
layers = [[l.name(), l.renderer().type()] for l in QgsProject.instance().mapLayers().values()]
service = QgsRasterLayer("type=xyz&url=http://127.0.0.1:1/{z}/{x}/{y}.png", "Service", "wms")
QgsProject.instance().addMapLayer(service)
try:
    processing.run("roadseg:tracemask", {"INPUT": service, "OUTPUT": "TEMPORARY_OUTPUT"})
except QgsProcessingException as error:
    refused = str(error)
context = QgsProcessingContext()
map_roads = {"INPUT": image, "OUTPUT": "map"}
told = processing.run("roadseg:maproads", map_roads, feedback=Impatient(), context=context)
try:
    os.waitpid(-1, os.WNOHANG)
    children = True
except ChildProcessError:
    children = False
print(json.dumps([layers, refused, told, children]), flush=True)
os._exit(0)  # QGIS 3.22 does not always end in order
"""

# What stands for a browser: it accepts a road on the page that it opens, and ends the review.
BROWSER = f"""#!{sys.executable}
import json, sys
from urllib.request import Request, urlopen
address = sys.argv[1]
for path, body in (("edit", {{"kind": "accept", "sheet": 0, "id": 0}}), ("finish", {{}})):
    headers = {{"Content-Type": "application/json", "Origin": "/".join(address.split("/")[:3])}}
    urlopen(Request(address + path, json.dumps(body).encode(), headers)).read()
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs qgis_process in PATH"),
]


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """Install the plugin into a new profile; return the environment of a QGIS that has it."""
    folder = tmp_path_factory.mktemp("qgis")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QGIS_CUSTOM_CONFIG_PATH", str(folder))
        (plugin,) = qgis.run(None).folders
    # The tests are of the package here, wherever it is installed.
    command = folder / "roadseg"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m roadseg "$@"\n')
    command.chmod(0o755)
    (Path(plugin) / "command.json").write_text(json.dumps([str(command)]))
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "QGIS_CUSTOM_CONFIG_PATH": str(folder),
        "QT_QPA_PLATFORM": "offscreen",
        "BROWSER": str(folder / "browser"),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    enable = [PROGRAM, "plugins", "enable", qgis.PLUGIN]
    subprocess.run(enable, env=environment, capture_output=True, check=True)
    return environment


@pytest.fixture
def process(profile, tmp_path):
    """Give a function that runs an algorithm, and returns its results and its messages."""

    def run(algorithm, **parameters):
        words = [f"{name}={value}" for name, value in parameters.items()]
        done = subprocess.run(
            [PROGRAM, "--json", "run", f"roadseg:{algorithm}", "--", *words],
            env=profile,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(done.stdout[done.stdout.index("{") :]) if "{" in done.stdout else {}
        return found.get("results"), done.stdout + done.stderr

    return run


def lines(roads, path, **facts):
    shapes = [shapely.LineString(np.add(road, (X, Y))) for road in roads.values()]
    table = gpd.GeoDataFrame({"osm_id": [*roads], **facts}, geometry=shapes, crs=UTM)
    table.to_crs(4326).to_file(path)
    return path


@pytest.fixture
def mask(tmp_path):
    """Write a mask of the roads in metres, 8 m wide; return its path."""
    transform = Affine(0.5, 0, X, 0, -0.5, Y + SIDE_M)
    shapes = [shapely.LineString(np.add(road, (X, Y))).buffer(4) for road in ROADS.values()]
    pixels = rasterize(shapes, (600, 600), transform=transform, dtype="uint8")
    facts = {"driver": "GTiff", "width": 600, "height": 600, "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "mask.tif", "w", crs=UTM, transform=transform, **facts) as file:
        file.write(pixels, 1)
    return tmp_path / "mask.tif"


def test_qgis_lists_the_algorithms(profile):
    listed = subprocess.run([PROGRAM, "list"], env=profile, capture_output=True, check=True)
    names = {line.split()[0] for line in listed.stdout.decode().splitlines() if "roadseg:" in line}
    names = {name.removeprefix("roadseg:") for name in names}
    assert names == {
        *("maproads", "reviewmap", "improvemap", "tracemask"),
        *("compareroads", "route", "checkmap", "addmissingroads"),
    }


def test_a_mask_is_traced_within_an_extent(process, mask, tmp_path):
    west = f"{X},{X + 140},{Y},{Y + SIDE_M} [EPSG:32632]"
    results, _ = process("tracemask", INPUT="mask.tif", EXTENT=west, OUTPUT="roads.gpkg")
    assert results == {"OUTPUT": f"{tmp_path}/roads.gpkg|layername=edges"}
    assert read_gpkg(tmp_path / "roads.gpkg").length_m.sum() == pytest.approx(120, abs=4)
    assert not list(tmp_path.glob(".roadseg-*"))
    assert mask.exists()


def test_a_filtered_layer_in_degrees_is_compared_with_one_in_metres(process, tmp_path):
    shapes = [shapely.LineString(np.add(road, (X, Y))) for road in ROADS.values()]
    roads = gpd.GeoDataFrame({"kind": [1, 2]}, geometry=shapes, crs=UTM)
    roads.to_file(tmp_path / "all.gpkg", layer="roads")
    roads[:0].to_file(tmp_path / "all.gpkg", layer="others")
    lines(MAP, tmp_path / "map.geojson")
    results, said = process(
        "compareroads",
        EXTRA="--spacing-m 45",  # Of the first of two commands alone.
        REFERENCE="map.geojson",
        PREDICTED="all.gpkg|layername=roads|subset=kind=1",
        OUTPUT="differences.gpkg",
    )
    assert results["CORRECTNESS"] == pytest.approx(1)
    assert results["COMPLETENESS"] == pytest.approx(1)
    assert "Correctness: 1.000" in said
    assert "Only in map: 0.00 km" in said
    assert (tmp_path / "differences.gpkg").exists()


def test_differences_of_layers_with_one_name_say_which_is_which(process, tmp_path):
    for folder, roads in (("known", ROADS), ("found", MAP)):
        (tmp_path / folder).mkdir()
        lines(roads, tmp_path / folder / "roads.geojson")
    _, said = process(
        "compareroads",
        REFERENCE="known/roads.geojson",
        PREDICTED="found/roads.geojson",
        OUTPUT="differences.gpkg",
    )
    assert "Only in roads (compared): 0.00 km" in said
    assert "Only in roads (reference): 0.26 km" in said


def test_a_route_is_found_between_points_in_other_coordinates(process, tmp_path):
    lines(ROADS, tmp_path / "roads.geojson")
    start = gpd.GeoSeries([shapely.Point(X + 30, Y + 150)], crs=UTM).to_crs(3857)[0]
    results, said = process(
        "route",
        INPUT="roads.geojson",
        START=f"{start.x},{start.y} [EPSG:3857]",
        END=f"{X + 130},{Y + 150} [EPSG:32632]",
        OUTPUT="route.gpkg",
    )
    assert results["KM"] == pytest.approx(0.1, abs=0.001)
    assert results["SECONDS"] > 0
    assert "On 100.0% of the length no speed is known" in said
    assert (tmp_path / "route.gpkg").exists()


def test_an_error_of_roadseg_is_the_message_of_the_algorithm(process, tmp_path):
    lines(ROADS, tmp_path / "roads.geojson")
    results, said = process(
        "route", INPUT="roads.geojson", START="0,0", END="1,1", OUTPUT="route.gpkg"
    )
    assert results is None
    assert '"Start" 0,0: the nearest road is' in said
    assert "(--snap-m)" in said
    assert 'go into Advanced Parameters > "Further options of the roadseg command"' in said
    assert "Traceback" not in said
    assert not (tmp_path / "route.gpkg").exists()


def test_bad_input_gets_one_line(process, tmp_path):
    lines(ROADS, tmp_path / "roads.geojson")
    same = {"REFERENCE": "roads.geojson", "PREDICTED": "roads.geojson", "OUTPUT": "same.gpkg"}
    write_places(tmp_path, [1001], size_px=64)
    image = "images/place_1001.tif"
    below = {"INPUT": image, "OUTPUT": "roads.geojson/map"}
    photo = {"INPUT": image, "OUTPUT": "traced.gpkg"}
    nothing = {"INPUT": "elsewhere", "OUTPUT": "corrected.gpkg"}
    for algorithm, given, message in (
        ("compareroads", same, "Both are the same layer"),
        ("maproads", below, "roads.geojson/map/sources: Not a directory"),
        ("tracemask", photo, 'for an image, run "Map roads" first'),
        ("reviewmap", nothing, 'run "Map roads" or "Trace a mask" first'),
    ):
        results, said = process(algorithm, **given)
        assert results is None
        assert message in said
        assert "Traceback" not in said


def test_a_map_is_checked_and_extended(process, mask, tmp_path):
    lines(MAP, tmp_path / "map.geojson")
    results, said = process(
        "checkmap", INPUT="map.geojson", PROBABILITY=mask, OUTPUT="checked.gpkg"
    )
    assert results["OUTPUT"].endswith("checked.gpkg|layername=stretches")
    assert "confirmed: 0.26 km (100%)" in said
    lines(ROADS, tmp_path / "roads.geojson", confidence=[0.9, 0.9])
    results, said = process(
        "addmissingroads", PREDICTED="roads.geojson", INTO="map.geojson", OUTPUT="merged"
    )
    assert results["MERGED"] == f"{tmp_path}/merged/merged.gpkg|layername=edges"
    assert "0.26 km added" in said


def test_a_part_of_an_image_is_mapped_with_the_starter(process, tmp_path):
    write_places(tmp_path, [1001], size_px=512)
    with rasterio.open(tmp_path / "images/place_1001.tif") as image:
        west, south, east, north = image.bounds
        extent = f"{west},{(west + east) / 2},{south},{north} [{image.crs}]"
    results, said = process(
        "maproads", INPUT="images/place_1001.tif", EXTENT=extent, ADAPT="true", OUTPUT="map"
    )
    assert results["ROADS"] == f"{tmp_path}/map/graphs/place_1001.gpkg|layername=edges"
    assert read_gpkg(tmp_path / "map/graphs/place_1001.gpkg").length_m.sum() > 0
    assert Path(results["PROBABILITY"]).exists()
    assert Path(results["REPORT"]).exists()
    # A training refuses images beside its outputs.
    assert (tmp_path / "map/sources/area.geojson").exists()
    assert not (tmp_path / "map/area.geojson").exists()
    assert "mapped with the starter network" in said
    assert "Mean confidence of the roads: " in said
    assert "the network is not adapted to these images, as it is sure of only" in said


def test_a_map_is_reviewed_in_a_browser(profile, process, tmp_path):
    write_gpkg(tmp_path / "map/graphs/city.gpkg", drawn([(X, Y), (X + 90, Y)]))
    browser = Path(profile["BROWSER"])
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    results, said = process("reviewmap", INPUT="map", EXTRA="--who Ana", OUTPUT="corrected.gpkg")
    assert "Roads: 1 accepted" in said
    assert "corrected.gpkg --who Ana" in said  # Of both commands.
    assert results == {"OUTPUT": f"{tmp_path}/corrected.gpkg|layername=edges"}
    assert list(read_gpkg(tmp_path / "corrected.gpkg").attributes["edited"]) == ["accepted"]


def test_the_corrected_roads_of_each_coordinate_system_are_results(profile, process, tmp_path):
    for name, crs in (("city", UTM), ("town", CRS.from_epsg(32633))):
        roads = drawn([(X, Y), (X + 90, Y)], crs=crs)
        write_gpkg(tmp_path / f"map/graphs/{name}.gpkg", roads)
    browser = Path(profile["BROWSER"])
    browser.write_text(BROWSER)
    browser.chmod(0o755)
    results, said = process("reviewmap", INPUT="map", OUTPUT="corrected.gpkg")
    assert "Roads: " in said
    assert results == {"OUTPUT": f"{tmp_path}/corrected_city.gpkg|layername=edges"}
    assert len(read_gpkg(tmp_path / "corrected_town.gpkg").lines) == 1


def test_a_network_learns_from_the_edits_of_a_map(process, tmp_path):
    write_places(tmp_path, [1003], size_px=512)
    process("maproads", INPUT="images/place_1003.tif", OUTPUT="map")
    results, said = process("improvemap", INPUT="map", MINUTES=0.1, OUTPUT="better")
    assert results is None
    assert 'edits.gpkg does not exist; run "Review a map" first' in said
    crs = read_gpkg(tmp_path / "map/graphs/place_1003.gpkg").crs
    west, south, east, north = read_grid(tmp_path / "images/place_1003.tif").footprint_m.bounds
    middles = [(west + share * (east - west), (south + north) / 2) for share in (0.1, 0.6, 0.9)]
    with closing(EditFile(tmp_path / "map/edits.gpkg", crs)) as file:
        for line in (middles[:2], middles[1:]):  # The second one is on other chips.
            file.add(Edit("draw", shapely.LineString(line)), crs, who="Ana")
    improve = {"INPUT": "map", "MINUTES": 0.3, "EXTRA": "--set train.batch_size=2"}
    results, said = process("improvemap", **improve, OUTPUT="better")
    assert results["ROADS"] == f"{tmp_path}/better/roads.gpkg|layername=edges"
    assert set(read_gpkg(tmp_path / "better/roads.gpkg").attributes["edited"]) >= {"drawn"}
    assert Path(results["REPORT"]).exists()
    assert "Of the drawn roads that were left out of the training" in said


def test_layers_are_loaded_with_their_styles_and_a_cancelled_command_is_gone(
    profile, mask, tmp_path
):
    python = os.environ.get("ROADSEG_QGIS", sys.executable)
    if subprocess.run(
        [python, "-c", "import qgis.core"], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs QGIS; ROADSEG_QGIS names a Python that can import it")
    write_places(tmp_path, [1001], size_px=256)
    plugins = Path(profile["QGIS_CUSTOM_CONFIG_PATH"], "profiles/default/python/plugins")
    words = [plugins, "/usr/share/qgis/python/plugins", mask, "images/place_1001.tif"]
    done = subprocess.run(
        [python, "-c", PYTHON_PROGRAM, *map(str, words)],
        env=profile,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    layers, refused, told, children = json.loads(done.stdout.splitlines()[-1])
    assert layers == [["Roads", "graduatedSymbol"]]
    assert "Service comes from a service: choose a raster file" in refused
    assert told == {}
    assert not children
    assert {path.name for path in (tmp_path / "map").iterdir()} <= {
        *("roadseg.json", "probabilities", "sources")
    }
