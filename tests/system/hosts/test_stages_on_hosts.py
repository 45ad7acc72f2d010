"""Stages on three hosts that share no disk give the same bytes as in one process."""

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from roadseg.commands.roads import score
from roadseg.commands.stages import graph, predict, prepare
from roadseg.commands.tools import demo
from roadseg.config import load_config
from roadseg.roads.options import CompareOptions
from roadseg.system.hosts.parallel import HERE, Executor
from roadseg.system.workspace import Workspace

pytestmark = pytest.mark.hosts
SETTINGS = {
    "imagery.gsd_m": None,
    "imagery.chip_px": 200,
    "labels.shift": "scene",
    "predict.window_px": 128,
    "predict.overlap_px": 32,
    "graph.formats": ["gpkg", "geojson", "graphml", "shp"],
    "graph.block_px": 256,
}


@pytest.fixture
def small_city(tmp_path, monkeypatch):
    """Draw a city of three scenes that touch; return its folder."""
    for name, value in {"_SIZE_PX": 300, "_STEP_M": 90.0, "_COLUMNS": 3, "_ROWS": 1}.items():
        monkeypatch.setattr(demo, name, value)
    demo.run(tmp_path / "city")
    return tmp_path / "city"


def settings_of(city, **compute):
    settings = SETTINGS | {f"compute.{name}": value for name, value in compute.items()}
    return load_config(
        city / "roadseg.json", [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    )


def make_all(city, out, **compute):
    """Run the stages from images to graphs and their scores; return the scores."""
    config = settings_of(city, **compute)
    images, out = [str(city / "images")], Path(out)
    prepare.run(config, Workspace(out / "run"))
    predict.run_images(config, images, checkpoints=[Path("starter")], output=out / "predicted")
    rasters = [str(path) for path in sorted((out / "predicted").glob("*.tif"))]
    graph.run_images(config, rasters, output=out / "graphs")
    executor = Executor(scheduler=compute["scheduler"]) if compute else HERE
    options = CompareOptions(tolerance_m=4.0)
    found = score.run(city / "roads", out / "graphs", options=options, executor=executor)
    return found.pairs, found.pooled


def contents(folder):
    """Return the bytes of all files, of GeoPackages all rows, without the times of writing."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = {path.relative_to(folder).as_posix(): path for path in files}
    named.pop("run/prepare.json", None)  # It holds how long the stage took.
    return {
        name: rows(path)
        if path.suffix == ".gpkg"
        else path.read_bytes().replace(bytes(folder), b"")
        for name, path in named.items()
    }


def rows(gpkg):
    with closing(sqlite3.connect(gpkg)) as base:
        layers = ("SELECT * FROM nodes", "SELECT * FROM edges")
        return [base.execute(layer).fetchall() for layer in layers]


def without_paths(pairs):
    return [{k: v for k, v in pair.items() if not k.endswith("_path")} for pair in pairs]


def test_all_stages_give_the_bytes_of_one_process(hosts, small_city, tmp_path):
    for _ in range(3):
        hosts.start()
    here, pooled_here = make_all(small_city, tmp_path / "here")
    there, pooled_there = make_all(
        small_city, tmp_path / "there", scheduler=hosts.address, scheduler_timeout_s=60.0
    )
    expected, found = contents(tmp_path / "here"), contents(tmp_path / "there")
    assert sorted(expected) == sorted(found)
    assert {"graphs/network.gpkg", "predicted/city_2.tif", "run/masks/city_0.tif"} <= set(found)
    assert [name for name in expected if expected[name] != found[name]] == []
    assert (without_paths(here), pooled_here) == (without_paths(there), pooled_there)


def test_a_host_that_is_cut_off_in_a_prediction_loses_nothing(hosts, small_city, tmp_path):
    for _ in range(3):
        hosts.start()
    images = [str(small_city / "images")]

    def run(out, **compute):
        config, starter = settings_of(small_city, **compute), [Path("starter")]
        predict.run_images(config, images, checkpoints=starter, output=out)
        return contents(out)

    expected = run(tmp_path / "here")

    def cut():
        # The first raster is there, so all hosts are at work.
        while not list((tmp_path / "there").glob("city_*.tif")):
            time.sleep(0.05)
        hosts.cut(0)

    cutting = threading.Thread(target=cut, daemon=True)
    cutting.start()
    found = run(tmp_path / "there", scheduler=hosts.address, scheduler_timeout_s=60.0)
    cutting.join()
    assert found == expected
