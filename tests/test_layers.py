"""Imports only ever point down the floors, and heavy libraries stay where they belong."""

import ast
from pathlib import Path

import pytest

from roadseg.system import workspace

PACKAGE = Path(__file__).parents[1] / "roadseg"
FLOORS = [  # from the ground up; rooms of one line do not import each other
    ("errors", "arrays", "options", "qgis_plugin"),
    ("system",),
    ("system.web",),
    ("raster",),
    ("roads",),
    ("roads.graph", "roads.labels"),
    ("roads.masks", "roads.tracing"),
    ("roads.metrics",),
    ("roads.conflation",),
    ("roads.formats",),
    ("roads.audit", "roads.osm"),
    ("dataset",),
    ("learn",),
    ("learn.hardware",),
    ("learn.network",),
    ("learn.training",),
    ("learn.inference",),
    ("config",),
    ("report.plots",),
    ("report",),
    ("review",),
    ("commands.city", "commands.services.images", "commands.survey"),
    ("commands.services", "commands.stages"),
    ("commands.roads", "commands.tools"),
    ("api",),
    ("commands.cli",),
    ("__main__",),
]
RANK = {room: rank for rank, rooms in enumerate(FLOORS) for room in rooms}
STAGES = {f"commands.stages.{name}" for name in (*workspace.STAGES, "quantize")}
IN_ORDER = "commands.stages.pipeline"  # It runs the stages.
MOST_IN_A_ROOM = 16
LEARNING = "torch segmentation_models_pytorch timm albumentations openvino nncf onnx"
ONLY_IN = {
    **dict.fromkeys((*LEARNING.split(), "onnxruntime"), ("learn",)),
    "matplotlib": ("report.plots",),
    "click": ("commands.cli",),
    "qgis": ("qgis_plugin",),
}
PURE = (
    "roads.graph",
    "roads.tracing",
    "roads.metrics",
    "roads.conflation",
)  # open no file and log nothing
OUTSIDE = ("pathlib", "logging", "rasterio", "pyogrio")


def room_of(module):
    """Return the room of a module by its name inside the package: its folder, or itself."""
    folder, _, name = module.rpartition(".")
    return folder or name


def imported(source):
    """Give the modules that a text imports; names out of packages of roadseg as if modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield "."
        elif isinstance(node, ast.ImportFrom):
            inside = f"roadseg.{node.module.removeprefix('roadseg').strip('.')}".rstrip(".")
            is_package = (PACKAGE.parent / inside.replace(".", "/")).is_dir()
            ours = node.module.split(".")[0] == "roadseg" and is_package
            yield from (f"{node.module}.{a.name}" if ours else node.module for a in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def violations(source, module):
    """Say what the text of a module imports against the rules."""
    here = room_of(module)
    for name in imported(source):
        if name == ".":
            if here != "qgis_plugin":
                yield "imports are absolute"
            continue
        if here == "qgis_plugin" and name.startswith("roadseg"):
            yield f"QGIS has no {name}"
        top, _, rest = name.partition(".")
        there = room_of(rest) if top == "roadseg" else here
        if there != here and RANK[there] >= RANK[here]:
            yield f"{here} must not import {name}"
        if here == "commands.stages" and rest in STAGES and module != IN_ORDER:
            yield f"stages meet only through files, not by importing {name}"
        if top in ONLY_IN and not here.startswith(ONLY_IN[top]):
            yield f"{top} belongs in {ONLY_IN[top]}, not in {here}"
        if top in OUTSIDE and here in PURE:
            yield f"{here} opens no file and logs nothing, so {top} is not for it"


def name_of(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


MODULES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_below(path):
    assert list(violations(path.read_text(encoding="utf-8"), name_of(path))) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("system.files", "from roadseg.raster import grid"),
        ("roads.graph.cleaning", "from roadseg.roads.labels.tags import text"),
        ("roads.metrics.apls", "import logging"),
        ("roads.tracing.trace", "from pathlib import Path"),
        ("dataset.chips", "import torch"),
        ("learn.training.epochs", "from roadseg.config import Config"),
        ("learn.network.losses", "from roadseg.learn.training import trainer"),
        ("report.scenes", "from matplotlib import figure"),
        ("commands.stages.graph", "from roadseg.commands.stages import predict"),
        ("commands.stages.graph", "import click"),
        ("commands.stages.graph", "from . import predict"),
        ("commands.tools.qgis", "from qgis.core import QgsProject"),
        ("qgis_plugin.running", "from roadseg.qgis_plugin.process import run"),
    ],
)
def test_a_planted_violation_is_found(module, source):
    assert len(list(violations(source, module))) == 1


def test_the_doorstep_and_the_rooms_are_not_crowded():
    assert len(list(PACKAGE.glob("*.py"))) <= 8
    rooms = [folder for folder in PACKAGE.rglob("*") if folder.is_dir()]
    many = [room for room in rooms if len(list(room.glob("[!_]*.py"))) > MOST_IN_A_ROOM]
    assert many == []
