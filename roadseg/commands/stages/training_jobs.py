"""Training jobs: the chips of a run, split for a fold, and how to train on them."""

import logging
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roadseg.commands.stages.declared_stages import declared_stage, fold_numbers
from roadseg.config import Config
from roadseg.dataset.chips import ChipList, ChipRecord, SceneRecord, read_chips
from roadseg.dataset.fold_files import read_fold_chips
from roadseg.errors import ConfigError, DataError, MissingInputError
from roadseg.learn.hardware.devices import chosen_device
from roadseg.learn.inference.compatibility import fits
from roadseg.learn.network.checkpoint_facts import (
    Facts,
    checkpoint_path,
    read_checkpoint_facts,
    threshold_of,
)
from roadseg.learn.training.samples import Chip
from roadseg.learn.training.timetable import planned_before
from roadseg.learn.training.train import TrainingJob
from roadseg.raster.images import RasterFacts, read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.scaling import Scaling, read_scaling
from roadseg.roads.labels.traffic import DEFAULT
from roadseg.system.stage_records import read_stage_key, read_summary
from roadseg.system.workspace import Fold, Workspace

_log = logging.getLogger(__name__)

_FROM_FOLDS = ("from_folds", "threshold", "thresholds")  # Facts that a training takes over.
_SAME_SIZE = 1e-3  # Relative difference up to which pixels are of one size.


def training_job(
    config: Config, workspace: Workspace, fold: Fold, *, force: bool = False
) -> TrainingJob:
    """Return the training of a fold: its chips, options and device.

    Args:
        workspace: run folder with the outputs of prepare and split.
        fold: fold to hold out; "all" holds none out.
        force: whether to start a training on all chips again, even if it has begun.

    Raises:
        ConfigError: if there is no such fold, or no chip is left to train on.
        DataError: if no training chip has a road.
        MissingInputError: if an earlier stage has not run.
    """
    listed = read_chips(workspace.chips)
    sides = _read_sides(workspace, listed.chips, fold)
    scaling = read_scaling(workspace.scaling)
    imagery, scenes = config.imagery_of(listed.set_of), scenes_to_learn(config, listed)
    names = {facts.names for facts in scenes.values()}
    sizes_m = [sum(scene.gsd_m) / 2 for scene in listed.scenes]
    training, validation = (
        chips_to_learn(config, workspace, listed, side, scenes=scenes, scaling=scaling)
        for side in sides
    )
    job = TrainingJob(
        training,
        validation,
        config.train,
        facts={
            **_read_as(list(imagery.values()), list(scenes.values())),
            "gsd_m": statistics.median(sizes_m),
            "gsd_range_m": [min(sizes_m), max(sizes_m)],
            **seen_sizes(config.train.init, sizes_m),
            "band_names": names.pop() if len(names) == 1 else (),
            "fold": fold,
            "labels_have_speeds": _have_speeds(workspace),
            "prepared_data": read_stage_key(workspace.record("split")),
        },
        bins=listed.bins,
        device=chosen_device(config.compute),
    )
    return job if fold != "all" else _on_all_chips(config, workspace, job, force=force)


def seen_sizes(init: Path | None, sizes_m: Sequence[float]) -> dict[str, Any]:
    """Return the pixel sizes to which windows are resampled for a network, as facts; else nothing.

    A network that starts from another one keeps the sizes of that network, if these fit the pixels
    of all scenes.

    Args:
        init: checkpoint folder of the other network; None if there is none.
        sizes_m: pixel size of each scene, metres.
    """
    if init is None or not (seen_m := read_checkpoint_facts(init, "best").get("pixel_sizes_m")):
        return {}
    return {"pixel_sizes_m": list(seen_m)} if all(fits(m, seen_m) for m in sizes_m) else {}


def scenes_to_learn(config: Config, listed: ChipList) -> dict[str, RasterFacts]:
    """Return the facts of each scene by its name.

    Raises:
        DataError: if the pixels of a scene have another size than its mask.
    """
    imagery = config.imagery_of(listed.set_of)
    return {scene.name: _facts_of(scene, imagery[scene.name]) for scene in listed.scenes}


def chips_to_learn(
    config: Config,
    workspace: Workspace,
    listed: ChipList,
    records: Sequence[ChipRecord],
    *,
    scenes: Mapping[str, RasterFacts],
    scaling: Scaling,
) -> list[Chip]:
    """Return the chips of some records of the list, with all that is needed to read them."""
    set_of, weights = listed.set_of, _scene_weights(config, listed)
    return [
        Chip(
            scenes[record.scene],
            workspace.mask(record.scene),
            record.window,
            scaling,
            set=set_of[record.scene],
            weight=weights[record.scene],
        )
        for record in records
    ]


def _have_speeds(workspace: Workspace) -> bool:
    """Return whether labels state speeds, or have several; else one speed was assumed for all."""
    from roadseg.dataset.quality import PrepareSummary  # Not needed to predict.

    prepared = read_summary(workspace.record("prepare"), PrepareSummary)
    shares = prepared.pixel_share_by_speed_bin.values()
    is_stated = bool(prepared.roads_by_speed_source.keys() - {DEFAULT})
    return is_stated or sum(share > 0 for share in shares) != 1


def _facts_of(scene: SceneRecord, options: ImageryOptions) -> RasterFacts:
    """Return the facts of a scene; refuse pixels of another size than those of its mask."""
    facts = read_facts(scene.image, options, part=scene.part)
    now_m, then_m = sum(facts.grid.pixel_size_m) / 2, sum(scene.gsd_m) / 2
    if not math.isclose(now_m, then_m, rel_tol=_SAME_SIZE):
        raise DataError(
            f"{scene.image}: found pixels of {now_m:.3g} m, expected {then_m:.3g} m as in its "
            "mask; run `roadseg prepare` again, or set imagery.gsd_m as it was"
        )
    return facts


def _read_sides(
    workspace: Workspace, chips: Sequence[ChipRecord], fold: Fold
) -> tuple[list[ChipRecord], list[ChipRecord]]:
    """Return the chips to train on, and those to validate on."""
    parted = read_fold_chips(workspace, chips, fold)
    training, validation = parted.training, parted.held_out
    if not validation and fold != "all":
        raise ConfigError(
            f"--fold {fold} does not exist; choose 0 to {fold_numbers(workspace)[-1]} (split.folds)"
        )
    if not training:
        raise ConfigError(
            f"--fold {fold} contains all {len(validation)} chips, so none are left for "
            "training; change the split"
        )
    if not any(chip.road_share for chip in training):
        raise DataError(
            f"--fold {fold}: none of the {len(training)} training chips has a road; label more "
            "chips with roads, or change the split (split.block_m, split.method)"
        )
    if validation and not any(chip.road_share for chip in validation):
        _log.warning(
            "fold %d: none of the %d held-out chips has a road, so the scores are meaningless",
            *(fold, len(validation)),
        )
    return training, validation


def _on_all_chips(
    config: Config, workspace: Workspace, job: TrainingJob, *, force: bool
) -> TrainingJob:
    """Return the training on all chips, with what those that held out a fold have found.

    It has as many epochs as the folds needed on average to their best one, over which the learning
    rate is planned. If the time of a training is limited, it has the epochs and steps planned for a
    fold, and so the same time.
    """
    folder, options = workspace.checkpoint("all"), job.options
    if not force and checkpoint_path(folder, "last").exists():
        # It goes on as it has begun, also with its own plan of a limited time.
        facts = read_checkpoint_facts(folder, "last")
        found = {key: facts[key] for key in _FROM_FOLDS if key in facts}
    else:
        weights = _trained_folds(config, workspace)
        found = _facts_of_folds(workspace, weights)
        if options.minutes is not None:
            fold, weight = next(iter(weights.items()))
            options = planned_before(workspace.checkpoint(fold), options)
            share = weight / sum(chip.weight for chip in job.training)
            steps = {"windows_per_chip": options.windows_per_chip * share}
            options = options.model_copy(update=steps)
    if options.minutes is None:
        options = options.model_copy(update={"epochs": found["from_folds"]["epochs"]})
    return replace(job, options=options, facts={**job.facts, **found})


def _trained_folds(config: Config, workspace: Workspace) -> dict[int, float]:
    """Return the folds whose trainings are up to date with this config.

    Returns:
        The sum of the weights of the training chips, by the number of the fold.
    """
    listed = read_chips(workspace.chips)
    weights, trained = _scene_weights(config, listed), {}
    for fold in fold_numbers(workspace):
        if declared_stage("train", config, workspace, fold).reason() is None:
            chips = read_fold_chips(workspace, listed.chips, fold).training
            trained[fold] = sum(weights[chip.scene] for chip in chips)
    if not trained:
        raise MissingInputError(
            f"{workspace.checkpoint(0)}: no fold has been trained with this config, so the "
            "number of epochs is unknown; run `roadseg train --fold 0` first"
        )
    return trained


def _facts_of_folds(workspace: Workspace, folds: Iterable[int]) -> Facts:
    """Return the scores of folds, the mean of their best epochs and of their thresholds.

    There is a threshold for all chips, and one for each set for which it was measured.
    """
    facts = {fold: read_checkpoint_facts(workspace.checkpoint(fold), "best") for fold in folds}
    every = list(facts.values())
    sets = sorted(set().union(*(each.get("thresholds", {}) for each in every)))
    by_set = {
        name: threshold_of([each for each in every if name in each.get("thresholds", {})], name)
        for name in sets
    }
    shared: Facts = {
        "from_folds": {
            "epochs": max(1, round(statistics.fmean(each["epoch"] for each in every))),
            "scores": {str(fold): each["score"] for fold, each in facts.items()},
        }
    }
    if (threshold := threshold_of(every)) is not None:
        shared |= {"threshold": threshold} | ({"thresholds": by_set} if by_set else {})
    return shared


def _scene_weights(config: Config, listed: ChipList) -> dict[str, float]:
    """Return by the name of each scene how often its chips are drawn, relative to other sets."""
    weights = {each.name: each.weight for each in config.sets}
    return {scene: weights.get(name, 1.0) for scene, name in listed.set_of.items()}


def _read_as(imagery: Sequence[ImageryOptions], scenes: Sequence[RasterFacts]) -> dict[str, Any]:
    """Return how scenes are read, as far as it is one for all; None says that each has its own.

    Args:
        imagery: options with which each scene was read.
    """
    sizes, nodata = ({getattr(each, key) for each in imagery} for key in ("gsd_m", "nodata"))
    # Where a set names its bands, those count; others take the bands that stand here.
    both = zip(imagery, scenes, strict=True)
    unnamed = (facts.bands for own, facts in both if own.bands is None)
    return {
        "bands": next(unnamed, imagery[0].bands),
        "resample_m": sizes.pop() if len(sizes) == 1 else None,
        "nodata": nodata.pop() if len(nodata) == 1 else None,
    }
