"""`train --fold all`: the last network of a run, from all its chips, for images from elsewhere."""

import csv
import shutil
from functools import partial

import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.stages import pipeline, predict, report, train
from roadseg.errors import MissingInputError
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.roads.masks.probabilities import open_probability
from roadseg.system.stage_records import read_record
from tests.configs import changed


def columns(folder):
    with (folder / "metrics.csv").open() as file:
        return next(csv.reader(file))


@pytest.fixture(scope="module")
def all_city(tmp_path_factory, copy_city):
    """Train on all chips of a finished city; tests copy it."""
    folder = tmp_path_factory.mktemp("all") / "city"
    train.run(*copy_city(folder), fold="all")
    return folder


@pytest.fixture
def everything(all_city, copy_city, tmp_path):
    """Give config, workspace and summary of a training on all chips."""
    copied = copy_city(tmp_path / "all", all_city)
    return *copied, train.run(*copied, fold="all")


def test_without_a_trained_fold_nothing_says_for_how_long(finished):
    config, workspace = finished
    shutil.rmtree(workspace.checkpoint(0))
    for begin in (train.run, partial(pipeline.plan_stage, "train")):
        with pytest.raises(MissingInputError, match="run `roadseg train --fold 0` first"):
            begin(config, workspace, fold="all")
    assert not workspace.checkpoint("all").exists()


def test_a_fold_trained_with_other_settings_does_not_count(finished):
    config, workspace = finished
    with pytest.raises(MissingInputError, match="no fold has been trained with this config"):
        train.run(changed(config, "train", learning_rate=0.5), workspace, fold="all")


def test_all_chips_are_learned_from_for_as_long_as_the_fold_did_best(everything):
    _, workspace, summary = everything
    fold = read_checkpoint_facts(workspace.checkpoint(0), "best")
    facts = read_checkpoint_facts(workspace.checkpoint("all"), "best")
    assert (summary.training_chips, summary.validation_chips) == (5, 0)
    assert summary.epochs == facts["epoch"] == fold["epoch"]
    assert facts["threshold"] == fold["threshold"] == summary.threshold
    assert facts["from_folds"]["scores"] == {"0": fold["score"]}
    assert "(from the folds)" in str(summary)


def test_nothing_is_measured(everything):
    _, workspace, _ = everything
    folder = workspace.checkpoint("all")
    assert not [name for name in columns(folder) if name.startswith("val_")]
    assert (folder / "curves.png").exists()


def test_it_is_not_repeated_and_keeps_its_length_whatever_folds_follow(everything):
    config, workspace, summary = everything
    train.run(config, workspace, fold=1)
    assert train.run(config, workspace, fold="all") == summary
    workspace.train_record("all").unlink()
    assert train.run(config, workspace, fold="all").epochs == summary.epochs
    train.run(config, workspace, fold="all", force=True)
    found = read_checkpoint_facts(workspace.checkpoint("all"), "best")["from_folds"]
    assert found["scores"].keys() == {"0", "1"}


@pytest.mark.usefixtures("steady_pace")
def test_a_limited_time_is_that_of_a_fold(finished):
    config, workspace = finished
    limited = changed(config, "train", minutes=0.2)
    fold = train.run(limited, workspace, fold=0, force=True)
    whole = train.run(limited, workspace, fold="all")
    of_fold, of_all = (read_checkpoint_facts(workspace.checkpoint(n), "last") for n in (0, "all"))
    assert whole.epochs == fold.epochs
    assert 0.9 * 12 < whole.seconds <= 12
    assert of_all["windows_per_chip"] == pytest.approx(of_fold["windows_per_chip"] * 4 / 5)
    workspace.train_record("all").unlink()
    assert train.run(limited, workspace, fold="all").epochs == whole.epochs


def test_its_card_says_that_nothing_was_held_out_and_what_folds_reached(everything):
    _, workspace, _ = everything
    folder = workspace.checkpoint("all")
    text = (folder / "model_card.md").read_text()
    for words in ("none held out", "It was trained on all chips", "- fold 0: loss", "--fold all"):
        assert words in text


def test_the_page_of_the_run_shows_its_training(everything):
    config, workspace, _ = everything
    report.run(config, workspace, force=True)
    assert '"name":"checkpoints/all"' in workspace.report.read_text().replace(" ", "")


def roadseg(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def test_images_are_predicted_with_it_unless_another_network_is_named(
    everything, make_scene, tmp_path
):
    config, _, _ = everything
    image, _ = make_scene(tmp_path, "new")
    found = {}
    for name, words in {"usual": [], "fold": ["--fold", 0]}.items():
        where = ["--config", config.run.parent / "roadseg.json", "--output", tmp_path / name]
        done = roadseg("predict", *where, *words, image)
        assert done.exit_code == 0, done.output
        found[name] = open_probability(tmp_path / name / "new.tif").model
    assert found["usual"].startswith("fold all")
    assert found["fold"].startswith("fold 0")


def test_images_are_predicted_with_fold_0_where_it_is_missing(finished):
    _, workspace = finished
    assert predict.default_checkpoints(workspace, None) == [workspace.checkpoint(0)]
    with pytest.raises(MissingInputError, match=r"train --fold 3.* or use .* --checkpoint"):
        predict.default_checkpoints(workspace, 3)


def test_an_unfinished_network_of_all_chips_is_left_alone(everything, monkeypatch):
    _, workspace, _ = everything
    assert predict.default_checkpoints(workspace, None) == [workspace.checkpoint("all")]
    done = read_record(workspace.train_record("all"))
    begun = done.model_copy(update={"state": "started"})
    monkeypatch.setattr(predict, "read_record", lambda _: begun)
    assert predict.default_checkpoints(workspace, None) == [workspace.checkpoint(0)]


@pytest.mark.parametrize("command", ["predict", "run", "quantize"])
def test_it_cannot_be_measured_on_what_it_has_learned(finished, command):
    done = roadseg(command, "--fold", "all", "--config", finished[0].run.parent / "roadseg.json")
    assert done.exit_code == 2
    assert (
        command != "predict" or "--fold all: this network was trained on all chips" in done.output
    )


@pytest.mark.parametrize("fold", ["-1", "some", "1.5", "every"])
def test_another_word_is_no_fold(finished, fold):
    config = finished[0].run.parent / "roadseg.json"
    done = roadseg("train", f"--fold={fold}", "--config", config)
    assert done.exit_code == 2
    assert f"expected the number of a fold or each or all, got '{fold}'" in done.output
