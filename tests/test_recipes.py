"""CONTRIBUTING's recipes: a toy format and a toy stage are added to a copy, in no more files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "roadseg"
FORMAT = {
    "roads/formats/toy.py": '''
"""Toy: the length of every edge, a line each."""

from pathlib import Path

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.system.files import whole


def write_toy(path: Path, graph: RoadGraph) -> None:
    """Write it."""
    with whole(path) as partial:
        partial.write_text("".join(f"{length:.1f}\\n" for length in graph.length_m))
''',
    "roads/formats/files.py": (
        ('    "osm": write_osm,\n', '    "osm": write_osm,\n    "toy": write_toy,\n'),
        (
            "from roadseg.roads.formats.tables",
            "from roadseg.roads.formats.toy import write_toy\nfrom roadseg.roads.formats.tables",
        ),
    ),
    "roads/options.py": (('"osm", "csv"]', '"osm", "csv", "toy"]'),),
}
STAGE = {
    "commands/stages/count.py": '''
"""count: how many scenes there are. Reads chips.json; writes count.txt."""

from dataclasses import dataclass

from roadseg.dataset.chips import read_chips
from roadseg.system.files import whole
from roadseg.system.workspace import require


@dataclass(frozen=True)
class CountSummary:
    """What was counted."""

    scenes: int


def run(config, workspace, *, force=False):
    """Count."""
    chips = read_chips(require(workspace.chips, made_by="prepare"))
    with whole(workspace.count) as partial:
        partial.write_text(str(len(chips.scenes) * config.count.times))
    return CountSummary(len(chips.scenes))
''',
    "dataset/options.py": (
        (
            "class SplitOptions",
            (
                "class CountOptions(Section):\n"
                '    """How scenes are counted."""\n\n'
                '    times: int = setting(1, "times", "How often.", ge=1, le=9)\n\n\n'
                "class SplitOptions"
            ),
        ),
    ),
    "config.py": (
        ("import SplitOptions", "import CountOptions, SplitOptions"),
        (
            "    split: SplitOptions",
            "    count: CountOptions = CountOptions()\n    split: SplitOptions",
        ),
    ),
    "system/workspace.py": (
        (
            "    @property\n    def report(self)",
            (
                '    @property\n    def count(self) -> Path:\n        """Number of scenes."""\n'
                '        return self.root / "count.txt"\n\n    @property\n    def report(self)'
            ),
        ),
    ),
    "commands/cli/stages.py": (
        (
            "@stage_command(needs_config=False)\ndef report(",
            (
                "@stage_command()\ndef count(config, workspace, *, do, force):\n"
                '    """Count scenes."""\n'
                '    return stage_function("count", do)(config, workspace, force=force)\n\n\n'
                "@stage_command(needs_config=False)\ndef report("
            ),
        ),
    ),
    "commands/cli/main.py": (("stages.report,", "stages.report,\n            stages.count,"),),
}


@pytest.fixture
def package(tmp_path):
    """Give a function that follows a recipe in a copy of the package, and its place."""

    def add(recipe):
        root = tmp_path / "package"
        shutil.copytree(PACKAGE, root / "roadseg", ignore=shutil.ignore_patterns("__pycache__"))
        for name, edits in recipe.items():
            path = root / "roadseg" / name
            if isinstance(edits, str):
                path.write_text(edits.lstrip())
                continue
            text = path.read_text()
            for before, after in edits:
                assert before in text, f"{name} has no {before!r}"
                text = text.replace(before, after, 1)
            path.write_text(text)
        return root

    return add


def roadseg(root, *words):
    """Run a command of the copy; return what it says."""
    words = [sys.executable, "-m", "roadseg", *map(str, words)]
    done = subprocess.run(
        words,
        env=os.environ | {"PYTHONPATH": str(root)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_format_takes_three_files(package, finished):
    config, workspace = finished
    assert len(FORMAT) == 3
    root, path = package(FORMAT), config.run.parent / "roadseg.json"
    formats = 'graph.formats=["gpkg", "toy"]'
    roadseg(root, "graph", "--config", path, "--set", formats, "--set", "graph.threshold=0.01")
    toys = sorted(workspace.graphs.glob("*.toy"))
    assert [toy.stem for toy in toys] == [
        each.stem for each in sorted(workspace.graphs.glob("city*.gpkg"))
    ]


def test_a_stage_takes_six_files(package, finished):
    config, workspace = finished
    assert len(STAGE) == 6
    root, path = package(STAGE), config.run.parent / "roadseg.json"
    told = roadseg(root, "count", "--config", path, "--set", "count.times=3", "--json")
    scenes = len(list((config.run.parent / "images").iterdir()))
    assert json.loads(told) == {"scenes": scenes}
    assert (workspace.root / "count.txt").read_text() == str(3 * scenes)
