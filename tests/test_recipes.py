"""CONTRIBUTING's recipes: a toy format and a toy stage are added to a copy, in no more files."""

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # It protects two pages of CONTRIBUTING, which change seldom.

PACKAGE = Path(__file__).parents[1] / "roadseg"
FORMAT = {
    "roads/formats/toy.py": '''
"""Toy: the CRS, and the line of every edge as WKT."""

from pathlib import Path

import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.system.files import atomic_write


def write_toy(path: Path, graph: RoadGraph) -> None:
    """Write it."""
    lines = shapely.to_wkt(graph.lines, rounding_precision=3)
    with atomic_write(path) as partial:
        partial.write_text("\\n".join([graph.crs.to_string(), *lines]), encoding="utf-8")


def read_toy(path: Path) -> RoadGraph:
    """Read it."""
    crs, *lines = path.read_text(encoding="utf-8").splitlines()
    return graph_from_lines(shapely.from_wkt(lines), CRS.from_string(crs), {})
''',
    "roads/formats/by_suffix.py": (
        (
            '    "osm": FormatModule("osm_xml", "write_osm"),\n',
            (
                '    "osm": FormatModule("osm_xml", "write_osm"),\n'
                '    "toy": FormatModule("toy", "write_toy", "read_toy"),\n'
            ),
        ),
    ),
    "roads/options.py": (('    "shp",\n]', '    "shp",\n    "toy",\n]'),),
}
STAGE = {
    "commands/stages/count.py": '''
"""count: how many scenes there are. Reads chips.json; writes count.txt."""

from dataclasses import dataclass

from roadseg.commands.stages.declared_stages import stage_input
from roadseg.dataset.chips import read_chips
from roadseg.system.files import atomic_write
from roadseg.system.stage_records import MadeFrom, Stage


@dataclass(frozen=True)
class CountSummary:
    """Number of scenes."""

    scenes: int


def run(config, workspace, *, force=False):
    """Count, unless nothing has changed since it was counted."""
    stage = _stage(config, workspace)
    if done := stage.summary(CountSummary, force=force):
        return done
    stage.begin()
    scenes = len(read_chips(workspace.chips).scenes)
    with atomic_write(workspace.count) as partial:
        partial.write_text(str(scenes * config.count.times), encoding="utf-8")
    summary = CountSummary(scenes)
    stage.finish(summary, [workspace.count])
    return summary


def plan(config, workspace, *, force=False):
    """Return what `run` would do."""
    stage = _stage(config, workspace)
    return stage.plan(stage.reason(force=force))


def _stage(config, workspace):
    settings = config.count.model_dump(mode="json")
    return Stage(
        workspace.record("count"),
        lambda: MadeFrom(settings, stage_input("prepare", workspace)),
        writes=[workspace.count],
        unit="scenes",
    )
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
        ("import RunImageryOptions", "import CountOptions, RunImageryOptions"),
        (
            "    split: SplitOptions",
            "    count: CountOptions = CountOptions()\n    split: SplitOptions",
        ),
    ),
    "system/workspace.py": (
        (
            '    report = _InRun("report.html")',
            """\
    count = _InRun("count.txt")  # Number of scenes.
    report = _InRun("report.html")""",
        ),
    ),
    "commands/cli/stages.py": (
        (
            '@stage_command(\n    RUN_ARGUMENT,\n    click.option("--pdf"',
            (
                "@stage_command()\ndef count(config, workspace, *, dry_run, force):\n"
                '    """Count scenes."""\n'
                "    from roadseg.commands.stages import count\n\n"
                "    return (count.plan if dry_run else count.run)(config, workspace, force=force)"
                "\n\n\n"
                '@stage_command(\n    RUN_ARGUMENT,\n    click.option("--pdf"'
            ),
        ),
        ("evaluate, report,", "evaluate, count, report,"),
    ),
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


COMMAND = """
import os, sys
sys.path.insert(0, folder)
for name in [name for name in sys.modules if name.partition(".")[0] == "roadseg"]:
    del sys.modules[name]
for number, path in enumerate(streams, 1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
from roadseg.commands.cli.main import main
assert sys.modules["roadseg"].__file__.startswith(folder)
main(words, prog_name="roadseg")
"""


@pytest.fixture
def roadseg(forks, tmp_path):
    """Give a function that runs a command of a copy, and returns what it says."""

    def run(root, *words):
        streams = [tmp_path / "stdout", tmp_path / "stderr"]
        names = {"folder": str(root), "words": [*map(str, words)], "streams": streams}
        process = forks.Process(target=exec, args=(COMMAND, names))
        process.start()
        process.join()
        told, errors = (path.read_text() for path in streams)
        assert process.exitcode == 0, errors
        return told

    return run


def test_a_format_takes_three_files(package, finished, roadseg):
    config, workspace = finished
    assert len(FORMAT) == 3
    root, path = package(FORMAT), config.run.parent / "roadseg.json"
    formats = 'graph.formats=["gpkg", "toy"]'
    roadseg(root, "graph", "--config", path, "--set", formats, "--set", "graph.threshold=0.01")
    toys = sorted(workspace.graphs.glob("*.toy"))
    graphs = sorted(workspace.graphs.glob("city*.gpkg"))
    assert [toy.stem for toy in toys] == [graph.stem for graph in graphs]
    scores = json.loads(roadseg(root, "score", graphs[0], toys[0], "--json"))
    assert scores["pooled"]["apls"]["length"]["score"] == pytest.approx(1, abs=0.01)


def test_a_stage_takes_five_files(package, finished, roadseg):
    config, workspace = finished
    assert len(STAGE) == 5
    root, path = package(STAGE), config.run.parent / "roadseg.json"
    words = "count", "--config", path, "--set", "count.times=3"
    assert "run" in roadseg(root, *words, "--dry-run")
    told = roadseg(root, *words, "--json")
    assert "up to date" in roadseg(root, *words, "--dry-run")
    scenes = len(list((config.run.parent / "images").iterdir()))
    assert json.loads(told) == {"scenes": scenes}
    assert (workspace.root / "count.txt").read_text() == str(3 * scenes)
