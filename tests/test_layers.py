"""Imports only ever point down the layers, and heavy libraries stay where they belong."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "roadseg"
LAYERS = [
    ("errors",),
    ("core",),
    ("io",),
    ("learn",),
    ("schedulers",),
    ("cluster", "section", "data_settings", "train_settings", "settings", "config", "workspace"),
    ("labels", "networks", "plans", "cards", "held_out"),
    ("scenes",),
    ("fitness", "scoring", "prediction"),
    ("quality", "prediction_jobs", "guesses", "reporting", "road_networks"),
    ("survey", "choices"),
    ("stages",),
    ("pipeline",),
    ("options", "console"),
    ("commands",),
    ("cli",),
    ("__main__",),
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ONLY_IN = {
    "torch": {"learn"},
    "segmentation_models_pytorch": {"learn"},
    "timm": {"learn"},
    "albumentations": {"learn"},
    "torchao": {"learn"},
    "openvino": {"learn"},
    "nncf": {"learn"},
    "onnx": {"learn"},
    "onnxruntime": {"learn"},
    "click": {"options", "console", "commands", "cli"},
    "logging": {
        *("io", "learn", "schedulers", "networks", "road_networks", "prediction_jobs"),
        *("stages", "pipeline", "console"),
    },
    "pathlib": {
        *("io", "learn", "train_settings", "settings", "config", "workspace", "scenes"),
        *("fitness", "scoring", "plans", "prediction", "prediction_jobs", "quality", "guesses"),
        *("cards", "reporting", "road_networks", "survey", "choices", "stages", "pipeline"),
        *("options", "console", "commands"),
    },
}


def violations(source, here):
    """Say what the text of a module in layer `here` imports against the rules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
            if node.module == "roadseg":
                modules = [f"roadseg.{alias.name}" for alias in node.names]
            assert node.level == 0, "imports are absolute"
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for module in modules:
            top, *rest = module.split(".")
            if top == "roadseg" and rest and RANK[rest[0]] > RANK[here]:
                yield f"{here} must not import {module}"
            if top == "roadseg" and rest[:1] == ["stages"] and here == "stages":
                yield f"stages meet only through files, not by importing {module}"
            if top in ONLY_IN and here not in ONLY_IN[top]:
                yield f"{top} belongs in {sorted(ONLY_IN[top])}, not in {here}"


def layer(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize(
    "path",
    sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py"),
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_imports_point_down(path):
    assert list(violations(path.read_text(), layer(path))) == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda p: p.parent.name)
def test_packages_hold_a_docstring_and_nothing_else(path):
    assert [type(node).__name__ for node in ast.parse(path.read_text()).body] == ["Expr"]


@pytest.mark.parametrize(
    ("here", "planted"),
    [
        ("core", "import torch"),
        ("core", "import logging"),
        ("core", "from roadseg.io import rasters"),
        ("core", "from roadseg import io"),
        ("learn", "from roadseg.config import Config"),
        ("io", "def f():\n    import roadseg.commands.stages.train"),
        ("stages", "from roadseg.commands.stages.split import run"),
        ("stages", "import click"),
    ],
)
def test_an_import_planted_against_the_arrows_is_found(here, planted):
    assert list(violations(planted, here))


def test_modules_stay_short():
    lengths = {p.name: len(p.read_text().splitlines()) for p in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}
