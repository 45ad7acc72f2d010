"""A run folder with awkward names, links, wrong clocks, names that lead astray, and no room.

One file, because all its tests share the run of a small city.
"""

import importlib
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.stages import pipeline
from roadseg.errors import DataError, OutputError
from roadseg.system.locks import lock
from roadseg.system.workspace import STAGES, Workspace

ROOM = 12_000  # bytes: the first files of a stage fit, the larger ones do not


def times(workspace):
    return {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*.json")}


def test_files_from_the_future_do_not_make_a_stage_run_again(awkward):
    config, workspace = awkward
    before = times(workspace)
    pipeline.run(config, workspace, say=lambda *_: None)
    assert times(workspace) == before


def test_an_input_that_is_now_older_is_still_the_same(awkward, tmp_path):
    config, _ = awkward
    workspace = Workspace(tmp_path / "run")
    pipeline.prepare(config, workspace)
    image = next(Path(config.imagery.images[0]).glob("city_0.tif"))
    former = image.stat().st_mtime_ns
    os.utime(image, ns=(0, 0))
    try:
        before = times(workspace)[workspace.record("prepare")]
        pipeline.prepare(config, workspace)
    finally:
        os.utime(image, ns=(former, former))
    assert before == times(workspace)[workspace.record("prepare")]


def test_an_image_whose_name_begins_with_a_dash_comes_after_two(awkward, tmp_path, monkeypatch):
    _, workspace = awkward
    monkeypatch.chdir(tmp_path)
    Path("-mask.tif").write_bytes(workspace.mask("city_0").read_bytes())
    ended = CliRunner().invoke(main, ["graph", "--output", "-out", "--", "-mask.tif"])
    assert ended.exit_code == 0, ended.output
    assert (tmp_path / "-out" / "-mask.gpkg").exists()


@pytest.mark.parametrize("kind", ["mask", "scene_record", "probability", "graph", "picture"])
@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b", "a\0b"])
def test_a_scene_that_leads_out_of_the_run_folder_is_refused(tmp_path, kind, name):
    with pytest.raises(DataError, match="not a valid scene name"):
        getattr(Workspace(tmp_path), kind)(name)


@pytest.mark.parametrize("name", ["..", "a.b", "ü", "a b", "..\\x"])
def test_any_other_name_stays_inside(tmp_path, name):
    assert Workspace(tmp_path).mask(name).parent == tmp_path / "masks"


def run(stage, config, workspace, *, force=True):
    options = {"fold": 0} if stage in {"train", "predict"} else {}
    return importlib.import_module(f"roadseg.commands.stages.{stage}").run(
        config, workspace, force=force, **options
    )


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check(stage, config, workspace, full):
    """Run a stage where it cannot write all its files, look at what it says and leaves, go on."""
    before = names_in(workspace.root)
    with full, pytest.raises(OutputError) as raised:
        run(stage, config, workspace)
    text = str(raised.value)
    assert re.search("cannot be written: |free some space", text)
    assert len(text.splitlines()) == 1
    assert ".partial" not in text
    assert not [name for name in names_in(workspace.root) if ".partial" in name]
    run(stage, config, workspace, force=False)
    assert names_in(workspace.root) >= before


@pytest.mark.parametrize("stage", STAGES)
def test_a_file_too_large_for_the_disk_is_told_and_the_stage_goes_on_later(
    awkward, tmp_path, largest_file, stage
):
    config, found = awkward
    shutil.copytree(found.root, tmp_path / "run")
    check(stage, config, Workspace(tmp_path / "run"), largest_file(ROOM))


def test_a_read_only_run_folder_can_be_looked_at_and_no_more(awkward, tmp_path, read_only):
    config, found = awkward
    shutil.copytree(found.root, tmp_path / "run")
    folder = read_only(tmp_path / "run")
    with lock(folder):
        pipeline.prepare(config, Workspace(folder))
        with pytest.raises(OutputError, match=r"prepare\.json: cannot be written: Read-only"):
            pipeline.prepare(config, Workspace(folder), force=True)


def test_read_only_inputs_are_enough(awkward, tmp_path, read_only):
    config, _ = awkward
    for patterns in (config.imagery.images, config.labels.roads):
        read_only(patterns[0])
    summary = run("prepare", config, Workspace(tmp_path / "run"))
    assert len(summary.failed) == 0
