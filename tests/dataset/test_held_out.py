from dataclasses import dataclass, replace

import pytest

from roadseg.dataset.chips import NO_ZONE, ChipList
from roadseg.dataset.fold_files import (
    Predicted,
    held_out_chips,
    metres_from_training,
    part_chips,
    read_fold_chips,
    write_folds,
)
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.stage_records import MadeFrom, Stage
from roadseg.system.workspace import Workspace
from tests.drawing import chip_at

CHIPS = tuple(map(chip_at, ("a_0", "a_1", "b_0", "b_1")))


FOLDS = {"a_0": 0, "a_1": 1, "b_0": 2, "b_1": 1}


@dataclass(frozen=True)
class Split:
    buffer_m: float


@pytest.fixture
def workspace(tmp_path):
    return split_into(FOLDS, Workspace(tmp_path))


def split_into(folds, workspace, *, buffer_m=0.0):
    """Leave folds as split does."""
    write_folds(workspace.folds, folds)
    record = Stage(workspace.record("split"), lambda: MadeFrom({}, {}))
    record.finish(Split(buffer_m), [])
    return workspace


def names(chips):
    return [chip.name for chip in chips]


def test_a_fold_parts_the_chips_into_what_it_is_trained_on_and_what_it_holds_out(workspace):
    parted = read_fold_chips(workspace, CHIPS, 1)
    assert (names(parted.training), names(parted.held_out)) == (["a_0", "b_0"], ["a_1", "b_1"])


def row(count):
    """Return chips of 100 m side by side."""
    return [chip_at(f"c{i}", 66e4 + 100 * i) for i in range(count)]


@pytest.mark.parametrize(("buffer_m", "left_out"), [(0.0, 0), (100.0, 1), (100.1, 2), (900.0, 4)])
def test_chips_nearer_than_the_buffer_are_not_trained_on(buffer_m, left_out):
    chips = row(5)
    parted = part_chips(chips, {c.name: int(c.name == "c0") for c in chips}, 1, buffer_m=buffer_m)
    assert names(parted.held_out) == ["c0"]
    assert names(parted.buffer) == [f"c{i}" for i in range(1, 1 + left_out)]
    assert names(parted.training) == [f"c{i}" for i in range(1 + left_out, 5)]


def test_held_out_chips_are_as_far_from_the_training_ground_as_the_buffer_leaves_it(tmp_path):
    chips = row(6)
    folds = {chip.name: int(number >= 4) for number, chip in enumerate(chips)}
    workspace = split_into(folds, Workspace(tmp_path))
    assert metres_from_training(workspace, chips, [1]) == {"c4": 0, "c5": 100}
    split_into(folds, workspace, buffer_m=150)
    assert metres_from_training(workspace, chips, [1]) == {"c4": 200, "c5": 300}


def test_chips_without_georeference_are_at_no_distance(workspace):
    chips = [replace(chip, zone=NO_ZONE) for chip in CHIPS]
    assert metres_from_training(workspace, chips, [0, 1, 2]) == {}


def test_of_predicted_scenes_alone_the_chips_held_out_are_given_by_scene(workspace):
    listed = ChipList((), CHIPS, DEFAULT_BINS)
    chips = held_out_chips(workspace, listed, Predicted(["b"], 1))
    assert {scene: names(of_scene) for scene, of_scene in chips.items()} == {"b": ["b_1"]}
