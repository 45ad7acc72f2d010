"""All stages together: in order, skipped when unchanged, continued after an interruption."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from roadseg.commands.stages import graph, pipeline, prepare
from roadseg.config import load_config
from roadseg.dataset import scenes
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.learn.inference import jobs, tasks
from roadseg.learn.network import models
from roadseg.report.plots import comparisons
from roadseg.roads.masks.mask_files import read_mask
from roadseg.system.workspace import Workspace


def run(config_path, *assignments):
    """Run all stages, and return the names of those that did something."""
    config = load_config(config_path, assignments)
    workspace = Workspace(config.run)
    before = {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*.json")}
    pipeline.run(config, workspace, say=lambda *_: None)
    records = [p for p in workspace.root.rglob("*.json") if "stage" in json.loads(p.read_text())]
    return {path.stem for path in records if before.get(path) != path.stat().st_mtime_ns}


@pytest.fixture
def done(finished_city, tmp_path):
    """Copy a project whose run is done; return its config file."""
    return Path(shutil.copytree(finished_city, tmp_path / "project")) / "roadseg.json"


def test_weights_that_are_not_to_be_had_are_told_before_the_first_stage(city, monkeypatch):
    monkeypatch.setattr(models, "_answers", lambda _: False)
    settings = ["train.encoder=resnet18", "train.encoder_weights=imagenet"]
    with pytest.raises(RoadsegError, match="weights of encoder resnet18 are not on this machine"):
        run(city, *settings)
    assert not (city.parent / "run/prepare.json").exists()


def test_a_dry_run_tells_that_a_file_of_the_training_is_missing(city):
    config = load_config(city, ["split.method=file", "split.file=nowhere.csv"])
    with pytest.raises(ConfigError, match=r"split\.file: .*nowhere\.csv does not exist"):
        pipeline.plan(config, Workspace(config.run))


def test_a_changed_section_runs_its_stage_and_those_after_it(done):
    assert run(done, "graph.min_spur_m=3") == {"graph", "evaluate", "report"}


def outputs(folder):
    """Return what a run found, without times and places."""
    weights = load_file(folder / "run/checkpoints/fold-0/best.safetensors")
    return (
        (folder / "run/evaluation.csv").read_text(),
        {name: tensor.sum().item() for name, tensor in weights.items()},
        [read_mask(path).tolist() for path in sorted((folder / "run/masks").glob("*.tif"))],
        [path.read_text() for path in sorted((folder / "run/graphs").glob("*.geojson"))],
    )


def test_a_run_that_is_interrupted_again_and_again_ends_as_one_that_is_not(city, finished_city):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    for module, function in (
        (scenes, "write_mask"),
        (prepare, "write_chips"),
        (tasks, "write_probability"),
        (graph, "trace_and_measure"),
        (graph, "write_graphs"),
        (comparisons, "draw_comparison"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, function, interrupt)
            with pytest.raises(KeyboardInterrupt):
                run(city)
    run(city)
    assert outputs(city.parent) == outputs(finished_city)


def test_a_scene_that_cannot_be_predicted_is_left_out_and_told(done, monkeypatch):
    fits = jobs.scene_to_predict

    def refuse_one(image, *values, **named):
        if image.stem == "city_0":
            raise DataError("not this one")
        return fits(image, *values, **named)

    monkeypatch.setattr(jobs, "scene_to_predict", refuse_one)
    config = load_config(done, ["compute.on_error=skip", "predict.scenes=all"])
    summary = pipeline.run(config, Workspace(config.run), say=lambda *_: None)
    assert summary.failed == {"city_0": "not this one"}
