"""Several commands at the same moment in one folder: all are processes, and start together."""

import hashlib
import signal
import time

import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS

from roadseg.commands.stages.predict import run_images
from roadseg.config import load_config
from roadseg.raster.grid import Grid
from roadseg.raster.tiff import new_profile, open_new

SETTINGS = ("predict.window_px=64", "predict.overlap_px=0", "compute.device=cpu")
PATIENCE_S = 60


@pytest.fixture
def ended_well(start_command, forks, tmp_path):
    """Give a function that lets commands start together, and makes sure that all end well."""

    def end(*commands):
        gate = forks.Barrier(len(commands))
        started = [start_command(words, tmp_path, gate=gate) for words in commands]
        for command in started:
            code, _, said = command.end()
            assert code == 0, said

    return end


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Draw two adjoining scenes of three strips; return their files."""
    folder, height = tmp_path_factory.mktemp("images"), 4200
    noise = np.random.default_rng(0).integers(60, 220, (3, height, 64), dtype=np.uint8)
    for number in range(2):
        place = Affine(1, 0, 660000 + 64 * number, 0, -1, 4000000)
        grid = Grid(CRS.from_epsg(32611), place, height, 64)
        profile = new_profile(grid, count=3, dtype="uint8")
        with open_new(folder / f"{number}.tif", profile) as target:
            target.write(noise)
    return sorted(folder.iterdir())


@pytest.fixture
def predict(checkpoint, images):
    """Give a function that makes the words of a command that predicts them into a folder."""
    given = ["--checkpoint", checkpoint, "--engine", "eager", *(f"--set={s}" for s in SETTINGS)]
    return lambda output, *words: ["-q", "predict", *given, "--output", output, *words, *images]


@pytest.fixture(scope="module")
def alone(tmp_path_factory, checkpoint, images):
    """Predict the scenes and their masks where nothing else happens; return the folder."""
    folder = tmp_path_factory.mktemp("alone")
    config = load_config(None, [*SETTINGS, "predict.engine=eager", "predict.mask=true"])
    run_images(config, map(str, images), checkpoints=[checkpoint], output=folder)
    return folder


def files_in(folder):
    """Return a digest of all files in a folder, and in those in it, by their names."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def scenes_in(folder):
    return {name: digest for name, digest in files_in(folder).items() if "/" not in name}


@pytest.mark.slow
def test_commands_that_predict_the_same_do_not_disturb_each_other(
    tmp_path, ended_well, predict, alone
):
    ended_well(*[predict(tmp_path / "out", "--mask")] * 3)
    assert files_in(tmp_path / "out") == files_in(alone)


def test_shards_go_side_by_side(tmp_path, ended_well, predict, alone):
    shards = [predict(tmp_path / "out", "--shard", f"{n}/2") for n in (1, 2)]
    ended_well(*shards)
    assert scenes_in(tmp_path / "out") == scenes_in(alone)


def test_after_a_command_that_was_killed_another_one_goes_on(
    tmp_path, ended_well, start_command, predict, alone
):
    command, out = predict(tmp_path / "out"), tmp_path / "out"
    first = start_command(command, tmp_path)
    end = time.monotonic() + PATIENCE_S
    while not list(out.glob(".strips-*/[!.]*.strip")):
        assert time.monotonic() < end, "no strip came"
        time.sleep(0.01)
    first.send(signal.SIGKILL)
    assert first.end()[0] == -signal.SIGKILL
    ended_well(command)
    assert scenes_in(out) == scenes_in(alone)


def test_commands_that_make_the_same_graph_do_not_disturb_each_other(tmp_path, ended_well):
    roads = np.zeros((1000, 1000), dtype=np.uint8)
    roads[::50] = roads[:, ::50] = 1
    grid = Grid(CRS.from_epsg(32611), Affine(1, 0, 660000, 0, -1, 4000000), *roads.shape)
    with rasterio.open(
        tmp_path / "a.tif", "w", **new_profile(grid, count=1, dtype="uint8")
    ) as target:
        target.write(roads, 1)
    command = ["-q", "graph", "--output", tmp_path / "out", tmp_path / "a.tif"]
    ended_well([*command[:3], tmp_path / "alone", command[-1]])
    ended_well(*[command] * 3)
    names = {"a.gpkg", "a.geojson", "a.graphml"}
    assert files_in(tmp_path / "out").keys() >= names
    for name in names - {"a.gpkg"}:  # which says when it was written
        assert files_in(tmp_path / "out")[name] == files_in(tmp_path / "alone")[name]


def test_a_command_that_fails_leaves_no_new_run_folder(tmp_path, start_command):
    code, _, said = start_command(["report"], tmp_path).end()
    assert (code, said.count("\n")) == (1, 1)
    assert list(tmp_path.iterdir()) == []
