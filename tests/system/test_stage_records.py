import json
import logging
import shutil
from dataclasses import dataclass, field
from pathlib import PureWindowsPath

import pytest

from roadseg.errors import DataError, MissingInputError
from roadseg.system.records import versions
from roadseg.system.stage_records import MadeFrom, Stage, read_record, read_stage_key, read_summary


@dataclass(frozen=True)
class Found:
    chips: int = 7
    folder: str = ""
    failed: dict[str, str] = field(default_factory=dict)


INPUTS = {"image of a": "1f", "labels of a": "2e"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "split.json"


def stage(path, settings=(("folds", 5),), inputs=INPUTS, defaults=None):
    return Stage(path, lambda: MadeFrom(dict(settings), inputs, defaults or {}))


def finish(path, *outputs, found=None):
    """Leave the record of a stage that wrote some files, given by name."""
    path.parent.mkdir(exist_ok=True)
    files = [path.parent / name for name in outputs]
    for file in files:
        file.write_text(f"this is {file.name}")
    stage(path).finish(found or Found(), files)


def reason(path, **change):
    found = stage(path, **change).reason()
    return found and (found.text, found.renews)


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "3", "{}", '{"stage": "split", "state": "done"}'),
        '{"stage": "split", "state": "over", "key": "a"}',
        '{"stage": "split", "state": "done", "key": 1}',
        '{"stage": "split", "state": "done", "key": "a", "outputs": ["b"]}',
        '{"stage": "split", "state": "done", "key": "a", "seconds": "long"}',
        '{"stage": "split", "state": "done", "key": "a", "outputs": {"../../x": "b"}}',
        '{"stage": "split", "state": "done", "key": "a", "outputs": {"/etc/passwd": "b"}}',
        '{"stage": "split", "state": "done", "key": "a", "outputs": {"a\\u0000": "b"}}',
    ],
)
@pytest.mark.parametrize(
    "read", [read_stage_key, lambda path: read_summary(path, Found), read_record]
)
def test_json_that_is_no_record_is_refused(path, text, read):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(DataError, match=r"split\.json: .*; delete it"):
        read(path)


def test_a_stage_that_never_ran_has_to(path):
    assert reason(path) == ("no earlier run", True)
    assert stage(path).summary(Found) is None


def test_a_finished_stage_has_its_summary(path, caplog):
    caplog.set_level(logging.INFO)
    finish(path)
    assert stage(path).summary(Found) == read_summary(path, Found) == Found()
    assert "split is up to date; use --force to run it again" in caplog.text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"settings": (("folds", 4),)}, "folds 5 -> 4"),
        ({"settings": (("folds", "Süd"),)}, 'folds 5 -> "Süd"'),
        ({"inputs": INPUTS | {"image of a": "3d"}}, "image of a"),
        ({"inputs": {"image of a": "1f"}}, "labels of a (removed)"),
    ],
)
def test_what_changed_is_named(path, change, told):
    finish(path)
    assert reason(path, **change) == (f"changed: {told}", True)
    assert stage(path, **change).key != stage(path).key


def test_a_stage_with_failed_scenes_runs_again(path):
    finish(path, found=Found(failed={"a": "no band"}))
    assert reason(path) == ("1 scene failed in the last run", True)


def test_a_summary_of_another_version_counts_as_none(path, caplog):
    @dataclass(frozen=True)
    class Newer:
        chips: int
        edges: int

    finish(path)
    with caplog.at_level(logging.DEBUG, logger="roadseg"):
        assert stage(path).summary(Newer) is None
    assert "split runs: its record was written by another version" in caplog.text
    with pytest.raises(DataError, match=r"split\.json: summary\.edges: missing; delete it"):
        read_summary(path, Newer)


def test_a_setting_that_was_not_known_then_and_is_not_set_now_is_of_another_version(path):
    finish(path)
    now = reason(path, settings=(("folds", 5), ("precision", None)))
    assert now == ("its record is of another version", True)


LATER = {"settings": (("folds", 5), ("groups", {"most": 3})), "defaults": {"groups": {"most": 3}}}


def test_a_setting_that_was_not_known_then_makes_no_difference_at_its_default(path):
    finish(path, "a.tif")
    key = read_stage_key(path)
    assert reason(path, **LATER) is None
    stage(path, **LATER).finish(Found(), [])
    assert read_stage_key(path) == key
    assert reason(path, settings=(("folds", 5), ("groups", {"most": 4}))) == (
        "changed: groups.most 3 -> 4",
        True,
    )


def test_a_setting_that_was_not_known_then_is_not_named_beside_what_changed(path):
    finish(path)
    inputs = INPUTS | {"image of a": "3d"}
    assert reason(path, **LATER, inputs=inputs) == ("changed: image of a", True)


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("b", "b is missing"),
        ("abcde", "a is missing, b is missing, c is missing and 2 more"),
    ],
)
def test_missing_outputs_are_made_again(path, lost, told):
    finish(path, *"abcde")
    for name in lost:
        (path.parent / name).unlink()
    assert reason(path) == (told, False)
    assert stage(path).summary(Found) is None


def test_a_changed_output_is_put_aside_before_it_is_made_again(path, caplog):
    finish(path, "a.tif", "b.tif")
    (path.parent / "a.tif").write_text("drawn by hand")
    assert reason(path) == ("a.tif was modified", False)
    stage(path).begin()
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["a.tif.changed", "b.tif", "split.json"]
    assert (
        "a.tif was modified after it was made; the modified file was kept as a.tif.changed"
        in caplog.text
    )


@pytest.mark.parametrize("name", ["../../x", "a/../../x", "/etc/passwd", "", ".", "..", "a\0b"])
def test_a_record_that_names_an_output_elsewhere_is_refused_and_nothing_is_moved(path, name):
    finish(path, "a.tif")
    held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"outputs": {name: "1f"}}))
    mine = path.parent.parent / "x"
    mine.write_text("mine")
    for act in (stage(path).reason, stage(path).begin):
        with pytest.raises(DataError, match=r"outputs.*inside the folder.*delete it, and run"):
            act()
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("name", [r"..\..\x", r"C:\x", "C:x", r"\\host\share\x"])
def test_on_windows_a_backslash_and_a_drive_lead_elsewhere_as_well(path, name, monkeypatch):
    finish(path, "a.tif")
    held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"outputs": {name: "1f"}}))
    monkeypatch.setattr("roadseg.system.schemas.PurePath", PureWindowsPath)
    with pytest.raises(DataError, match=r"outputs.*inside the folder"):
        stage(path).reason()


def test_a_run_that_moved_is_up_to_date_and_names_its_new_place(path, tmp_path):
    finish(path, "a.tif", found=Found(folder=str(path.parent / "masks")))
    moved = tmp_path / "elsewhere" / "split.json"
    shutil.move(path.parent, moved.parent)
    assert stage(moved).summary(Found) == Found(folder=str(tmp_path / "elsewhere" / "masks"))


def test_a_record_says_what_the_stage_was_made_from(path):
    finish(path)
    found = json.loads(path.read_text())
    assert found["stage"] == "split"
    assert found["settings"] == {"folds": 5}
    assert found["inputs"] == INPUTS
    assert found["seconds"] >= 0
    assert found["versions"] == versions()


def test_scenes_that_failed_are_part_of_the_key_for_later_stages(path):
    finish(path, found=Found(failed={"a": "no band"}))
    assert read_stage_key(path) != stage(path).key


@pytest.mark.parametrize("read", [read_stage_key, lambda path: read_summary(path, Found)])
def test_an_interrupted_stage_is_named(path, read):
    stage(path).begin()
    with pytest.raises(MissingInputError, match="split did not finish; run `roadseg split` again"):
        read(path)


def test_the_command_of_an_interrupted_training_names_its_fold(path):
    stage(path).begin()
    with pytest.raises(MissingInputError, match=r"; run `roadseg train --fold 2` again first"):
        read_stage_key(path, made_by="train --fold 2")


@pytest.mark.parametrize("read", [read_stage_key, lambda path: read_summary(path, Found)])
def test_a_stage_that_has_not_run_is_named(path, read):
    with pytest.raises(MissingInputError, match=r"does not exist; run `roadseg split` first"):
        read(path)


@pytest.mark.parametrize(("folds", "seconds"), [(5, 100), (6, 0)])
def test_the_seconds_of_a_run_that_goes_on_are_added_but_not_of_other_settings(
    path, folds, seconds
):
    path.parent.mkdir()
    stage(path).begin()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 100}))
    going_on = stage(path, settings=[("folds", folds)])
    going_on.begin()
    going_on.finish(Found(), [])
    assert read_record(path).seconds == pytest.approx(seconds, abs=30)
    going_on.finish(Found(), [])  # Another shard ends.
    assert read_record(path).seconds == pytest.approx(seconds, abs=30)
