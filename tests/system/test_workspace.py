from pathlib import Path, PureWindowsPath

import pytest

from roadseg.errors import DataError, MissingInputError
from roadseg.system.workspace import Workspace, require


def test_every_name_lies_in_the_run_folder_and_differs():
    run = Workspace(Path("runs/a"))
    names = [name for key in vars(Workspace) if isinstance(name := getattr(run, key), Path)]
    assert len(names) > 10
    names += [run.mask("s"), run.probability("s"), run.graph("s"), run.picture("s")]
    names += [run.record(stage) for stage in ("prepare", "split", "predict", "graph", "evaluate")]
    names += [run.train_record(0), run.train_record(1)]
    assert len(set(names)) == len(names)
    assert all(Path("runs/a") in name.parents for name in names)


@pytest.mark.parametrize("scene", [r"..\x", r"C:\x", "C:x"])
def test_on_windows_a_scene_with_a_backslash_or_a_drive_lies_elsewhere(
    tmp_path, scene, monkeypatch
):
    monkeypatch.setattr("roadseg.system.workspace.PurePath", PureWindowsPath)
    with pytest.raises(DataError, match="points outside the run folder"):
        Workspace(tmp_path).mask(scene)


def test_names_touch_no_files(tmp_path):
    run = Workspace(tmp_path / "run")
    assert run.mask("s") == tmp_path / "run" / "masks" / "s.tif"
    assert not run.root.exists()


def test_a_checkpoint_folder_is_named_by_its_fold():
    assert Workspace(Path("a")).checkpoint(3) == Path("a/checkpoints/fold-3")


def test_what_is_there_is_returned(tmp_path):
    assert require(tmp_path, made_by="prepare") == tmp_path


def test_what_is_missing_names_the_stage_that_makes_it(tmp_path):
    expected = r"chips\.json does not exist; run `roadseg prepare` first"
    with pytest.raises(MissingInputError, match=expected):
        require(tmp_path / "chips.json", made_by="prepare")
