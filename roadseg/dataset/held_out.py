"""Held-out chips of a fold, of all scenes or of the predicted ones, and its training chips."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from roadseg.dataset.chips import NO_ZONE, ChipList, ChipRecord
from roadseg.dataset.fold_files import read_folds
from roadseg.dataset.footprints import nearest_m
from roadseg.raster.windows import Window
from roadseg.system.stage_records import read_summary
from roadseg.system.workspace import Fold, FoldOrEach, Workspace


@dataclass(frozen=True)
class Predicted:
    """The part of the summary of predict that later stages read.

    Attributes:
        scenes: names of the predicted scenes.
        fold: fold that the network held out; "each" if every chip was predicted by the network
            that held it out.
    """

    scenes: list[str]
    fold: FoldOrEach


def read_predicted(workspace: Workspace) -> Predicted:
    """Read the summary of predict.

    Raises:
        MissingInputError: if predict has not reached its end.
        DataError: if its record is damaged.
    """
    return read_summary(workspace.record("predict"), Predicted)


@dataclass(frozen=True)
class FoldChips:
    """The chips of a run, divided by a fold.

    Attributes:
        training: chips on which the network of the fold is trained.
        held_out: chips of the fold.
        buffer: chips of other folds that are nearer to held-out chips than `split.buffer_m`.
    """

    training: list[ChipRecord]
    held_out: list[ChipRecord]
    buffer: list[ChipRecord]


def part_chips(
    chips: Sequence[ChipRecord], folds: Mapping[str, int], fold: Fold, *, buffer_m: float
) -> FoldChips:
    """Divide chips by a fold, and keep their order; fold "all" holds none out.

    Args:
        folds: fold of each chip, by name.
        buffer_m: distance to held-out chips, in metres, below which chips are not trained on.
    """
    held_out = [chip for chip in chips if folds[chip.name] == fold]
    others = [chip for chip in chips if folds[chip.name] != fold]
    is_near = [False] * len(others)
    if buffer_m > 0:
        is_near = (nearest_m(others, held_out) < buffer_m).tolist()
    sides: dict[bool, list[ChipRecord]] = {True: [], False: []}
    for chip, near in zip(others, is_near, strict=True):
        sides[near].append(chip)
    return FoldChips(sides[False], held_out, sides[True])


@dataclass(frozen=True)
class _Buffer:
    """The part of the summary of split that determines which chips are not trained on."""

    buffer_m: float = 0.0


def read_fold_chips(workspace: Workspace, chips: Sequence[ChipRecord], fold: Fold) -> FoldChips:
    """Divide the chips of a run by a fold as `part_chips` does.

    Raises:
        MissingInputError: if split has not reached its end.
        DataError: if folds.json does not have exactly these chips.
    """
    folds = read_folds(workspace.folds, chips)
    split = read_summary(workspace.record("split"), _Buffer)
    return part_chips(chips, folds, fold, buffer_m=split.buffer_m)


def metres_from_training(
    workspace: Workspace, chips: Sequence[ChipRecord], folds: Iterable[int]
) -> dict[str, float]:
    """Return the distances of held-out chips from the training chips of the same fold.

    Returns:
        Metres to the nearest training chip, by the name of the held-out chip. Chips without
        georeference, or without such a neighbour, are left out.

    Raises:
        MissingInputError: if split has not reached its end.
        DataError: if folds.json does not have exactly these chips.
    """
    metres: dict[str, float] = {}
    for fold in folds:
        parted = read_fold_chips(workspace, chips, fold)
        placed = [chip for chip in parted.held_out if chip.zone != NO_ZONE]
        nearest = nearest_m(placed, parted.training).tolist()
        near = {chip.name: far for chip, far in zip(placed, nearest, strict=True)}
        metres |= {name: far for name, far in near.items() if math.isfinite(far)}
    return metres


def held_out_chips(
    workspace: Workspace, listed: ChipList, predicted: Predicted
) -> dict[str, list[ChipRecord]]:
    """Return the held-out chips of the predicted scenes, by scene, in the order of chips.json."""
    folds = read_folds(workspace.folds, listed.chips)
    chips: dict[str, list[ChipRecord]] = {}
    for chip in listed.chips:
        is_held_out = predicted.fold in ("each", folds[chip.name])
        if is_held_out and chip.scene in predicted.scenes:
            chips.setdefault(chip.scene, []).append(chip)
    return chips


def folds_of_scenes(workspace: Workspace, listed: ChipList) -> dict[str, dict[Window, int]]:
    """Return the fold of every chip, by scene and window, in the order of chips.json.

    Raises:
        DataError: if folds.json does not have exactly these chips.
    """
    folds = read_folds(workspace.folds, listed.chips)
    scenes: dict[str, dict[Window, int]] = defaultdict(dict)
    for chip in listed.chips:
        scenes[chip.scene][chip.window] = folds[chip.name]
    return dict(scenes)
