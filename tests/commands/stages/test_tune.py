import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.stages import evaluate, graph, pipeline, tune
from roadseg.config import load_config
from roadseg.dataset.held_out import Predicted
from roadseg.errors import DataError, MissingInputError
from roadseg.raster.images import read_facts
from roadseg.raster.windows import Rows
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import write_probability
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.stage_records import MadeFrom, Stage
from roadseg.system.workspace import Workspace

SCENES = [f"city_{number}" for number in range(5)]
FAINT = 0.3  # probability of roads, below the threshold that is given


def predict(workspace, scene, *, road=FAINT):
    """Write the mask of a scene as a prediction that is not very certain."""
    mask = read_mask(workspace.mask(scene))
    bands = [*(mask == number for number in range(1, 8)), mask > 0]
    values = np.where(np.stack(bands), np.float32(road), np.float32(0.05))
    path, grid = workspace.probability(scene), read_facts(workspace.mask(scene)).grid
    path.unlink(missing_ok=True)
    rows = [Rows(0, values, mask < 255)]
    write_probability(path, rows, grid, bins=DEFAULT_BINS, key=str(road), tags={})


def deal(workspace, held_out):
    """Put the chips of some scenes into fold 0, and all others into fold 1."""
    folds = json.loads(workspace.folds.read_text())
    dealt = {chip: int(chip not in held_out) for chip in folds}
    workspace.folds.write_text(json.dumps(dealt))


def say_predicted(workspace, scenes):
    inputs = dict.fromkeys(scenes, "")
    record = Stage(workspace.record("predict"), lambda: MadeFrom({}, inputs))
    record.finish(Predicted(scenes, fold=0), [])


@pytest.fixture(scope="session")
def predicted_city(tmp_path_factory, write_city):
    """Prepare a tiny city, all of it held out, and write faint predictions; give its folder."""
    config_path = write_city(tmp_path_factory.mktemp("predicted"))
    config = load_config(config_path)
    workspace = Workspace(config.run)
    pipeline.prepare(config, workspace)
    deal(workspace, SCENES)
    for scene in SCENES:
        predict(workspace, scene)
    say_predicted(workspace, SCENES)
    return config_path.parent


def of_run(city, run, *changes):
    """Return config and workspace of a run in another folder than its city."""
    settings = ["tune.trials=4", 'graph.formats=["gpkg"]', f"run={run}", *changes]
    return load_config(city / "roadseg.json", settings), Workspace(run)


@pytest.fixture
def predicted(predicted_city, tmp_path):
    """Return config and workspace of a copy of the run."""
    shutil.copytree(predicted_city / "run", tmp_path / "run")
    return of_run(predicted_city, tmp_path / "run")


@pytest.fixture(scope="session")
def tuned(predicted_city, tmp_path_factory):
    """Tune a copy once; give config, workspace and summary to tests that change nothing."""
    run = tmp_path_factory.mktemp("tuned") / "run"
    shutil.copytree(predicted_city / "run", run)
    config, workspace = of_run(predicted_city, run)
    return config, workspace, tune.run(config, workspace)


def test_a_threshold_that_shows_the_roads_is_found(tuned):
    _, _, summary = tuned
    assert (summary.before, summary.chips, summary.is_better) == (0, 5, True)
    assert summary.after > 0.9
    assert summary.settings["threshold"] <= FAINT


def test_the_config_written_is_that_of_the_run_with_what_was_found(tuned):
    config, workspace, summary = tuned
    found = config.graph.model_copy(update=summary.settings)
    assert load_config(workspace.root / "tuned.json") == config.model_copy(update={"graph": found})


def test_the_score_is_the_one_that_evaluate_measures(tuned):
    _, workspace, summary = tuned
    config = load_config(workspace.root / "tuned.json", ["evaluate.pictures=0"])
    graph.run(config, workspace)
    assert evaluate.run(config, workspace).apls_length == pytest.approx(summary.after, abs=1e-3)


@pytest.mark.parametrize("goal", ["topo", "quality", "breaks"])
def test_settings_are_found_by_other_goals(predicted_city, predicted, goal):
    config, workspace = of_run(predicted_city, predicted[1].root, f"tune.goal={goal}")
    summary = tune.run(config, workspace)
    assert (summary.goal, summary.is_better) == (goal, True)
    assert summary.after == max(trial[goal] for trial in summary.tried) > 0.8


def test_settings_stay_when_the_gain_may_be_chance(predicted):
    config, workspace = predicted
    deal(workspace, SCENES[:1])
    summary = tune.run(config, workspace)
    assert (summary.margin, summary.is_better) == (None, False)
    assert load_config(workspace.root / "tuned.json").graph == config.graph
    assert "the settings are unchanged" in str(summary)


def test_chips_of_other_folds_do_not_count(predicted):
    config, workspace = predicted
    deal(workspace, SCENES[:3])
    first = tune.run(config, workspace)
    for scene in SCENES[3:]:
        predict(workspace, scene, road=0.0)
    assert tune.run(config, workspace, force=True) == first
    assert first.chips == 3


def test_several_processes_find_the_same(tuned, predicted_city, predicted):
    config, workspace = of_run(predicted_city, predicted[1].root, "compute.workers=2")
    assert tune.run(config, workspace).tried == tuned[2].tried


def test_a_picture_and_a_record_of_all_trials_are_left(tuned):
    _, workspace, _ = tuned
    record = json.loads(workspace.record("tune").read_text())
    assert len(record["summary"]["tried"]) == 4
    assert (workspace.root / "tune.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def done(tuned, predicted_city, tmp_path):
    """Return config, workspace and summary of a copy of the tuned run."""
    shutil.copytree(tuned[1].root, tmp_path / "run")
    return *of_run(predicted_city, tmp_path / "run"), tuned[2]


def test_nothing_is_searched_again_until_something_changes(done):
    config, workspace, first = done
    workspace.probability(SCENES[0]).unlink()
    assert tune.run(config, workspace).tried == first.tried
    with pytest.raises(MissingInputError, match="run `roadseg predict` first"):
        tune.run(config, workspace, force=True)


def test_what_was_found_can_be_written_elsewhere_afterwards(done, tmp_path):
    config, workspace, first = done
    target = tmp_path / "elsewhere" / "better.json"
    assert tune.run(config, workspace, write=target).config == str(target)
    assert load_config(target).graph.threshold == first.settings["threshold"]


def test_without_predictions_predict_is_named(predicted):
    config, workspace = predicted
    workspace.record("predict").unlink()
    with pytest.raises(MissingInputError, match="run `roadseg predict` first"):
        tune.run(config, workspace)


def test_predictions_of_other_scenes_are_one_line(predicted):
    config, workspace = predicted
    deal(workspace, SCENES[:1])
    say_predicted(workspace, SCENES[1:])
    with pytest.raises(DataError, match="no chip of fold 0 lies in a predicted scene"):
        tune.run(config, workspace)


def test_a_fold_without_roads_is_one_line(predicted, tmp_path):
    config, workspace = predicted
    listed = json.loads(workspace.chips.read_text())
    for scene in listed["scenes"]:
        empty = tmp_path / f"{scene['name']}.geojson"
        labels = json.loads(Path(scene["labels"]).read_text())
        empty.write_text(json.dumps({**labels, "features": []}))
        scene["labels"] = str(empty)
    workspace.chips.write_text(json.dumps(listed))
    with pytest.raises(DataError, match="fold 0: the held-out chips have no labelled roads"):
        tune.run(config, workspace)


def test_the_command_takes_the_goal_and_the_number_of_trials(predicted, predicted_city, tmp_path):
    target, run = tmp_path / "better.json", str(predicted[1].root)
    options = ["--config", str(predicted_city / "roadseg.json"), "--run", run, "--json"]
    options += ["--trials", "2", "--goal", "quality", "--output", str(target)]
    result = CliRunner().invoke(main, ["tune", *options])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)["tried"]) == 2
    assert load_config(target).tune.model_dump() == {"goal": "quality", "trials": 2}
