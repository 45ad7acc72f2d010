import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import rasterio
from safetensors.torch import load_file

from roadseg.commands.stages import pipeline, predict, train
from roadseg.commands.stages.declared_stages import declared_stage
from roadseg.commands.stages.training_jobs import seen_sizes, training_job
from roadseg.config import load_config
from roadseg.errors import ConfigError, DataError
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.learn.options import LossOptions
from roadseg.learn.training.history import read_last
from roadseg.system.records import key_of
from roadseg.system.workspace import Workspace
from tests.configs import changed, edited


def _stop_after_two(_folder, history):
    if len(history) == 2:
        raise KeyboardInterrupt


def test_a_checkpoint_says_all_that_prediction_needs(finished):
    _, workspace = finished
    facts = json.loads((workspace.checkpoint(0) / "best.json").read_text())
    wanted = {"bands": [1, 2, 3], "gsd_m": 1.0, "resample_m": None, "nodata": None}
    wanted |= {"bin_edges": [10, 20, 30, 40, 50, 60], "bin_unit": "mph", "classes": 8}
    wanted |= {"labels_have_speeds": True}
    assert {key: facts[key] for key in wanted} == wanted | {"gsd_m": pytest.approx(1, abs=0.01)}
    assert {"architecture", "encoder", "scaling", "epoch"} <= facts.keys()


def test_weights_are_tensors_only_and_json_lies_beside_them(finished):
    folder = finished[1].checkpoint(0)
    assert all(name.startswith("model.") for name in load_file(folder / "best.safetensors"))
    assert (folder / "last.json").exists()


def test_a_training_of_a_version_without_an_option_holds_while_it_has_its_default(finished):
    config, workspace = finished
    path = workspace.train_record(0)
    with edited(path) as values:
        del values["settings"]["loss"]["focal"]
        values["key"] = key_of(values["settings"], values["inputs"])
    assert declared_stage("train", config, workspace).reason() is None
    other = changed(config, "train", loss=LossOptions(focal=0.7))
    assert "loss.focal" in declared_stage("train", other, workspace).reason().text


@pytest.mark.usefixtures("steady_pace")
def test_a_training_with_a_limit_of_time_is_planned_and_goes_on_with_its_plan(finished, caplog):
    config, workspace = finished
    limited = changed(config, "train", minutes=0.2)
    with caplog.at_level("INFO"):
        summary = train.run(limited, workspace, fold=0, force=True)
    assert 2 <= summary.epochs <= 4
    assert 0.9 * 12 < summary.seconds <= 12
    assert "4 epochs share 0.2 min (train.minutes)" in caplog.messages
    last = read_checkpoint_facts(workspace.checkpoint(0), "last")
    assert (last["minutes"], last["epochs"]) == (0.2, 4)
    workspace.train_record(0).unlink()
    assert train.run(limited, workspace, fold=0).epochs == summary.epochs


def test_what_a_limited_training_takes_does_not_follow_from_the_epochs_of_an_earlier_one(finished):
    config, workspace = finished
    limited = changed(config, "train", minutes=1, epochs=500)
    planned = pipeline.plan_stage("train", limited, workspace, force=True)
    assert planned.seconds == 60


@pytest.mark.usefixtures("steady_pace")
def test_a_limited_training_that_goes_on_has_the_rest_of_its_time(finished, monkeypatch):
    config, workspace = finished
    limited = changed(config, "train", minutes=0.2)
    monkeypatch.setattr(train, "_draw_curves", _stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        train.run(limited, workspace, fold=0, force=True)
    rows = read_checkpoint_facts(workspace.checkpoint(0), "last")["history"]
    planned = pipeline.plan_stage("train", limited, workspace)
    assert planned.seconds == pytest.approx(12 - sum(row["seconds"] for row in rows))
    assert "1 of 4 epochs are done" in planned.why


@pytest.mark.usefixtures("steady_pace")
def test_a_training_goes_on_with_more_minutes_but_not_with_fewer(finished):
    config, workspace = finished
    begun = train.run(changed(config, "train", minutes=0.2), workspace, fold=0, force=True)
    before = (workspace.checkpoint(0) / "metrics.csv").read_text()
    summary = train.run(changed(config, "train", minutes=0.4), workspace, fold=0)
    assert begun.seconds <= 12 < 0.9 * 24 < summary.seconds <= 24
    assert read_checkpoint_facts(workspace.checkpoint(0), "last")["epochs"] == 2 * 4
    assert (workspace.checkpoint(0) / "metrics.csv").read_text().startswith(before)
    with pytest.raises(ConfigError, match=r"started with train.minutes 0.4 \(now 0.3\)"):
        train.run(changed(config, "train", minutes=0.3), workspace, fold=0)


@pytest.mark.parametrize(
    ("settings", "force", "told"),
    [
        ({"learning_rate": 0.1}, False, "was started with learning_rate .* --force"),
        ({"batch_size": 99}, True, "batch_size: expected at most"),
    ],
)
def test_a_training_that_cannot_be_is_refused_and_the_finished_one_kept(
    finished, settings, force, told
):
    config, workspace = finished
    with pytest.raises(ConfigError, match=told):
        train.run(changed(config, "train", **settings), workspace, fold=0, force=force)
    assert train.run(config, workspace, fold=0).epochs == 2


def test_other_data_is_refused_in_a_few_words(finished):
    folder = finished[1].checkpoint(0)
    facts = read_checkpoint_facts(folder, "last")
    own = ("batch_size", "training_chips", "prepared_data", "resample_m", "labels_have_speeds")
    known = {key: facts[key] for key in own}
    others = {**known, "training_chips": "another", "prepared_data": "another", "batch_size": 3}
    others |= {"resample_m": 0.8, "labels_have_speeds": "another"}
    with pytest.raises(ConfigError) as refused:
        read_last(folder, others)
    assert str(refused.value).partition("was started with ")[2] == (
        "other images, labels or folds, or other settings of these, batch_size 2 (now 3); restore "
        "these to resume it, or retrain with --force"
    )


def test_force_trains_anew(finished):
    config, workspace = finished
    options = {"epochs": 1, "learning_rate": 0.01}
    assert train.run(changed(config, "train", **options), workspace, fold=0, force=True).epochs == 1


def test_pixels_of_another_size_than_those_of_the_masks_are_refused(finished):
    config, workspace = finished
    with edited(workspace.chips) as content:
        content["scenes"][0]["gsd_m"] = [2.0, 2.0]
    told = r"\.tif: found pixels of .* m, expected 2 m as in its mask; run `roadseg prepare` again"
    with pytest.raises(DataError, match=told):
        train.run(config, workspace, fold=1)


@pytest.mark.parametrize("fold", [0, 1])
def test_images_are_read_as_they_were_for_their_masks_also_if_a_training_is_done(finished, fold):
    config, workspace = finished
    config = changed(config, "imagery", gsd_m=2.0)
    told = (
        r"prepare\.json: found imagery\.gsd_m null, expected 2\.0 as in the config; run `roadseg "
        "prepare` again, or set it as it was"
    )
    for do in (train.run, partial(pipeline.plan_stage, "train")):
        with pytest.raises(DataError, match=told):
            do(config, workspace, fold=fold)


def test_a_fold_that_holds_all_chips_is_refused(finished):
    config, workspace = finished
    folds = json.loads(workspace.folds.read_text())
    workspace.folds.write_text(json.dumps(dict.fromkeys(folds, 1)))
    with pytest.raises(ConfigError, match=r"--fold 1 contains all 5 chips"):
        train.run(config, workspace, fold=1)


def leave_roads_only_on(workspace, names):
    """Let only some chips have roads, as if the others had been labelled without any."""
    with edited(workspace.chips) as listed:
        for chip in listed["chips"]:
            chip["road_share"] *= chip["name"] in names


def test_chips_to_train_on_without_a_road_are_refused(finished):
    config, workspace = finished
    folds = json.loads(workspace.folds.read_text())
    leave_roads_only_on(workspace, [name for name, fold in folds.items() if fold == 1])
    with pytest.raises(DataError, match=r"--fold 1: none of the 4 training chips has a road"):
        train.run(config, workspace, fold=1)


def test_chips_held_out_without_a_road_are_warned_of(finished, caplog):
    config, workspace = finished
    folds = json.loads(workspace.folds.read_text())
    leave_roads_only_on(workspace, [name for name, fold in folds.items() if fold != 1])
    train.run(config, workspace, fold=1)
    assert "fold 1: none of the 1 held-out chips has a road" in caplog.text


def test_bands_that_the_config_names_are_kept_by_name(finished, finished_city, tmp_path):
    config, workspace = finished
    images = shutil.copytree(finished_city / "images", tmp_path / "named")
    for path in images.iterdir():
        with rasterio.open(path, "r+") as target:
            target.descriptions = ("red", "green", "blue")
    with edited(workspace.chips) as listed:
        for scene in listed["scenes"]:
            scene["image"] = str(images / Path(scene["image"]).name)
    names = ("red", "green", "blue")
    with edited(workspace.record("prepare")) as prepared:
        prepared["settings"]["imagery"] |= {"bands": names, "nodata": 7.0}
    train.run(changed(config, "imagery", bands=names, nodata=7.0), workspace, fold=1)
    facts = json.loads((workspace.checkpoint(1) / "best.json").read_text())
    assert (facts["bands"], facts["nodata"], facts["in_channels"]) == (list(names), 7.0, 3)


def test_eight_bands_of_16_bits_are_learned_and_predicted(city, make_scene):
    for number in range(5):
        place = {"origin": (660000.0 + 200 * number, 4000000.0)}
        make_scene(city.parent, f"city_{number}", bands=8, dtype="uint16", **place)
    config = load_config(city, ["train.epochs=1"])
    workspace = Workspace(config.run)
    pipeline.prepare(config, workspace)
    train.run(config, workspace, fold=0)
    facts = read_checkpoint_facts(workspace.checkpoint(0), "best")
    assert (facts["in_channels"], facts["bands"]) == (8, [1, 2, 3, 4, 5, 6, 7, 8])
    assert len(predict.run(config, workspace, fold=0).scenes) == 1


@pytest.mark.usefixtures("steady_pace")
def test_what_an_earlier_plan_left_in_the_config_does_not_limit_the_validation(finished):
    config, workspace = finished
    limited = changed(config, "train", minutes=0.2, validation_windows=1)
    train.run(limited, workspace, fold=0, force=True)
    facts = read_checkpoint_facts(workspace.checkpoint(0), "last")
    assert facts["validation_windows"] is None


@pytest.mark.parametrize(
    ("validation_windows", "on"), [(1, "on 1 window of held-out chips ("), (None, "on held-out")]
)
def test_the_figures_of_a_sample_of_windows_say_so(finished, validation_windows, on):
    config, workspace = finished
    sampled = changed(config, "train", validation_windows=validation_windows)
    summary = train.run(sampled, workspace, fold=0, force=True)
    assert f"; {on}" in str(summary)


@pytest.mark.parametrize(
    ("sources", "shares", "have_speeds"),
    [
        ({"default": 7}, {"20 to 30 mph": 0.1}, False),
        ({"default": 7, "maxspeed": 1}, {"20 to 30 mph": 0.1}, True),
        ({}, {"20 to 30 mph": 0.1, "30 to 40 mph": 0.0}, False),  # masks of roads alone
        ({}, {"20 to 30 mph": 0.1, "30 to 40 mph": 0.1}, True),  # masks with speeds
    ],
)
def test_a_checkpoint_says_whether_its_labels_had_speeds(finished, sources, shares, have_speeds):
    config, workspace = finished
    path = workspace.record("prepare")
    with edited(path) as record:
        record["summary"] |= {"roads_by_speed_source": sources, "pixel_share_by_speed_bin": shares}
    assert training_job(config, workspace, 1).facts["labels_have_speeds"] == have_speeds


@pytest.mark.parametrize(
    ("init", "sizes_m", "seen_m"),
    [
        (starter_folder(), [0.7, 0.9], {"pixel_sizes_m": [0.7, 1.0]}),
        (starter_folder(), [0.6, 1.15], {"pixel_sizes_m": [0.7, 1.0]}),
        (starter_folder(), [0.5, 0.9], {}),
        (starter_folder(), [0.7, 1.3], {}),
        (None, [0.7], {}),
    ],
)
def test_pixel_sizes_are_those_of_the_network_before_if_it_learns_between_them(
    init, sizes_m, seen_m
):
    assert seen_sizes(init, sizes_m) == seen_m


def test_each_iou_of_a_training_has_its_threshold():
    summary = train.TrainSummary(0, 9, 3, 4, 1, 0.27, 0.536, 0.698, 58, "fold-0", {}, 0.577, 0.1)
    figures = "IoU 0.536, F1 0.698, both at threshold 0.5; IoU 0.577 at the best one, 0.1;"
    assert figures in str(summary)
