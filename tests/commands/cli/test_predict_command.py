"""`roadseg predict`: what goes wrong, in one line, and how it goes on."""

import json
import pickle
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from tests.drawing import read_probability

SETTINGS = ("predict.window_px=64", "predict.overlap_px=16", "compute.device=cpu")


@pytest.fixture
def words_of(checkpoint, tmp_path):
    """Give a function that makes the words of a command that predicts images into a folder."""

    def words_of(*words, trained=checkpoint, output=tmp_path / "out"):
        settings = [f"--set={setting}" for setting in SETTINGS]
        given = ["--checkpoint", str(trained), "--output", str(output), *settings]
        return ["-q", "predict", *given, "--engine", "eager", *map(str, words)]

    return words_of


@pytest.fixture
def call(words_of):
    """Give a function that predicts images."""
    return lambda *words, **options: CliRunner().invoke(main, words_of(*words, **options))


@pytest.fixture
def fails(call, tmp_path):
    """Give a function that fails to predict images; return the one line that it says."""

    def run(*words, exit_code=3, output=tmp_path / "out", **options):
        ended = call(*words, output=output, **options)
        assert (ended.exit_code, ended.stdout) == (exit_code, ""), ended.stderr
        assert ended.stderr.startswith("Error: ")
        assert ended.stderr.count("\n") == 1
        assert not list(output.glob("**/[!.]*.tif"))
        return ended.stderr

    return run


@pytest.fixture
def scene(make_scene, tmp_path):
    """Write a tiny scene; return its image."""
    return make_scene(tmp_path, "scene")[0]


@pytest.fixture
def succeeds(call):
    """Give a function that predicts images; return the summary."""

    def run(*words, **options):
        ended = call("--json", *words, **options)
        assert ended.exit_code == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


@pytest.fixture
def draw(write_raster):
    """Give a function that writes noise as a scene."""

    def write(name, height, width, **profile):
        random = np.random.default_rng(0)
        pixels = random.integers(60, 120, (3, height, width), dtype=np.uint8)
        return write_raster(pixels, name=name, **profile)

    return write


def pixels_of(path):
    with rasterio.open(path) as source:
        return np.concatenate([source.read(), source.dataset_mask()[np.newaxis]])


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "")


def test_a_pickled_checkpoint_is_refused_and_never_unpickled(fails, scene, tmp_path):
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    (tmp_path / "best.safetensors").write_bytes(trap)
    assert "not a safetensors file" in fails(scene, trained=tmp_path)
    assert not (tmp_path / "sprung").exists()
    pickle.loads(trap)  # noqa: S301 - of this test
    assert (tmp_path / "sprung").exists()


def test_pixels_of_another_size_are_refused_or_resampled(fails, succeeds, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "coarse", gsd_m=1.5)
    assert "pixels of 1.5 m, but the checkpoint was trained on 1 m" in fails(image)
    succeeds("--gsd", "auto", image)
    with rasterio.open(tmp_path / "out/coarse.tif") as raster:
        assert raster.shape == (96, 96)


@pytest.fixture
def damaged(draw):
    """Write a scene of 3 x 3 blocks with rubbish in the one in the middle."""
    tiled = {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "deflate"}
    path = draw("damaged.tif", 192, 192, **tiled)
    with rasterio.open(path) as source:
        start = int(source.get_tag_item("BLOCK_OFFSET_1_1", "TIFF", bidx=1))
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"rubbish")
    return path


def test_an_unreadable_block_in_the_middle_of_a_scene_is_an_error_that_names_it(fails, damaged):
    assert re.match(
        r"Error: \S+damaged\.tif: not a readable raster \(.+\); download", fails(damaged)
    )


def test_an_unreadable_scene_can_be_skipped(call, damaged, scene, tmp_path):
    ended = call("--json", "--on-error", "skip", damaged, scene)
    assert ended.exit_code == 4
    summary = json.loads(ended.stdout)
    assert (summary["scenes"], list(summary["failed"])) == (["scene"], ["damaged"])
    assert ended.stderr.count("damaged.tif: not a readable raster") == 1
    assert not (tmp_path / "out/damaged.tif").exists()
    assert read_probability(tmp_path / "out/scene.tif").road.shape == (64, 64)


@pytest.fixture
def small_disk(tmp_path):
    """Give a function that mounts a disk of some bytes, or makes it larger; return its folder."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size, *more):
        command = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *more]), "none", folder]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("only root can mount a small disk")
        return folder

    yield mount
    subprocess.run(["umount", folder], capture_output=True, check=False)  # noqa: S607 - or none


def test_a_disk_that_runs_full_is_an_error_and_with_more_room_the_command_goes_on(
    fails, succeeds, small_disk, draw, tmp_path
):
    image = draw("noise.tif", 600, 600)
    disk = small_disk(600 * 600 * 8 * 26 // 10)
    message = fails(image, output=disk)
    assert re.search(r"disk/noise\.tif: cannot be written: No space left on device", message)
    small_disk(10**7, "remount")
    succeeds(image, output=disk)
    succeeds(image)
    assert np.array_equal(pixels_of(disk / "noise.tif"), pixels_of(tmp_path / "out/noise.tif"))


def test_each_scene_has_windows_that_fit_it(succeeds, draw, tmp_path):
    sizes = {"small": (60, 50), "wide": (100, 150)}
    images = [draw(f"{name}.tif", *size) for name, size in sizes.items()]
    free, together = "predict.window_px=null", tmp_path / "together"
    succeeds(*images, "--set", free, output=together)
    for image, window_px in zip(images, (64, 160), strict=True):
        alone = tmp_path / image.stem
        succeeds(image, "--set", f"predict.window_px={window_px}", output=alone)
        assert np.array_equal(pixels_of(together / image.name), pixels_of(alone / image.name))
