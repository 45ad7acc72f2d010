"""Status of a run: what is done, what changed, what is missing, who works in it."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.stages import evaluate, graph, predict, split
from roadseg.commands.stages.declared_stages import declared_stage, outdated_before
from roadseg.commands.stages.pipeline import plan
from roadseg.commands.tools.status import RunStatus, StageStatus, run
from roadseg.config import load_config
from roadseg.errors import DataError, MissingInputError
from roadseg.learn.network.installed_weights import first_weights
from roadseg.learn.options import TrainOptions
from roadseg.system.locks import lock
from roadseg.system.stage_records import read_record
from roadseg.system.units import shown_in
from roadseg.system.workspace import STAGES, Workspace
from tests.configs import edited


@pytest.fixture
def look(finished):
    """Give a function that returns the status of each stage, with some settings changed."""
    workspace = finished[1]

    def status(*assignments):
        changed = load_config(workspace.root.parent / "roadseg.json", assignments)
        return {each.stage: each for each in run(changed, workspace.root).stages}

    return status


def test_a_finished_run_is_done_with_its_figures(finished):
    status = run(*with_root(finished))
    assert [each.state for each in status.stages] == ["done"] * len(STAGES)
    assert "IoU" in status.stages[5].figure
    assert str(status).endswith("nothing to do")


def test_a_run_whose_labels_are_no_longer_named_is_no_map_without_labels(finished):
    workspace = finished[1]
    config = load_config(workspace.root.parent / "roadseg.json", ["labels.roads=[]"])
    status = run(config, workspace.root)
    assert len(status.stages) == len(STAGES)
    assert "mapped without labels" not in str(status)


def test_lengths_are_told_in_the_chosen_units(finished):
    with shown_in("miles"):
        stages = run(*with_root(finished)).stages
    assert stages[0].figure.endswith(" mi of labels")
    assert stages[4].figure.endswith(" mi")


def test_labels_without_lines_have_the_share_of_their_pixels(finished):
    path = finished[1].record("prepare")
    with edited(path) as record:
        record["summary"] |= {"labels": 0, "road_km": 0, "road_share": 0.138918}
    figure = run(*with_root(finished)).stages[0].figure
    assert figure.endswith("scenes, 13.89% of the pixels are road")


def test_of_a_map_that_has_changed_the_report_is_made_again():
    stages = [StageStatus("report", "changed", "changed: edits.gpkg")]
    status = RunStatus("map", [], True, stages, options="--run map", has_labels=False)
    assert "next: roadseg report --run map\n" in str(status)
    assert "if images or settings changed: roadseg map;" in str(status)


def test_of_a_network_that_was_adapted_to_its_map_no_stage_is_advised(finished):
    finished[1].record("evaluate").unlink()
    finished[1].pseudo_labels.mkdir()
    assert "next" not in str(run(*with_root(finished)))


def with_root(finished):
    config, workspace = finished
    return config, workspace.root


@pytest.mark.parametrize("setting", ["labels.buffer_m=3", "train.epochs=3", "graph.threshold=0.4"])
def test_a_changed_setting_is_told_in_the_words_of_the_dry_run(finished, look, setting):
    config = load_config(finished[1].root.parent / "roadseg.json", (setting,))
    plans = plan(config, finished[1]).stages
    stages = look(setting)
    assert {p.stage for p in plans if p.runs} == {n for n, s in stages.items() if s.state != "done"}
    first = next(p for p in plans if p.runs)
    assert stages[first.stage].state == "changed"
    assert first.why.startswith(stages[first.stage].why)


def test_images_that_came_or_went_are_named(finished, look):
    images = finished[1].root.parent / "images"
    (images / "city_0.tif").rename(images / "city_9.tif")
    labels = images.parent / "roads" / "city_0.geojson"
    labels.rename(labels.with_name("city_9.geojson"))
    places = [f"imagery.images={images}", f"labels.roads={labels.parent}"]
    told = look(*places)["prepare"].why
    assert "image of city_0 (removed)" in told
    assert "image of city_9 (added)" in told


def test_a_missing_output_is_told_and_only_its_stage_and_the_report_run(finished, look):
    finished[1].fold_layer.unlink()
    states = {name: each.state for name, each in look().items() if each.state != "done"}
    assert states == {"split": "outputs missing", "report": "changed"}


def test_a_stage_without_record_never_ran(finished, look):
    finished[1].record("evaluate").unlink()
    assert look()["evaluate"].state == "not run"


def test_the_next_command_finds_the_same_run(finished):
    workspace = finished[1]
    workspace.record("graph").unlink()
    config = workspace.root.parent / "roadseg.json"
    options = ["--config", str(config), "--run", str(workspace.root), "--set", "labels.roads=[a b]"]
    said = CliRunner().invoke(main, ["status", *options]).stdout
    assert f"next: roadseg run {shlex.join(options)} (--dry-run" in said


@pytest.mark.parametrize(("is_held", "state"), [(True, "running"), (False, "interrupted")])
def test_a_started_stage_runs_only_while_somebody_holds_the_run(finished, is_held, state):
    config, workspace = finished
    path = workspace.record("graph")
    path.write_text(path.read_text().replace('"state": "done"', '"state": "started"'))
    if is_held:
        with lock(workspace.root):
            status = run(config, workspace.root)
    else:
        status = run(config, workspace.root)
    assert status.stages[4].state == state
    assert status.in_use == ([f"process {os.getpid()}"] if is_held else [])


def test_the_note_of_a_killed_process_does_not_count(finished):
    process = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                             capture_output=True, text=True, check=True)  # fmt: skip
    root = finished[1].root
    with lock(root):
        note = (root / ".lock-holder").read_text()
    killed = note.replace(f"process {os.getpid()}", f"process {process.stdout.strip()}")
    (root / ".lock-holder").write_text(killed)
    assert run(finished[0], root).in_use == []


def test_a_further_fold_has_a_line_of_its_own(finished):
    config, workspace = finished
    shutil.copytree(workspace.checkpoint(0), workspace.checkpoint(1))
    names = [each.stage for each in run(config, workspace.root).stages]
    assert names[2:4] == ["train", "train --fold 1"]
    root = workspace.root
    changed = load_config(root.parent / "roadseg.json", ["train.learning_rate=0.5"])
    assert "after" not in run(changed, root).stages[3].why


def test_images_that_are_gone_leave_the_other_stages_known(look):
    states = look('imagery.images=["nowhere"]')
    assert states["prepare"].state == "unknown"
    assert "nowhere" in states["prepare"].why
    assert states["train"].state == "done"


def test_without_a_config_the_records_speak_alone(finished):
    status = run(None, finished[1].root)
    assert {each.state for each in status.stages} == {"done"}
    assert "not compared" in str(status)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"not a run of roadseg, expected records"):
        run(None, tmp_path)
    with pytest.raises(MissingInputError, match="does not exist"):
        run(None, tmp_path / "nowhere")


def test_of_an_interrupted_map_it_is_told_how_to_go_on(tmp_path):
    (tmp_path / "roadseg.json").write_text("{}")
    with pytest.raises(DataError, match=r"if `roadseg map` or .* was interrupted, repeat it"):
        run(None, tmp_path)


def test_of_a_map_that_is_running_it_is_told_who_makes_it(tmp_path):
    told = f"process {os.getpid()} is using this run folder; no stage has ended yet"
    with lock(tmp_path), pytest.raises(DataError, match=told):
        run(None, tmp_path)


@pytest.mark.parametrize("weights", ["auto", "imagenet", None, "starter"])
def test_first_weights_known_without_torch_are_those_of_the_training(finished, weights):
    config, workspace = finished
    changed = config.model_copy(update={"train": TrainOptions(encoder_weights=weights)})
    made = declared_stage("train", changed, workspace).made_from.inputs
    assert made.items() >= first_weights(changed.train).items()


def test_status_writes_nothing(finished):
    config, workspace = finished
    before = sorted((path, path.stat().st_mtime_ns) for path in workspace.root.rglob("*"))
    run(config, workspace.root)
    assert sorted((p, p.stat().st_mtime_ns) for p in workspace.root.rglob("*")) == before


def test_a_training_that_began_is_not_taken_for_ended(finished):
    config, workspace = finished
    path = Workspace(workspace.root).train_record(0)
    path.write_text(path.read_text().replace('"state": "done"', '"state": "started"'))
    assert read_record(path).state == "started"
    assert run(config, workspace.root).stages[2].ended is None


@pytest.mark.parametrize(
    ("setting", "stage", "earlier"),
    [
        ("labels.buffer_m=3", "split", "prepare"),
        ("labels.buffer_m=3", "evaluate", "prepare"),
        ("split.block_m=50", "predict", "split"),
        ("predict.tta=true", "graph", "predict"),
        ("graph.threshold=0.4", "evaluate", "graph"),
    ],
)
def test_a_stage_alone_tells_which_one_before_it_is_out_of_date(finished, setting, stage, earlier):
    workspace = finished[1]
    config = load_config(workspace.root.parent / "roadseg.json", [setting])
    key = setting.partition("=")[0].removeprefix(f"{earlier}.")
    told = f"{stage} uses what {earlier} made with other settings or inputs (changed: {key} "
    assert outdated_before(stage, config, workspace).startswith(told)


def test_a_training_on_other_chips_can_only_be_repeated_by_force(finished):
    workspace = finished[1]
    config = load_config(workspace.root.parent / "roadseg.json", ["split.block_m=50"])
    split.run(config, workspace)
    assert outdated_before("predict", config, workspace).endswith(
        "(changed: what split made); `roadseg train --force` makes it again"
    )
    advice = "next: roadseg train --force --config r.json, then roadseg run --config r.json ("
    assert advice in str(run(config, workspace.root, options="--config r.json"))
    workspace.checkpoint(0).rename(workspace.checkpoint(1))
    with edited(workspace.train_record(1)) as record:
        record["settings"]["fold"] = 1
    told = outdated_before("predict", config, workspace, 1)
    assert told.endswith("`roadseg train --force --fold 1` makes it again")


@pytest.mark.parametrize(
    ("stage", "fold", "told"),
    [
        ("train --fold 1", 0, "next: roadseg run ("),  # No later stage needs that one.
        ("train --fold 1", "each", "next: roadseg train --force --fold each, then roadseg run"),
    ],
)
def test_only_trainings_that_later_stages_need_are_to_be_repeated(stage, fold, told):
    changed = StageStatus(stage, "changed", "changed: what split made")
    status = RunStatus("run", [], True, [StageStatus("train", "done"), changed], fold)
    assert told in str(status)


@pytest.mark.parametrize("stage", ["prepare", "train", "run"])
def test_a_stage_alone_tells_nothing_of_itself_and_of_later_ones(finished, stage):
    config = load_config(finished[1].root.parent / "roadseg.json", ["train.epochs=3"])
    assert outdated_before(stage, config, finished[1]) == ""


@pytest.mark.parametrize("stage", ["evaluate", "report"])
def test_a_stage_alone_tells_of_labels_that_were_drawn_anew(
    finished, finished_city, tmp_path, stage
):
    roads = tmp_path / "roads"
    shutil.copytree(finished_city / "roads", roads)
    (roads / "city_2.geojson").write_bytes((roads / "city_1.geojson").read_bytes())
    config = str(finished[1].root.parent / "roadseg.json")
    words = [stage, "--dry-run", "--config", config, "--set", f"labels.roads={roads}"]
    said = CliRunner().invoke(main, words).output
    assert f"{stage} uses what prepare made with other settings or inputs (changed: labels" in said


@pytest.mark.parametrize("stage", [predict, graph, evaluate])
def test_no_stage_takes_up_images_that_are_to_be_read_in_another_way(finished, stage):
    config = load_config(finished[1].root.parent / "roadseg.json", ["imagery.gsd_m=2"])
    fold = {"fold": 0} if stage is predict else {}
    with pytest.raises(DataError, match=r"found imagery\.gsd_m null, expected 2\.0 as in the conf"):
        stage.run(config, finished[1], **fold)
