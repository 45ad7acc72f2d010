import pytest

from roadseg.dataset.chips import ChipList, ChipRecord
from roadseg.dataset.fold_files import write_folds
from roadseg.dataset.held_out import Predicted, held_out_chips, read_fold_chips
from roadseg.errors import DataError
from roadseg.raster.windows import Window
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.workspace import Workspace

CORNERS = ((0.0, 0.0), (9.0, 0.0), (9.0, 9.0), (0.0, 9.0))
CHIPS = tuple(
    ChipRecord(name, name[0], Window(0, 0, 9, 9), CORNERS, 32611, 0.1, 1.0)
    for name in ("a_0", "a_1", "b_0", "b_1")
)
FOLDS = {"a_0": 0, "a_1": 1, "b_0": 2, "b_1": 1}


@pytest.fixture
def workspace(tmp_path):
    write_folds(Workspace(tmp_path).folds, FOLDS)
    return Workspace(tmp_path)


def names(chips):
    return [chip.name for chip in chips]


def test_a_fold_parts_the_chips_into_what_it_is_trained_on_and_what_it_holds_out(workspace):
    parted = read_fold_chips(workspace, CHIPS, 1)
    assert (names(parted.training), names(parted.held_out)) == (["a_0", "b_0"], ["a_1", "b_1"])
    assert parted.last_fold == 2


def test_a_fold_that_is_not_there_holds_nothing_out(workspace):
    assert read_fold_chips(workspace, CHIPS, 3).held_out == []


def test_folds_of_other_chips_are_refused(workspace):
    with pytest.raises(DataError, match=r"a fold for 'b_1', which is not a chip"):
        read_fold_chips(workspace, CHIPS[:3], 0)


def test_of_predicted_scenes_alone_the_chips_held_out_are_given_by_scene(workspace):
    listed = ChipList((), CHIPS, DEFAULT_BINS)
    chips = held_out_chips(workspace, listed, Predicted(["b"], 1))
    assert {scene: names(of_scene) for scene, of_scene in chips.items()} == {"b": ["b_1"]}
