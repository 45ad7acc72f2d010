"""The QGIS project names all layers by paths that move with it, and says how to show them."""

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from affine import Affine

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.images import read_facts
from roadseg.raster.scaling import Scaling
from roadseg.report.map_data import map_areas
from roadseg.report.qgis_project import write_project
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.masks.mask_files import write_mask
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.workspace import Workspace
from tests.drawing import UTM, drawn

# Open a project, and print name, validity, style and place of its layers as QGIS sees them.
PROGRAM = """
import json, sys
from qgis.core import QgsApplication, QgsProject, QgsVectorLayer
application = QgsApplication([], False)
application.initQgis()
project = QgsProject.instance()
assert project.read(sys.argv[1]), project.error()
facts = lambda layer: (layer.isValid(), layer.renderer().type(), layer.crs().authid())
layers = {layer.name(): facts(layer) for layer in project.mapLayers().values()}
roads = project.mapLayersByName("a & b, roads")[0]
alone = QgsVectorLayer(roads.source(), "roads", "ogr")
aliases = [{*each.attributeAliases().values()} - {""} for each in (roads, alone)]
print(json.dumps([project.crs().authid(), layers, *map(sorted, aliases)]))
"""

GRID = Grid(UTM, Affine(1, 0, 480000, 0, -1, 3650000), 40, 60)
ROADS = drawn([(480000, 3649990), (480050, 3649990)], speed_kph=np.array([40.0]))


@pytest.fixture
def image(write_raster):
    """Write an image of 16 bits beside the run folder; return what it is."""
    pixels = np.ones((3, 40, 60), dtype=np.uint16)
    return read_facts(write_raster(pixels, name="images/a & b.tif", transform=GRID.transform))


@pytest.fixture
def project(tmp_path, image, write_raster):
    """Give a function that writes the project of one scene, and returns its XML."""
    workspace = Workspace(tmp_path / "run")
    mask = workspace.mask("a & b")
    mask.parent.mkdir(parents=True)
    write_mask(mask, [], GRID, bins=DEFAULT_BINS)
    pixels = np.zeros((8, 40, 60), dtype=np.uint8)
    raster = write_raster(pixels, name="run/probabilities/a & b.tif", transform=GRID.transform)

    def write(**changes):
        scene = ReportScene("a & b", GRID, image, open_probability(raster), ROADS, None)
        scene = replace(scene, **changes)
        scaling = Scaling(
            {"uint16": ((100, 1100), (200, 1200), (300, 1300))}, (90.0,) * 3, (40.0,) * 3
        )
        areas = map_areas([GRID])
        shown = ReportScenes([scene], areas, {}, frozenset(), scaling, DEFAULT_BINS, {})
        write_project(workspace.qgis_project, workspace, shown)
        with zipfile.ZipFile(workspace.qgis_project) as archive:
            (member,) = archive.infolist()
            assert (member.filename, member.date_time[0]) == ("roadseg.qgs", 1980)
            return ET.fromstring(archive.read("roadseg.qgs"))  # noqa: S314 - our own

    return write


def test_layers_are_named_by_scene_and_kind_and_lie_in_groups(project):
    tree = project().find("layer-tree-group")
    shown = {g.get("name"): [layer.get("name") for layer in g] for g in tree}
    assert shown == {
        "roads": ["a & b, roads", "a & b, nodes"],  # The first one is active in QGIS.
        "probability of road": ["a & b, probability"],
        "masks of the labels": ["a & b, mask"],
        "images": ["a & b, image"],
    }
    assert [g.get("name") for g in tree if g.get("checked") == "Qt::Checked"] == ["roads", "images"]


def test_files_are_named_from_the_project_so_that_all_can_move(project):
    sources = [layer.find("datasource").text for layer in project().find("projectlayers")]
    assert sources == [
        "./graphs/a & b.gpkg|layername=edges",
        "./graphs/a & b.gpkg|layername=nodes",
        "./probabilities/a & b.tif",
        "./masks/a & b.tif",
        "../images/a & b.tif",
    ]


def test_every_layer_of_the_tree_is_described(project):
    root = project()
    in_tree = [layer.get("id") for layer in root.iter("layer-tree-layer")]
    described = [layer.find("id").text for layer in root.find("projectlayers")]
    assert in_tree == described
    assert len(set(in_tree)) == 5


def test_probabilities_show_any_road_and_masks_name_their_bins(project):
    road, mask, image = project().findall(".//rasterrenderer")
    assert (road.get("type"), road.get("band")) == ("singlebandpseudocolor", "8")
    entries = mask.findall(".//paletteEntry")
    assert [entry.get("label") for entry in entries] == ["background", *DEFAULT_BINS.shown_names]
    assert [entry.get("alpha") for entry in entries] == ["0", *["255"] * 7]
    assert image.get("redBand") == "1"
    assert [text.text for text in image.iter("maxValue")] == ["1100", "1200", "1300"]


def test_the_view_is_all_of_the_scenes(project):
    extent = project().find("mapcanvas/extent")
    bounds = [float(extent.find(side).text) for side in ("xmin", "ymin", "xmax", "ymax")]
    assert bounds == [480000, 3649960, 480060, 3650000]


def test_qgis_opens_every_layer_with_its_style_after_all_have_moved(tmp_path, project):
    python = os.environ.get("ROADSEG_QGIS", sys.executable)
    if subprocess.run(
        [python, "-c", "import qgis.core"], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs QGIS; ROADSEG_QGIS names a Python that can import it")
    project()
    write_gpkg(Workspace(tmp_path / "run").graph("a & b"), ROADS)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("run", "images"):
        (tmp_path / name).rename(moved / name)
    command = [python, "-c", PROGRAM, str(moved / "run" / "roadseg.qgz")]
    alone = {name: os.environ[name] for name in ("PATH", "TMPDIR")}
    alone["QT_QPA_PLATFORM"] = "offscreen"
    told = subprocess.run(command, env=alone, capture_output=True, text=True, check=True).stdout
    crs, layers, *aliases = json.loads(told)
    assert crs == "EPSG:32611"
    assert layers == {
        "a & b, nodes": [True, "singleSymbol", "EPSG:32611"],
        "a & b, roads": [True, "graduatedSymbol", "EPSG:32611"],
        "a & b, probability": [True, "singlebandpseudocolor", "EPSG:32611"],
        "a & b, mask": [True, "paletted", "EPSG:32611"],
        "a & b, image": [True, "multibandcolor", "EPSG:32611"],
    }
    assert aliases == [["length, m", "speed, km/h", "travel time, s", "width, m"]] * 2


def test_layers_that_a_run_does_not_have_are_left_out(project):
    tree = project(image=None, probability=None).find("layer-tree-group")
    assert [group.get("name") for group in tree] == ["roads", "masks of the labels"]


def test_scenes_without_a_place_are_left_out(project):
    nowhere = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 0), 40, 60)
    root = project(grid=nowhere)
    assert len(root.find("projectlayers")) == 0
    assert root.find("projectCrs") is None
