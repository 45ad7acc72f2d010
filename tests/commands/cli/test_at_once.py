"""Several commands at the same moment in one folder: all are processes, and start together."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.raster.tiff import new_profile, open_new

CROWD = """
import importlib, json, os, sys
for name in ("predict", "graph"):
    importlib.import_module(f"roadseg.commands.stages.{name}")
for name in ("roadseg.config", "segmentation_models_pytorch"):
    importlib.import_module(name)
from roadseg.commands.cli.main import main
folder, *commands = json.loads(sys.argv[1])
os.chdir(folder)
gate, opening = os.pipe()
processes = []
for number, words in enumerate(commands):
    process = os.fork()
    if process == 0:
        os.close(opening)
        os.dup2(os.open(f"stderr-{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.read(gate, 1)
        try:
            main(words, prog_name="roadseg")
        except SystemExit as ended:
            sys.stderr.flush()
            os._exit(ended.code or 0)
    processes.append(process)
print(json.dumps(processes), flush=True)
os.close(opening)
codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
print(json.dumps(codes), flush=True)
os._exit(0)
"""
PATIENCE_S = 60


class Crowd:
    """Commands that have started together."""

    def __init__(self, folder, commands):
        program = [sys.executable, "-W", "ignore::DeprecationWarning:__main__", "-c", CROWD]
        words = json.dumps([str(folder), *([*map(str, words)] for words in commands)])
        self.folder = folder
        self.parent = subprocess.Popen([*program, words], stdout=subprocess.PIPE, text=True)
        self.processes = json.loads(self._line())

    def end(self):
        """Return for each command its exit code and what it said."""
        codes = json.loads(self._line())
        self.parent.communicate()
        said = [(self.folder / f"stderr-{number}").read_text() for number in range(len(codes))]
        return list(zip(codes, said, strict=True))

    def _line(self):
        """Return the next of the lines that are JSON; commands print their summaries between."""
        return next(line for line in self.parent.stdout if re.match(r"\[-?\d", line))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Draw two adjoining scenes of three strips; return their files."""
    folder, height = tmp_path_factory.mktemp("images"), 4200
    noise = np.random.default_rng(0).integers(60, 220, (3, height, 96), dtype=np.uint8)
    for number in range(2):
        place = Affine(1, 0, 660000 + 96 * number, 0, -1, 4000000)
        grid = Grid(CRS.from_epsg(32611), place, height, 96)
        profile = new_profile(grid, count=3, dtype="uint8")
        with open_new(folder / f"{number}.tif", profile) as target:
            target.write(noise)
    return sorted(folder.iterdir())


@pytest.fixture
def predict(checkpoint):
    """Give a function that makes the words of a command that predicts images into a folder."""
    sets = ("predict.window_px=64", "predict.overlap_px=16", "compute.device=cpu")
    given = ["--checkpoint", checkpoint, "--engine", "eager", *(f"--set={one}" for one in sets)]
    return lambda output, *words: ["-q", "predict", *given, "--output", output, *words]


def files_in(folder):
    """Return a digest of all files in a folder, and in those in it, by their names."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def ended_well(tmp_path, *commands):
    """Let commands start together, and make sure that all end well."""
    for code, said in Crowd(tmp_path, commands).end():
        assert code == 0, said


@pytest.mark.parametrize("number", [2, 3])
def test_commands_that_predict_the_same_do_not_disturb_each_other(
    tmp_path, predict, images, number
):
    ended_well(tmp_path, predict(tmp_path / "alone", "--mask", *images))
    ended_well(tmp_path, *[predict(tmp_path / "out", "--mask", *images)] * number)
    assert files_in(tmp_path / "out") == files_in(tmp_path / "alone")


def test_commands_that_predict_the_same_mosaic_do_not_either(tmp_path, predict, images):
    command = predict(tmp_path / "out", "--mosaic", "city", *images)
    ended_well(tmp_path, predict(tmp_path / "alone", *command[-4:]))
    ended_well(tmp_path, *[command] * 3)
    assert files_in(tmp_path / "out").keys() == {"city.vrt", "city.tif", "city.qml"}
    with (  # whose tags name the folder of the mosaic, by a digest
        rasterio.open(tmp_path / "out" / "city.tif") as found,
        rasterio.open(tmp_path / "alone" / "city.tif") as alone,
    ):
        assert np.array_equal(found.read(), alone.read())


def test_shards_go_side_by_side(tmp_path, predict, images):
    ended_well(tmp_path, predict(tmp_path / "alone", *images))
    shards = [predict(tmp_path / "out", "--shard", f"{n}/2", *images) for n in (1, 2)]
    ended_well(tmp_path, *shards)
    assert files_in(tmp_path / "out") == files_in(tmp_path / "alone")


def test_after_a_command_that_was_killed_another_one_goes_on(tmp_path, predict, images):
    command, out = predict(tmp_path / "out", *images), tmp_path / "out"
    ended_well(tmp_path, predict(tmp_path / "alone", *images))
    first = Crowd(tmp_path, [command])
    end = time.monotonic() + PATIENCE_S
    while not list(out.glob(".strips-*/[!.]*.strip")):
        assert time.monotonic() < end, "no strip came"
        time.sleep(0.01)
    os.kill(first.processes[0], signal.SIGKILL)
    assert first.end()[0][0] == -signal.SIGKILL
    ended_well(tmp_path, command)
    assert files_in(out) == files_in(tmp_path / "alone")


def test_commands_that_make_the_same_graph_do_not_disturb_each_other(tmp_path):
    roads = np.zeros((1500, 1500), dtype=np.uint8)
    roads[::50] = roads[:, ::50] = 1
    grid = Grid(CRS.from_epsg(32611), Affine(1, 0, 660000, 0, -1, 4000000), *roads.shape)
    with rasterio.open(
        tmp_path / "a.tif", "w", **new_profile(grid, count=1, dtype="uint8")
    ) as target:
        target.write(roads, 1)
    command = ["-q", "graph", "--output", tmp_path / "out", tmp_path / "a.tif"]
    ended_well(tmp_path, [*command[:3], tmp_path / "alone", command[-1]])
    ended_well(tmp_path, *[command] * 3)
    names = {"a.gpkg", "a.geojson", "a.graphml"}
    assert files_in(tmp_path / "out").keys() >= names
    for name in names - {"a.gpkg"}:  # which says when it was written
        assert files_in(tmp_path / "out")[name] == files_in(tmp_path / "alone")[name]


def test_a_command_that_fails_leaves_no_new_run_folder(tmp_path):
    ((code, said),) = Crowd(tmp_path, [["report"]]).end()
    assert (code, said.count("\n")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["stderr-0"]
