"""train: learn roads from chips and masks. Reads chips.json, folds.json; writes checkpoints/."""

import logging
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from roadseg.core.scaling import Scaling
from roadseg.errors import ConfigError
from roadseg.io.chips import ChipList, ChipRecord, read_chips
from roadseg.io.rasters import RasterFacts
from roadseg.io.records import StageRecord, read_json, read_key
from roadseg.learn.chips import Chip
from roadseg.learn.devices import Device
from roadseg.learn.distributed import Parallel, parallel
from roadseg.learn.history import Row, best_row
from roadseg.learn.learner import Sharing
from roadseg.learn.memory import keep_freed_memory
from roadseg.learn.training import train
from roadseg.networks import chosen_device, recipe_of
from roadseg.scenes import scene_facts
from roadseg.settings import Config
from roadseg.workspace import Workspace, require

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainSummary:
    """How the training of one fold ended."""

    fold: int
    training_chips: int
    validation_chips: int
    epochs: int
    best_epoch: int
    val_loss: float
    val_iou: float
    val_f1: float
    seconds: float
    checkpoint: str

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"fold {self.fold}: {self.epochs} epochs on {self.training_chips} chips in "
            f"{self.seconds:.0f} s; best epoch {self.best_epoch} on {self.validation_chips} held "
            f"out: loss {self.val_loss:.4f}, IoU {self.val_iou:.3f}, F1 {self.val_f1:.3f}; "
            f"{self.checkpoint}"
        )


def run(config: Config, workspace: Workspace, *, fold: int, force: bool = False) -> TrainSummary:
    """Train on the chips of all folds but one, and validate on that one."""
    listed = read_chips(require(workspace.chips, made_by="prepare"))
    folds = read_json(require(workspace.folds, made_by="split"))
    split_key = read_key(workspace.record("split"))
    record = StageRecord(
        workspace.train_record(fold),
        settings=config.train.model_dump(mode="json") | {"fold": fold},
        inputs=[split_key],
    )
    if not force and (done := record.summary()):
        return TrainSummary(**done)
    sides = _sides(listed.chips, folds, fold)
    device = chosen_device(config.compute)
    keep_freed_memory()
    with parallel(device) as processes:
        history = _train(
            config,
            workspace,
            listed,
            sides,
            facts={"fold": fold, "prepared_data": split_key},
            started=record.begin,
            anew=force,
            device=device,
            processes=processes,
        )
        best = best_row(history, config.train.best_by)
        summary = _summary(fold, sides, history, best, workspace.checkpoint(fold))
        if processes.first:
            record.finish(asdict(summary))
    return summary


def _sides(
    chips: tuple[ChipRecord, ...], folds: Mapping[str, int], fold: int
) -> tuple[list[ChipRecord], list[ChipRecord]]:
    """Return the chips to train on, and those to validate on."""
    training = [chip for chip in chips if folds[chip.name] != fold]
    validation = [chip for chip in chips if folds[chip.name] == fold]
    if not validation:
        raise ConfigError(
            f"--fold {fold}: there are folds 0 to {max(folds.values())} (split.folds)"
        )
    if not training:
        raise ConfigError(f"--fold {fold}: it holds all {len(validation)} chips; see split.folds")
    return training, validation


def _train(
    config: Config,
    workspace: Workspace,
    listed: ChipList,
    sides: tuple[list[ChipRecord], list[ChipRecord]],
    *,
    facts: dict[str, Any],
    started: Callable[[], None],
    anew: bool,
    device: Device,
    processes: Parallel,
) -> list[Row]:
    scaling = Scaling.from_json(read_json(workspace.scaling))
    scenes = {scene.name: scene_facts(scene.image, config.imagery) for scene in listed.scenes}
    sizes_m = [sum(scene.gsd_m) / 2 for scene in listed.scenes]
    training, validation = (
        [_chip(chip, scenes, workspace, scaling) for chip in side] for side in sides
    )
    return train(
        training,
        validation,
        workspace.checkpoint(facts["fold"]),
        recipe=recipe_of(config.train),
        facts={
            "bands": config.imagery.bands or next(iter(scenes.values())).bands,
            "gsd_m": statistics.median(sizes_m),
            "gsd_range_m": [min(sizes_m), max(sizes_m)],
            "band_names": _band_names(list(scenes.values())),
            "resample_m": config.imagery.gsd_m,
            "nodata": config.imagery.nodata,
            **facts,
        },
        bins=listed.bins,
        device=device,
        parallel=processes,
        sharing=Sharing(**config.train.distributed.model_dump()),
        workers=config.compute.workers,
        save_minutes=config.compute.save_minutes,
        tensorboard=config.train.tensorboard,
        anew=anew,
        started=started,
    )


def _summary(
    fold: int,
    sides: tuple[list[ChipRecord], list[ChipRecord]],
    history: list[Row],
    best: Row,
    folder: Path,
) -> TrainSummary:
    return TrainSummary(
        fold=fold,
        training_chips=len(sides[0]),
        validation_chips=len(sides[1]),
        epochs=len(history),
        best_epoch=int(best["epoch"]),
        val_loss=best["val_loss"],
        val_iou=best["val_iou"],
        val_f1=best["val_f1"],
        seconds=sum(row["seconds"] for row in history),
        checkpoint=str(folder),
    )


def _chip(
    chip: ChipRecord, scenes: dict[str, RasterFacts], workspace: Workspace, scaling: Scaling
) -> Chip:
    return Chip(scenes[chip.scene], workspace.mask(chip.scene), chip.window, scaling)


def _band_names(scenes: list[RasterFacts]) -> tuple[str, ...]:
    """Return the descriptions of the bands if all scenes have the same, else none."""
    names = {scene.names for scene in scenes}
    return names.pop() if len(names) == 1 else ()
