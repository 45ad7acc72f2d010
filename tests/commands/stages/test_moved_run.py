"""Runs that know what they hold: moved, copied, touched, with outputs missing or changed."""

import json
import shutil
from pathlib import Path

import pytest

from roadseg.commands.stages import pipeline, predict
from roadseg.config import load_config
from roadseg.errors import CheckpointError
from roadseg.system.workspace import Workspace

NAMED_AGAIN = {"prepare", "report"}  # chips.json names images where they lie now, no more


@pytest.fixture
def project(finished_city, tmp_path):
    """Copy a finished city, images, labels and all; give its folder."""
    return Path(shutil.copytree(finished_city, tmp_path / "project"))


def run(project, *assignments, **options):
    """Run all stages, and return the names of those that did something."""
    config = load_config(project / "roadseg.json", assignments)
    before = states(config.run)
    summary = pipeline.run(config, Workspace(config.run), say=lambda *_: None, **options)
    after = states(config.run)
    return {path.stem for path in after if before.get(path) != after[path]}, summary


def states(folder):
    records = [*folder.glob("*.json"), *folder.glob("checkpoints/*/train.json")]
    return {p: p.stat().st_mtime_ns for p in records if '"stage":' in p.read_text()}


def planned(project, *assignments):
    """Return the stages that a dry run says would run."""
    config = load_config(project / "roadseg.json", assignments)
    plans = pipeline.plan(config, Workspace(config.run))
    return {plan.stage for plan in plans.stages if plan.runs}


def test_a_renamed_project_is_up_to_date_and_says_its_new_place(project):
    moved = project.rename(project.parent / "renamed")
    ran, summary = run(moved)
    assert ran == set()
    assert summary.stages["graph"].folder == str(moved / "run" / "graphs")
    assert summary.stages["train"].checkpoint == str(moved / "run" / "checkpoints" / "fold-0")


def test_a_run_folder_elsewhere_finds_the_images_where_they_are(project, tmp_path):
    shutil.move(project / "run", tmp_path / "deep" / "er" / "run")
    elsewhere = f"run={tmp_path / 'deep' / 'er' / 'run'}"
    assert run(project, elsewhere)[0] <= NAMED_AGAIN
    (tmp_path / "deep/er/run/probabilities").rename(tmp_path / "gone")
    assert run(project, elsewhere)[0] - {"report"} == {"predict"}


def test_images_that_moved_keep_their_training_and_are_found(project):
    (project / "images").rename(project / "pictures")
    moved = f'imagery.images=["{project}/pictures"]'
    assert run(project, moved)[0] <= NAMED_AGAIN
    listed = json.loads((project / "run/chips.json").read_text())
    assert {Path(s["image"]).parent for s in listed["scenes"]} == {project / "pictures"}
    (project / "run/probabilities").rename(project / "gone")
    assert run(project, moved)[0] - {"report"} == {"predict"}


def test_a_changed_image_is_prepared_again(project):
    image = project / "images" / "city_0.tif"
    image.write_bytes(image.read_bytes() + b"\0")
    assert "prepare" in planned(project)


def test_an_unfinished_training_goes_on_where_the_project_is_now(project):
    run(project, "train.epochs=3", force=False)
    moved = project.rename(project.parent / "renamed")
    ran, summary = run(moved, "train.epochs=4")
    assert "train" in ran
    assert summary.stages["train"].epochs == 4


LOST = {  # what is deleted, and which stages run again; of these the report shows the files
    "run/masks/city_1.tif": {"prepare"},
    "run/masks": {"prepare"},
    "run/chips.json": {"prepare"},
    "run/scaling.json": {"prepare"},
    "run/quality": {"prepare"},
    "run/folds.json": {"split"},
    "run/folds.gpkg": {"split"},
    "run/checkpoints/fold-0/best.safetensors": {"train"},
    "run/probabilities": {"predict"},
    "run/graphs/{scene}.gpkg": {"graph"},
    "run/graphs/{scene}.graphml": {"graph"},
    "run/graphs": {"graph"},
    "run/evaluation.csv": {"evaluate"},
    "run/pictures": {"evaluate"},
    "run/report.html": {"report"},
}
MADE_AGAIN = [
    *("run/masks/city_1.tif", "run/quality", "run/folds.gpkg", "run/probabilities"),
    *("run/graphs", "run/evaluation.csv", "run/report.html"),
]


def scene_of(project):
    """Return the name of the only scene that was predicted."""
    (path,) = (project / "run" / "probabilities").glob("*.tif")
    return path.stem


def files(project):
    found = {path.relative_to(project) for path in (project / "run").rglob("*") if path.is_file()}
    return {path for path in found if ".lock" not in path.name}


def lose(project, lost):
    path = project / lost.format(scene=scene_of(project))
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("lost", LOST)
def test_the_dry_run_says_what_makes_again_what_was_deleted(project, lost):
    lose(project, lost)
    assert planned(project) - {"report"} == LOST[lost] - {"report"}


@pytest.mark.parametrize("lost", MADE_AGAIN)
def test_what_was_deleted_is_made_again(project, lost):
    before = files(project)
    lose(project, lost)
    assert run(project)[0] - {"report"} == LOST[lost] - {"report"}
    assert files(project) == before
    assert run(project)[0] == set()


def test_a_truncated_probability_is_made_again_with_the_same_bytes(project):
    path = project / "run" / "probabilities" / f"{scene_of(project)}.tif"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert "predict" in run(project)[0]
    assert path.read_bytes() == content


def test_weights_that_were_replaced_are_never_trained_over(project):
    path = project / "run" / "checkpoints" / "fold-0" / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        CheckpointError, match=r"best\.safetensors: was modified after its training"
    ):
        run(project)


def test_weights_without_their_last_step_stay_finished(project):
    for suffix in ("json", "safetensors"):
        (project / f"run/checkpoints/fold-0/last.{suffix}").unlink()
    assert run(project)[0] == set()


def test_a_training_from_weights_that_are_gone_stays_finished(project):
    weights = project / "first"
    shutil.copytree(project / "run" / "checkpoints" / "fold-0", weights)
    started = (f"train.init={weights}", f"run={project}/run2")
    run(project, *started)
    shutil.rmtree(weights)
    assert run(project, *started)[0] == set()


def test_a_damaged_probability_outside_a_run_is_predicted_again(project, tmp_path):
    config = load_config(project / "roadseg.json")
    image = str(project / "images" / "city_0.tif")
    options = {"checkpoints": [project / "run/checkpoints/fold-0"], "output": tmp_path / "out"}
    predict.run_images(config, [image], **options)
    path = tmp_path / "out" / "city_0.tif"
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"<html>"):
        path.write_bytes(damaged)
        predict.run_images(config, [image], **options)
        assert path.read_bytes() == content
