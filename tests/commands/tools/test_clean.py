"""Cleaning a run: what goes, what stays, and that all that was done is still done."""

import pytest

from roadseg.commands.stages import pipeline
from roadseg.commands.tools.clean import run
from roadseg.commands.tools.status import run as status
from roadseg.errors import DataError, OutputError
from roadseg.system.locks import lock

LAST = ["checkpoints/fold-0/last.safetensors", "checkpoints/fold-0/last.json"]
PARTIAL = ".partial-00000000-1-city.tif"


@pytest.fixture
def root(finished):
    return finished[1].root


def names(summary):
    return [item.path for item in summary.items]


def test_it_only_lists_until_it_is_told_to_remove(root):
    before = sorted(root.rglob("*"))
    summary = run(root, remove=False)
    assert names(summary) == LAST
    assert "--fold 0 --force" in summary.items[0].again
    assert sorted(root.rglob("*")) == before


def test_what_was_done_is_still_done_afterwards(finished, root):
    assert names(run(root, remove=True)) == LAST
    assert not (root / LAST[0]).exists()
    assert {each.state for each in status(finished[0], root).stages} == {"done"}
    assert not any(each.runs for each in pipeline.plan(*finished).stages)
    assert run(root, remove=True).items == []


def test_a_report_can_be_made_of_a_cleaned_run(finished, root):
    run(root, remove=True)
    from roadseg.commands.stages import report

    assert report.run(*finished, force=True).scenes > 0


def test_a_training_that_has_not_ended_keeps_what_it_goes_on_from(root):
    path = root / "checkpoints/fold-0/train.json"
    path.write_text(path.read_text().replace('"state": "done"', '"state": "started"'))
    assert names(run(root, remove=True)) == []


def test_a_training_whose_best_weights_are_gone_keeps_the_last_ones(root):
    (root / "checkpoints/fold-0/best.safetensors").unlink()
    assert names(run(root, remove=True)) == []


def test_weights_of_another_program_stay(root):
    (root / LAST[0]).write_bytes(b"of another program")
    assert names(run(root, remove=True)) == []


def test_strips_go_once_the_prediction_is_done_and_stay_before(root):
    strips = root / "probabilities/.strips-city_0.tif-0123"
    strips.mkdir()
    (strips / "00000000.strip").write_bytes(b"rows")
    path = root / "predict.json"
    done = path.read_text()
    path.write_text(done.replace('"state": "done"', '"state": "started"'))
    assert names(run(root, remove=False)) == LAST
    path.write_text(done)
    assert names(run(root, remove=True)) == [*LAST, "probabilities/.strips-city_0.tif-0123"]
    assert not strips.exists()


def test_what_a_killed_process_left_goes_and_what_is_being_written_stays(root):
    mine = __import__("roadseg.system.files").system.files.partial_path(root / "graphs/a.gpkg")
    mine.write_bytes(b"half")
    (root / "graphs/.partial-old").write_bytes(b"half")
    assert "graphs/.partial-old" in names(run(root, remove=True))
    assert mine.exists()


def test_links_stay_and_so_does_what_they_lead_to(root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (root / "checkpoints/fold-0").rename(elsewhere)
    (root / "checkpoints/fold-0").symlink_to(elsewhere)
    assert names(run(root, remove=True)) == []
    assert (elsewhere / "last.safetensors").exists()


def test_a_link_in_the_place_of_the_last_weights_stays(root, tmp_path):
    (root / LAST[0]).rename(tmp_path / "last.safetensors")
    (root / LAST[0]).symlink_to(tmp_path / "last.safetensors")
    assert names(run(root, remove=True)) == []
    assert (root / LAST[0]).is_symlink()


@pytest.mark.parametrize("part", [None, "fold-0"])
@pytest.mark.usefixtures("impatient")
def test_a_run_in_use_is_not_touched(root, part):
    with lock(root, part=part, alone=False):
        assert "is using this run" in str(run(root, remove=False))
        with pytest.raises(OutputError, match="is using this run folder"):
            run(root, remove=True)
    assert (root / LAST[0]).exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a run of roadseg"):
        run(tmp_path, remove=True)
