"""A tiny scene with two crossing roads, cut into chips."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from affine import Affine
from pyproj import CRS
from torch import nn

from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.network.models import Normalise
from roadseg.learn.training.samples import Chip
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_facts
from roadseg.raster.scaling import Scaling
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window

WORKER = f"""
import runpy, sys, warnings
warnings.simplefilter("error")
sys.path.insert(0, {str(Path(__file__).parent)!r})
sys.argv = ["parallel_worker.py", *words]
runpy.run_path({str(Path(__file__).with_name("parallel_worker.py"))!r}, run_name="__main__")
"""


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Keep torch from dividing tiny windows among threads, which wait longer than they work."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def seen_by(forks):
    """Give a function that returns what the processes of a program saw."""

    def run(program, folder):
        path = folder / "seen.json"
        worker = forks.Process(target=exec, args=(WORKER, {"words": [program, str(path)]}))
        worker.start()
        worker.join(300)
        worker.kill()
        assert worker.exitcode == 0
        return json.loads(path.read_text())

    return run


@pytest.fixture(autouse=True, scope="session")
def _quick(shapes_followed_once):
    """Let no shapes of networks be followed twice."""


@pytest.fixture
def answer(forks):
    """Give a function that runs some lines in another process, and returns what they answer."""

    def run(code):
        answers = forks.SimpleQueue()
        process = forks.Process(target=exec, args=(code, {"answer": answers.put}))
        process.start()
        process.join()
        assert process.exitcode == 0
        return answers.get()

    return run


@pytest.fixture(scope="session")
def cpu():
    """Give the CPU with the memory format that can go wrong, wherever the tests run."""
    return replace(pick_device("cpu", "fp32"), channels_last=True)


def write_raster(path, array, nodata=None):
    count, *sides = array.shape
    grid = Grid(CRS.from_epsg(32611), Affine(0.5, 0, 600000, 0, -0.5, 4000000), *sides)
    profile = new_profile(grid, count=count, dtype=array.dtype.name, nodata=nodata)
    with open_new(path, profile) as target:
        target.write(array)


def crossing(size_px):
    """Draw a slow road from left to right and a fast one from top to bottom."""
    mask = np.zeros((size_px, size_px), dtype=np.uint8)
    mask[size_px // 3 : size_px // 3 + 6] = 3
    mask[:, size_px // 2 : size_px // 2 + 6] = 6
    return mask


def write_chips(folder, *, bands=3, size_px=128, chip_px=128, mask=None):
    """Write a scene and cut it into chips."""
    mask = crossing(size_px) if mask is None else mask
    noise = np.random.default_rng(0).integers(0, 400, (bands, *mask.shape))
    image = (noise + 100 + 1000 * ((mask > 0) & (mask < 255))).astype(np.uint16)
    write_raster(folder / "scene.tif", image)
    write_raster(folder / "mask.tif", mask[np.newaxis], nodata=255)
    scaling = Scaling({"uint16": ((0.0, 1500.0),) * bands}, (60.0,) * bands, (50.0,) * bands)
    corners = range(0, size_px, chip_px)
    areas = [(row, col, chip_px, chip_px) for row in corners for col in corners]
    scene = read_facts(folder / "scene.tif")
    return [Chip(scene, folder / "mask.tif", Window(*area), scaling) for area in areas]


@pytest.fixture(scope="session")
def chips_in():
    """Give the function that writes a scene into a folder and cuts it into chips."""
    return write_chips


@pytest.fixture
def make_chips(tmp_path):
    """Give a function that writes a scene and cuts it into chips."""
    return partial(write_chips, tmp_path)


@pytest.fixture(scope="session")
def small_network():
    """Give a network of two bands and three classes."""
    torch.manual_seed(0)
    scaling = Scaling({}, mean=(100.0, 90.0), std=(50.0, 40.0))
    inner = nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 3, 1)
    return nn.Sequential(Normalise(scaling), *inner, nn.Sigmoid()).eval()


@pytest.fixture(scope="session")
def small_windows():
    """Give a function that returns so many windows for the small network."""
    return lambda count: torch.arange(count * 2 * 8 * 8).view(count, 2, 8, 8).to(torch.uint8)
