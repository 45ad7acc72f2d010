"""Scenes with chips of several folds: put together, each chip of the network that held it out."""

import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from roadseg.commands.stages import evaluate, graph, out_of_fold, pipeline, predict, train
from roadseg.config import load_config
from roadseg.dataset.chips import read_chips
from roadseg.errors import DataError
from roadseg.learn.network.checkpoint_facts import checkpoint_path
from roadseg.roads.masks.mask_files import read_mask, read_raster_key
from roadseg.roads.masks.probabilities import open_probability
from roadseg.system.workspace import Workspace
from tests.configs import changed
from tests.drawing import read_probability

SETTINGS = {
    "imagery": {"images": ["images"], "chip_px": 32},
    "split": {"folds": 2, "method": "random"},
}


@pytest.fixture(scope="module")
def cut(tmp_path_factory, write_city):
    """Train on two folds of a city whose scenes are cut into four chips; give its config."""
    config = write_city(tmp_path_factory.mktemp("cut"))
    settings = json.loads(config.read_text()) | SETTINGS
    settings["train"]["epochs"] = 1
    settings["predict"]["mask"] = True
    config.write_text(json.dumps(settings))
    loaded = load_config(config)
    pipeline.prepare(loaded, Workspace(loaded.run))
    train.run(loaded, Workspace(loaded.run), fold="each")
    return loaded


@pytest.fixture
def alone(cut):
    """Return the probabilities of all scenes by the network of each fold alone."""
    workspace = Workspace(cut.run)
    every = changed(cut, "predict", scenes="all")
    found = {}
    for fold in (0, 1):
        for scene in predict.run(every, workspace, fold=fold, force=True).scenes:
            found[fold, scene] = read_probability(workspace.probability(scene))
    return found


def folds_of(workspace):
    """Give scene, window and fold of each chip."""
    folds = json.loads(workspace.folds.read_text())
    for chip in read_chips(workspace.chips).chips:
        row, col, height, width = chip.window
        yield chip.scene, (slice(row, row + height), slice(col, col + width)), folds[chip.name]


def test_each_chip_is_of_the_network_that_held_it_out(cut, alone):
    workspace = Workspace(cut.run)
    summary = predict.run(cut, workspace, fold="each")
    assert len(summary.scenes) == 5
    whole = {scene: read_probability(workspace.probability(scene)) for scene in summary.scenes}
    assert len({fold for scene, _, fold in folds_of(workspace) if scene == "city_0"}) == 2
    for scene, window, fold in folds_of(workspace):
        own, other = alone[fold, scene], alone[1 - fold, scene]
        np.testing.assert_array_equal(whole[scene].road[window], own.road[window])
        np.testing.assert_array_equal(whole[scene].bins[:, *window], own.bins[:, *window])
        assert (own.road[window] != other.road[window]).any()


def test_a_scene_has_the_mean_of_the_thresholds_and_names_both_networks(cut, alone):
    workspace = Workspace(cut.run)
    predict.run(cut, workspace, fold="each")
    found = open_probability(workspace.probability("city_0"))
    thresholds = [alone[fold, "city_0"].threshold for fold in (0, 1)]
    assert found.threshold == pytest.approx(np.mean(thresholds), abs=1e-4)
    assert found.model == "fold 0,1 epoch 1,1"
    mask = read_mask(workspace.probabilities / "road_masks/city_0.tif")
    road = read_probability(workspace.probability("city_0")).road
    np.testing.assert_array_equal((mask > 0) & (mask < 255), road >= found.threshold * 255)


def test_the_parts_are_removed_and_what_is_there_is_not_made_again(cut):
    workspace = Workspace(cut.run)
    predict.run(cut, workspace, fold="each", force=True)
    assert not list(workspace.probabilities.glob("fold-*"))
    before = {path: path.stat().st_mtime_ns for path in workspace.probabilities.glob("*.tif")}
    workspace.record("predict").unlink()
    predict.run(cut, workspace, fold="each", shard=(1, 2))
    predict.run(cut, workspace, fold="each")
    assert before == {p: p.stat().st_mtime_ns for p in workspace.probabilities.glob("*.tif")}


def test_an_interrupted_prediction_goes_on_with_the_parts_that_are_there(cut, monkeypatch):
    workspace = Workspace(cut.run)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(out_of_fold.OutOfFold, "_rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            predict.run(cut, workspace, fold="each", force=True)
    parts = sorted(workspace.probabilities.glob("fold-*/*.tif"))
    assert len(parts) == 10
    workspace.probability("city_0").unlink()
    predicted = []
    run_job = out_of_fold.OutOfFold._run_job  # noqa: SLF001

    def noted(self, job, images, **named):
        predicted.append(sorted(images))
        return run_job(self, job, images, **named)

    monkeypatch.setattr(out_of_fold.OutOfFold, "_run_job", noted)
    summary = predict.run(cut, workspace, fold="each")
    assert predicted == [["city_0"], ["city_0"]]
    assert len(summary.scenes) == 5


def test_a_scene_is_put_together_again_with_another_network(cut, tmp_path):
    moved = cut.model_copy(update={"run": shutil.copytree(cut.run, tmp_path / "run")})
    workspace = Workspace(moved.run)
    predict.run(moved, workspace, fold="each")
    before = read_raster_key(workspace.probability("city_0"))
    path = checkpoint_path(workspace.checkpoint(1), "best")
    with safe_open(path, "pt") as file:
        facts = file.metadata()
    tensors = load_file(path)
    other = next(name for name in tensors if name.endswith("weight"))
    save_file(tensors | {other: -tensors[other]}, path, metadata=facts)
    workspace.record("predict").unlink()
    predict.run(moved, workspace, fold="each")
    assert read_raster_key(workspace.probability("city_0")) != before


def test_a_dry_run_says_what_each_network_reads_and_writes(cut):
    workspace = Workspace(cut.run)
    predict.run(cut, workspace, fold="each")
    workspace.probability("city_1").unlink()
    planned = pipeline.plan_stage("predict", cut, workspace, fold="each")
    assert planned.runs
    assert str(workspace.probability("city_1")) in planned.writes
    assert not any("city_0" in path for path in planned.writes)


def test_a_scene_that_fails_is_left_out_of_all_its_parts(cut, monkeypatch):
    workspace = Workspace(cut.run)
    skipping = changed(cut, "compute", on_error="skip")
    fits = out_of_fold.PredictionJob.describe

    def refuse_one(self, images):
        if "city_0" in images:
            self.failed["city_0"] = "not this one"
        return fits(self, {name: path for name, path in images.items() if name != "city_0"})

    monkeypatch.setattr(out_of_fold.PredictionJob, "describe", refuse_one)
    summary = predict.run(skipping, workspace, fold="each", force=True)
    assert summary.failed == {"city_0": "not this one"}
    assert summary.scenes == ["city_1", "city_2", "city_3", "city_4"]


def test_all_chips_are_measured(cut):
    workspace = Workspace(cut.run)
    predict.run(cut, workspace, fold="each")
    graph.run(cut, workspace)
    summary = evaluate.run(cut, workspace)
    assert summary.chips == 20
    assert [of["chips"] for of in summary.by_fold.values()] == [10, 10]


def test_chips_of_another_size_than_the_raster_are_refused(cut):
    workspace = Workspace(cut.run)
    cut_otherwise = changed(cut, "imagery", chip_px=20)
    with pytest.raises(DataError, match=r"64 x 64 pixels\) .* run `roadseg prepare --force`"):
        predict.run(cut_otherwise, workspace, fold="each", force=True)
