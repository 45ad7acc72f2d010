"""Held out: the scenes that were predicted, and their chips that the network never saw."""

from dataclasses import dataclass

from roadseg.dataset.chips import ChipList, ChipRecord
from roadseg.dataset.fold_files import read_folds
from roadseg.system.stage_records import read_summary
from roadseg.system.workspace import Workspace, require


@dataclass(frozen=True)
class Predicted:
    """What the stages after predict read of its summary.

    Attributes:
        scenes: names of the scenes that were predicted.
        fold: that their network held out.
    """

    scenes: list[str]
    fold: int


def read_predicted(workspace: Workspace) -> Predicted:
    """Return what was predicted in a run.

    Raises:
        MissingInputError: if predict has not reached its end.
        DataError: if its record is damaged.
    """
    return read_summary(require(workspace.record("predict"), made_by="predict"), Predicted)


def held_out_chips(
    workspace: Workspace, listed: ChipList, predicted: Predicted
) -> dict[str, list[ChipRecord]]:
    """Return the chips that were held out by the scene that was predicted, in the order of both."""
    folds, scenes = read_folds(workspace.folds, listed.chips), set(predicted.scenes)
    chips: dict[str, list[ChipRecord]] = {}
    for chip in listed.chips:
        if folds[chip.name] == predicted.fold and chip.scene in scenes:
            chips.setdefault(chip.scene, []).append(chip)
    return chips
