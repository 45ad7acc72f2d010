"""The list of runs: what is one, what its line says, and what is not looked into."""

import shutil

import pytest

from roadseg.commands.tools.runs import run
from roadseg.errors import MissingInputError


@pytest.fixture
def root(finished):
    return finished[1].root


def test_a_run_has_its_figures_in_a_line(root):
    (line,) = run(root.parent).runs
    assert (line.run, line.images, line.network, line.folds) == ("run", 5, "unet", ["0"])
    assert 0 <= line.iou <= 1
    assert line.megabytes > 0


def test_runs_are_found_at_any_depth_and_a_run_itself(root, tmp_path):
    shutil.copytree(root, tmp_path / "all/of/them")
    found = [line.run for line in run(tmp_path).runs]
    assert found == ["all/of/them", "city/run"]
    assert len(run(root).runs) == 1


def test_links_hidden_folders_and_other_files_are_no_runs(root, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/report.json").write_text('{"title": "of another program"}')
    (tmp_path / "other/link").symlink_to(root)
    shutil.copytree(root, tmp_path / "other/.hidden")
    listed = run(tmp_path / "other")
    assert listed.runs == []
    assert str(listed).startswith("no runs in")


def test_a_run_that_only_has_been_prepared_has_no_metrics(root):
    for name in ("train", "split", "predict", "graph", "evaluate", "report"):
        (root / f"{name}.json").unlink(missing_ok=True)
    shutil.rmtree(root / "checkpoints")
    (line,) = run(root).runs
    assert (line.images, line.network, line.iou) == (5, None, None)


def test_a_damaged_record_is_told_beside_the_other_runs(root, tmp_path):
    shutil.copytree(root, tmp_path / "sound")
    (root / "graph.json").write_text("{")
    lines = {line.run: line.problem for line in run(tmp_path).runs}
    assert lines["sound"] == ""
    assert "graph.json" in lines["city/run"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(MissingInputError, match="use a folder with runs"):
        run(tmp_path / "nowhere")
