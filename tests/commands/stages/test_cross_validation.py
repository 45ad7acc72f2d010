"""`--fold each`: a network for every fold, and each chip by the one that has not learned it."""

import json
import re
import shutil
import statistics

import pytest
from click.testing import CliRunner
from safetensors.torch import load_file

import roadseg
from roadseg.commands.cli.main import main
from roadseg.commands.stages import evaluate, graph, pipeline, predict, split, train
from roadseg.commands.tools import status
from roadseg.config import load_config
from roadseg.errors import DataError, MissingInputError
from roadseg.roads.masks.probabilities import open_probability
from roadseg.system import progress
from roadseg.system.locks import lock
from roadseg.system.stage_records import read_record
from roadseg.system.workspace import Workspace
from tests.configs import changed

FOLDS = range(5)


@pytest.fixture(scope="module")
def each_city(tmp_path_factory, copy_city):
    """Run all stages with each fold held out, after a run with fold 0; tests copy it."""
    folder = tmp_path_factory.mktemp("each") / "city"
    pipeline.run(*copy_city(folder), fold="each", say=lambda *_: None)
    return folder


@pytest.fixture
def each(each_city, copy_city, tmp_path):
    """Give config and workspace of a run with each fold held out."""
    return copy_city(tmp_path / "each", each_city)


def folds_of(workspace):
    return json.loads(workspace.folds.read_text())


def shown_on(page):
    """Return the data of a report."""
    found = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(found[1])


def roadseg_command(config, *words):
    return CliRunner().invoke(main, [*words, "--config", str(config.run.parent / "roadseg.json")])


class TestTraining:
    def test_every_fold_is_trained_and_the_mean_is_that_of_all(self, each):
        summary = train.run(*each, fold="each")
        assert [fold.fold for fold in summary.folds] == list(FOLDS)
        found = [fold.val_iou for fold in summary.folds]
        assert summary.val_iou.mean == pytest.approx(statistics.fmean(found))
        assert summary.val_iou.std == pytest.approx(statistics.stdev(found))
        assert str(summary).splitlines()[-1].startswith(f"all 5 folds: IoU {summary.val_iou}")

    def test_a_fold_is_trained_as_if_it_were_alone(self, each, finished):
        train.run(*finished, fold=1)
        weights = [
            load_file(of.checkpoint(1) / "best.safetensors") for of in (each[1], finished[1])
        ]
        assert weights[0].keys() == weights[1].keys()
        assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])

    def test_trained_folds_are_skipped_and_an_interrupted_one_goes_on(self, each, monkeypatch):
        config, workspace = each
        interrupt(workspace, 3)
        begun = []
        learn = train.train

        def noted(job, folder, **named):
            begun.append(folder.name)
            return learn(job, folder, **named)

        monkeypatch.setattr(train, "train", noted)
        before = read_record(workspace.train_record(2))
        summary = train.run(config, workspace, fold="each")
        assert begun == ["fold-3"]
        assert summary.folds[3].epochs == config.train.epochs
        assert read_record(workspace.train_record(2)) == before

    def test_the_share_of_all_folds_that_is_done_is_shown(self, each):
        config, workspace = each
        shutil.rmtree(workspace.checkpoint(4))
        lines = []
        with progress.shown_by(lines.append):
            progress.REDRAWN_S, before = 0.0, progress.REDRAWN_S
            train.run(config, workspace, fold="each")
            progress.REDRAWN_S = before
        of_all = [line for line in lines if line.startswith("cross-validation: 4 of 5 folds")]
        assert any("epoch" in line and "left" in line for line in of_all)
        assert lines[-1].startswith("cross-validation: 5 of 5 folds")

    def test_it_goes_on_alone_in_its_run_folder(self, each):
        with lock(each[1].root, part="fold-3"):
            done = roadseg_command(each[0], "train", "--fold", "each")
        assert done.exit_code == 3
        assert "is using this run folder" in done.output
        assert roadseg_command(each[0], "train", "--fold", "each").exit_code == 0

    def test_force_trains_all_anew(self, each):
        config, workspace = each
        before = [workspace.train_record(fold).stat().st_mtime_ns for fold in FOLDS]
        train.run(config, workspace, fold="each", force=True)
        after = [workspace.train_record(fold).stat().st_mtime_ns for fold in FOLDS]
        assert all(new > old for old, new in zip(before, after, strict=True))

    def test_a_dry_run_plans_each_fold(self, each):
        config, workspace = each
        for fold in (1, 2):
            shutil.rmtree(workspace.checkpoint(fold))
        plans = pipeline.plan_stage("train", config, workspace, fold="each").stages
        assert [plan.stage for plan in plans] == [f"train --fold {fold}" for fold in FOLDS]
        assert [plan.runs for plan in plans] == [False, True, True, False, False]


def interrupt(workspace, fold):
    """Leave a training as if it had been stopped after its last epoch but before its end."""
    workspace.train_record(fold).unlink()


class TestPrediction:
    def test_each_scene_is_of_the_network_that_held_it_out(self, each):
        _, workspace = each
        folds = folds_of(workspace)
        assert sorted(folds.values()) == list(FOLDS)
        for scene, fold in folds.items():
            assert open_probability(workspace.probability(scene)).model.startswith(f"fold {fold} ")

    def test_it_is_what_predict_does_once_every_fold_is_trained(self, each):
        config, workspace = each
        assert predict.default_fold(config, workspace) == "each"
        shutil.rmtree(workspace.checkpoint(1))
        assert predict.default_fold(config, workspace) == 0

    def test_without_a_network_of_each_fold_it_says_how_to_train_it(self, finished):
        with pytest.raises(MissingInputError, match=r"fold-1.*run `roadseg train --fold each`"):
            predict.run(*finished, fold="each")

    def test_a_network_of_folds_dealt_before_is_refused(self, each):
        config, workspace = each
        dealt = changed(config, "split", method="random")
        split.run(dealt, workspace)
        with pytest.raises(DataError, match=r"fold-0.*may have seen .* --fold 0 --force"):
            predict.run(dealt, workspace, fold="each")
        assert predict.default_fold(dealt, workspace) == 0

    def test_images_from_elsewhere_are_averaged_over_all_networks(self, each, make_scene, tmp_path):
        image, _ = make_scene(tmp_path, "new")
        words = ("predict", "--fold", "each", "--output", str(tmp_path / "out"), str(image))
        done = roadseg_command(each[0], *words)
        assert done.exit_code == 0, done.output
        model = open_probability(tmp_path / "out/new.tif").model
        assert model.startswith("fold 0,1,2,3,4 ")


class TestEvaluation:
    def test_all_chips_are_measured_with_their_spread_over_folds(self, each):
        config, workspace = each
        summary = evaluate.run(config, workspace)
        assert (summary.fold, summary.chips) == ("each", 5)
        assert list(summary.by_fold) == ["0", "1", "2", "3", "4"]
        found = [of["iou"] for of in summary.by_fold.values()]
        assert summary.spread["iou"].mean == pytest.approx(statistics.fmean(found))
        assert summary.spread["iou"].std == pytest.approx(statistics.stdev(found))
        lines = str(summary).splitlines()
        assert lines[0].endswith("5 (5 folds, each with its own network)")
        assert f"over folds {summary.spread['iou']}" in lines[2]
        assert lines[-1].startswith("fold 4 ")

    def test_a_fold_has_the_figures_of_its_network_alone(self, each):
        config, workspace = each
        of_fold = evaluate.run(config, workspace).by_fold["3"]
        for stage in (predict, graph, evaluate):
            named = {"fold": 3} if stage is predict else {}
            alone = stage.run(config, workspace, force=True, **named)
        assert (alone.iou, alone.threshold) == (of_fold["iou"], of_fold["threshold"])
        assert alone.spread == alone.by_fold == {}

    def test_the_card_of_each_network_has_the_figures_of_its_fold(self, each):
        _, workspace = each
        by_fold = read_record(workspace.record("evaluate")).summary["by_fold"]
        for fold in FOLDS:
            card = (workspace.checkpoint(fold) / "model_card.md").read_text()
            assert f"| pixel IoU | {by_fold[str(fold)]['iou']:.3f} |" in card

    def test_the_page_shows_every_scene_as_held_out(self, each):
        _, workspace = each
        shown = shown_on(workspace.report)
        measured = {shown["scene_of"].get(chip, chip) for chip, *_ in shown["scores"]["rows"]}
        assert measured == {f"city_{number}" for number in range(5)}
        assert shown["summaries"]["evaluate"]["spread"].keys() >= {"iou", "apls_length", "quality"}
        trainings = [read_record(workspace.train_record(fold)).seconds for fold in FOLDS]
        assert shown["seconds"]["train"] == pytest.approx(sum(trainings))


class TestRun:
    def test_a_second_run_does_nothing(self, each):
        config, workspace = each
        before = {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*.json")}
        pipeline.run(config, workspace, fold="each", say=lambda *_: None)
        assert before == {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*.json")}
        assert str(pipeline.plan(config, workspace, fold="each")).endswith("nothing to do")

    def test_a_dry_run_lists_the_folds_before_anything_is_made(self, city):
        config = load_config(city)
        plans = pipeline.plan(config, Workspace(config.run), fold="each").stages
        assert [plan.stage for plan in plans][2:8] == [
            *(f"train --fold {fold}" for fold in FOLDS),
            "predict",
        ]
        assert all(plan.runs for plan in plans)

    def test_the_status_names_the_folds_and_the_command(self, each):
        config, workspace = each
        done = status.run(config, workspace.root)
        assert [one.state for one in done.stages] == ["done"] * 11
        longer = load_config(config.run.parent / "roadseg.json", ["train.epochs=3"])
        begun = status.run(longer, workspace.root)
        assert "next: roadseg run --fold each" in str(begun)
        predicted = next(one for one in begun.stages if one.stage == "predict")
        assert predicted.why == "after train --fold 4"

    def test_one_fold_is_mapped_again_where_it_is_asked_for(self, each):
        config, workspace = each
        summary = pipeline.run(config, workspace, fold=0, say=lambda *_: None)
        assert summary.stages["evaluate"].fold == 0
        assert summary.stages["evaluate"].chips == 1


def test_python_trains_every_fold(each):
    assert len(roadseg.cross_validate(each[0]).folds) == 5
