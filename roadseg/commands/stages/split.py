"""split: divide chips into folds. Reads chips.json, writes folds.json and folds.gpkg."""

import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from roadseg.arrays import Ints
from roadseg.commands.stages.declared_stages import declared_stage, set_names
from roadseg.config import Config
from roadseg.dataset.chips import NO_ZONE, ChipRecord, cut_grid, read_chips
from roadseg.dataset.fold_files import (
    part_chips,
    read_fold_file,
    road_by_fold,
    write_fold_layer,
    write_folds,
)
from roadseg.dataset.folds import (
    Matched,
    assign_folds,
    folds_by_name,
    ground_blocks,
    join_groups,
    matched_folds,
)
from roadseg.dataset.footprints import Pairs, near_pairs, nearest_m, same_place_pairs
from roadseg.dataset.options import SplitOptions
from roadseg.errors import DataError
from roadseg.raster.images import read_facts
from roadseg.raster.inputs import find_images
from roadseg.system.stage_records import read_record
from roadseg.system.text import Summary, count
from roadseg.system.units import distance_text
from roadseg.system.workspace import Workspace

_CHIP_PLACE = re.compile(r"_r\d+_c\d+$")  # What a chip's name has beyond its scene's.
_HOW = {
    "blocks": "in {} ground blocks",
    "places": "in {} places",
    "knndm": "in {} clusters",
    "random": "at random",
    "sets": "in {} sets, one per fold (split.folds is ignored)",
    "file": "by split.file",
}
_SMALLER = "lower split.folds, imagery.chip_px, split.block_m or split.buffer_m"
_APART = ("random", "sets", "file")  # Methods that refuse chips of one place in different folds.


@dataclass(frozen=True)
class SplitSummary(Summary):
    """The summary of split.

    Attributes:
        groups: number of groups of chips that were kept together.
        method: method by which they were assigned to folds.
        road_by_fold: share of road among the valid pixels of each fold.
        chips_of_sets: number of chips of each set in each fold; empty without sets. With method
            "sets", the first set is fold 0, and so on.
        mismatch_m: mean difference, in metres, between the distances of held-out chips to the
            training chips and those of the images in split.target; None with other methods.
        buffer_m: distance from held-out chips, in metres, below which chips are not trained on.
        buffer_by_fold: number of such chips for each held-out fold; empty without a buffer.
    """

    chips: int
    groups: int
    method: str
    chips_by_fold: list[int]
    road_by_fold: list[float]
    chips_of_sets: dict[str, list[int]] = field(default_factory=dict)
    mismatch_m: float | None = None
    buffer_m: float = 0.0
    buffer_by_fold: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the figures as a sentence."""
        how = _HOW[self.method].format(self.groups)
        if self.mismatch_m is not None:
            off = distance_text(self.mismatch_m)
            how += f", whose distances to training chips differ from those of split.target by {off}"
        sets = "; of ".join(f"{name} {_numbers(many)}" for name, many in self.chips_of_sets.items())
        of_sets = f" (of {sets})" if sets and self.method != "sets" else ""
        parts = [
            f"{count(self.chips, 'chip')} {how}",
            f"chips per fold: {_numbers(self.chips_by_fold)}{of_sets}",
            f"road pixels per fold: {', '.join(f'{share:.1%}' for share in self.road_by_fold)}",
        ]
        if self.method == "sets":
            folds = (f"{fold} {name}" for fold, name in enumerate(self.chips_of_sets))
            parts.append(f"folds: {', '.join(folds)}")
        if self.buffer_by_fold:
            near, lost = distance_text(self.buffer_m), _numbers(self.buffer_by_fold)
            parts.append(
                f"chips not trained on, nearer than {near} to the held-out ones, per fold: {lost}"
            )
        return "; ".join(parts)


def run(config: Config, workspace: Workspace, *, force: bool = False) -> SplitSummary:
    """Assign every chip of the run to a fold."""
    options = config.split
    stage = declared_stage("split", config, workspace)
    if done := stage.summary(SplitSummary, force=force):
        return done
    listed = read_chips(workspace.chips)
    chips = listed.chips
    labels = {scene.name: scene.labels for scene in listed.scenes}
    overlaps = same_place_pairs(chips, labels)
    set_of = listed.set_of
    sets = [set_of[chip.scene] for chip in chips]
    mismatch_m = None
    if options.method == "knndm":
        matched = _matched(config, workspace.chips, chips, sets, overlaps)
        folds, groups, mismatch_m = matched.folds, matched.clusters, matched.mismatch_m
    elif options.method == "file":
        prepared = read_record(workspace.record("prepare"))
        failed = prepared.failed if prepared else []
        folds, groups = _folds_of_file(config, chips, failed), options.folds
    elif options.method == "sets":
        names = set_names(config)
        folds, groups = _folds_of_sets(names, sets), len(names)
    else:
        folds, groups = _folds_of_groups(options, workspace.chips, chips, sets, overlaps)
    apart = overlaps[folds[overlaps[:, 0]] != folds[overlaps[:, 1]]]
    if len(apart):
        raise DataError(
            f"{workspace.chips}: {_overlap_text(chips, apart)}, but are in different folds; set "
            "split.method to blocks, which keeps them together, or give them one fold (split.file)"
        )
    named = {chip.name: int(fold) for chip, fold in zip(chips, folds, strict=True)}
    buffer_by_fold = _buffer_by_fold(options, workspace.chips, chips, named)
    stage.begin()
    write_folds(workspace.folds, named)
    write_fold_layer(workspace.fold_layer, chips, folds)
    summary = SplitSummary(
        chips=len(chips),
        groups=groups,
        method=options.method,
        chips_by_fold=np.bincount(folds).tolist(),
        road_by_fold=road_by_fold(chips, folds).tolist(),
        chips_of_sets={
            each.name: np.bincount(
                folds[np.array(sets) == each.name], minlength=folds.max() + 1
            ).tolist()
            for each in config.sets
            if each.name and each.name in sets
        },
        mismatch_m=mismatch_m,
        buffer_m=options.buffer_m,
        buffer_by_fold=buffer_by_fold,
    )
    stage.finish(summary, [workspace.folds, workspace.fold_layer])
    return summary


def _folds_of_sets(names: Sequence[str], sets: Sequence[str]) -> Ints:
    """Return the index of the set of each chip, which is its fold."""
    if missing := [name for name in names if name not in sets]:
        raise DataError(
            f"imagery.sets.{missing[0]}: this set has no chips and cannot be a fold; check which "
            "scenes failed, or set split.method to blocks"
        )
    return np.array([names.index(name) for name in sets], dtype=np.int64)


def _folds_of_groups(
    options: SplitOptions,
    source: Path,
    chips: Sequence[ChipRecord],
    sets: Sequence[str],
    overlaps: Pairs,
) -> tuple[Ints, int]:
    """Return the fold of each chip, and the number of groups."""
    alone = _groups(options, chips)
    groups = alone if options.method in _APART else join_groups(alone, overlaps)
    try:
        return assign_folds(groups, sets, folds=options.folds), len(set(groups))
    except ValueError as error:
        advice = _SMALLER
        if len(set(alone)) >= options.folds:
            joined = f"{_overlap_text(chips, overlaps)}, which joins their groups"
            advice = f"{joined}: remove images of the same ground, or {_SMALLER}"
        raise DataError(f"{source}: {error}; {advice}") from error


def _matched(
    config: Config, source: Path, chips: Sequence[ChipRecord], sets: Sequence[str], overlaps: Pairs
) -> Matched:
    """Return the folds whose distances match those of the images to be mapped."""
    options, target = config.split, _target_chips(config)
    nowhere = next((chip.name for chip in (*chips, *target) if chip.zone == NO_ZONE), None)
    if nowhere is not None:
        raise DataError(
            f"{nowhere} has no georeference, which split.method knndm needs for distances; give "
            "it one, or set split.method to blocks or random"
        )
    try:
        return matched_folds(
            chips,
            nearest_m(target, chips),
            sets,
            together=overlaps,
            folds=options.folds,
            buffer_m=options.buffer_m,
        )
    except ValueError as error:
        raise DataError(f"{source}: {error}; {_SMALLER}") from error


def _target_chips(config: Config) -> list[ChipRecord]:
    """Return the chips into which the images to be mapped would be cut."""
    imagery = config.imagery.model_copy(update={"bands": None})
    return [
        chip
        for name, path in find_images(config.split.target, setting="split.target").items()
        for chip in cut_grid(name, read_facts(path, imagery).grid, chip_px=imagery.chip_px)
    ]


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _groups(options: SplitOptions, chips: Sequence[ChipRecord]) -> Sequence[Hashable]:
    """Return the group of each chip, whose chips share a fold."""
    if options.method == "random":
        return [chip.name for chip in chips]
    if options.method == "places":
        alone = [chip.scene if chip.zone == NO_ZONE else chip.name for chip in chips]
        return join_groups(alone, near_pairs(chips, within_m=options.block_m))
    return ground_blocks(chips, block_m=options.block_m)


def _folds_of_file(config: Config, chips: Sequence[ChipRecord], failed: Collection[str]) -> Ints:
    """Return the fold of each chip from the user's file, which may also name failed scenes."""
    path = config.split.own_folds
    given = {
        name: fold
        for name, fold in read_fold_file(path).items()
        if name not in failed and _CHIP_PLACE.sub("", name) not in failed
    }
    names, scenes = [chip.name for chip in chips], [chip.scene for chip in chips]
    try:
        return folds_by_name(names, scenes, given, folds=config.split.folds)
    except ValueError as error:
        raise DataError(
            f"{path}: {error}; give every chip, or its scene, a fold from 0, and set split.folds "
            "to the number of folds"
        ) from error


def _buffer_by_fold(
    options: SplitOptions, source: Path, chips: Sequence[ChipRecord], folds: Mapping[str, int]
) -> list[int]:
    """Return the number of buffer chips of each fold; refuse a fold without training chips."""
    lost: list[int] = []
    for fold in range(max(folds.values()) + 1) if options.buffer_m > 0 else ():
        parted = part_chips(chips, folds, fold, buffer_m=options.buffer_m)
        if not parted.training:
            raise DataError(
                f"{source}: all {count(len(parted.buffer), 'chip')} outside of fold {fold} are "
                f"nearer than split.buffer_m ({options.buffer_m:g} m) to its chips, so none are "
                "left for training; lower split.buffer_m, or change the split"
            )
        lost.append(len(parted.buffer))
    return lost


def _overlap_text(chips: Sequence[ChipRecord], pairs: Pairs) -> str:
    first, second = (chips[index].name for index in pairs[0])
    if len(pairs) == 1:
        return f"{first} and {second} show the same ground, or share a label file"
    return (
        f"{len(pairs)} pairs of chips show the same ground, or share a label file, the first "
        f"{first} and {second}"
    )
