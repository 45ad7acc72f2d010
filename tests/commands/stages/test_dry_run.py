"""--dry-run of every stage: what it would do, and that it does nothing.

All tests share one finished city, which none of them may change.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from roadseg.system.stage_records import MadeFrom, Stage
from roadseg.system.workspace import STAGES
from tests.configs import edited


@dataclass(frozen=True)
class Done:
    seconds: float
    trials: int


COMMANDS = [*STAGES, "run", "quantize"]
CHANGES = {
    "prepare": ("labels.buffer_m", "3.0"),
    "split": ("split.block_m", "50.0"),
    "train": ("train.epochs", "3"),
    "predict": ("predict.overlap_px", "8"),
    "graph": ("graph.threshold", "0.5"),
}
NO_TORCH = f"""
import sys
from roadseg.commands.cli.main import main
for command in {[*set(STAGES) - {"train", "predict"}]!r}:
    main([command, "--dry-run", "--force"], standalone_mode=False)
for words in (["run", "--dry-run"], ["status"]):
    main(words, standalone_mode=False)
from roadseg.commands.stages import prepare
from tests.configs import edited
prepare.run = lambda *_, **__: sys.exit("torch" if "torch" in sys.modules else 0)
main(["-q", "run"], standalone_mode=False)
"""


@pytest.fixture
def call(call, finished_city, monkeypatch):
    """Give a function that runs the command line where a tiny city is finished."""
    monkeypatch.chdir(finished_city)
    return lambda *words: call("-q", *words)


@pytest.fixture
def planned(call):
    """Give a function that returns what a command would do, as JSON."""

    def run(*words):
        result = call(*words, "--dry-run", "--json")
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    return run


def tree(folder):
    """Return every file and folder with its size and times."""
    found = {path: path.stat() for path in [folder, *folder.rglob("*")]}
    return {
        path: (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for path, stat in found.items()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_written_and_no_lock_is_taken(call, finished_city, command):
    before = tree(finished_city)
    assert call(command, "--dry-run", "--force").exit_code == 0
    assert tree(finished_city) == before


@pytest.mark.parametrize(("stage", "setting"), CHANGES.items(), ids=CHANGES)
def test_a_changed_setting_is_named_and_the_stages_after_it_run_too(planned, stage, setting):
    key, value = setting
    force = ["--set", "train.epochs=2"] if stage != "train" else []
    plans = [p for p in planned("run", *force, "--set", f"{key}={value}")["stages"] if p["runs"]]
    first = STAGES.index(stage)
    assert plans[0]["why"].startswith("changed: ")
    assert f"{key.partition('.')[2]} " in plans[0]["why"]
    assert f"-> {value}" in plans[0]["why"]
    after = [plan["why"].partition(";")[0] for plan in plans[1:]]
    assert after == [f"after {name}" for name in STAGES[first:-1]]


def test_the_time_is_that_of_the_last_run_here(planned, finished_city):
    record = json.loads((finished_city / "run/graph.json").read_text())
    found = planned("graph", "--force")
    assert found["seconds"] == pytest.approx(record["seconds"])
    assert "the last run took" in found["based_on"]


def test_megapixels_have_one_decimal(planned, finished_city, tmp_path):
    folder = Path(shutil.copytree(finished_city / "run", tmp_path / "run"))
    with edited(folder / "predict.json") as record:
        record["summary"]["megapixels"] = 4.980736
    found = planned("predict", "--force", "--run", str(folder))
    assert " for 5 megapixels, now " in found["based_on"]


def test_a_prediction_of_images_names_its_rasters(planned):
    found = planned("predict", "--checkpoint", "run/checkpoints/fold-0", "--output", "o", "images")
    assert [path.rpartition("/")[2] for path in found["writes"]] == [
        f"city_{number}.tif" for number in range(5)
    ]
    assert found["why"] == "5 images given"


def test_masks_from_elsewhere_are_counted_and_their_graphs_named(planned):
    found = planned("graph", "--output", "o", "run/masks/city_0.tif")
    assert (found["why"], found["writes"]) == ("1 image given", ["o/city_0"])


def test_a_project_that_never_ran_knows_no_time(planned):
    found = planned("run", "--run", "elsewhere")["stages"]
    assert [plan["why"] for plan in found[:2]] == ["no earlier run", "after prepare"]
    assert {(p["seconds"], p["based_on"]) for p in found} == {(None, "unknown: no earlier run")}


def test_a_training_whose_time_is_limited_is_planned_for_it(planned):
    words = ["--run", "elsewhere", "--set", "train.minutes=3"]
    (training,) = (p for p in planned("run", *words)["stages"] if p["stage"] == "train")
    assert training["seconds"] == 180


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["train", "--fold", "9"], 2, "--fold 9 does not exist; choose 0 to 4"),
        (["train", "--set", "train.learning_rate=1"], 2, "retrain with --force"),
        (["train", "--ncores", "4096"], 2, "--ncores 4096: this process may use"),
        (["prepare", "--set", "imagery.images=[]"], 2, "imagery.images is empty"),
        (["prepare", "--set", "imagery.bands=[9]"], 3, "city_0.tif: "),
        (["graph", "--output", "o", "images/city_0.tif"], 3, "city_0.tif: "),
        (["predict", "--fold", "3"], 1, "run `roadseg train --fold 3` first"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_would_stop_the_command_stops_the_dry_run(fails, words, exit_code, message):
    assert message in fails(*words, "--dry-run", exit_code=exit_code)


def test_most_stages_and_finished_runs_are_planned_without_torch_and_runs_begin_without(
    finished_city,
):
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH],
        cwd=finished_city,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupted_stage_runs_again(tmp_path):
    stage = Stage(tmp_path / "graph.json", lambda: MadeFrom({}, {}), unit="scenes")
    stage.begin()
    found = stage.plan(stage.reason(), now=1)
    assert (found.runs, found.why, found.seconds) == (True, "the last run did not finish", None)
    assert found.based_on == "unknown: the last run did not finish"


def test_the_amount_of_work_is_told_once_if_it_is_the_same(tmp_path):
    stage = Stage(tmp_path / "graph.json", lambda: MadeFrom({}, {}), unit="trials")
    stage.finish(Done(seconds=30.0, trials=10), [])
    found = stage.plan(stage.reason(force=True), now=10)
    assert found.based_on == "the last run took 30.0 s for 10 trials"


def test_what_a_summary_does_not_count_of_the_time_is_part_of_it(tmp_path):
    path = tmp_path / "train.json"
    stage = Stage(path, lambda: MadeFrom({}, {}), unit="trials")
    stage.finish(Done(seconds=30.0, trials=10), [])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 42.0}))
    assert stage.plan(stage.reason(force=True)).seconds == pytest.approx(42)


def test_time_is_scaled_by_the_amount_of_work(tmp_path):
    path = tmp_path / "graph.json"
    Stage(path, lambda: MadeFrom({"trials": 10}, {})).finish(Done(seconds=30.0, trials=10), [])
    stage = Stage(path, lambda: MadeFrom({"trials": 40}, {}), unit="trials")
    found = stage.plan(stage.reason(), now=40)
    assert (found.why, found.seconds) == ("changed: trials 10 -> 40", 120.0)
