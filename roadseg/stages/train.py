"""train: learn roads from chips and masks. Reads chips.json, folds.json; writes checkpoints/."""

import logging
import shutil
import statistics
from dataclasses import asdict, dataclass

from roadseg.core.scaling import Scaling
from roadseg.errors import ConfigError
from roadseg.io.chips import ChipRecord, SceneRecord, read_chips
from roadseg.io.rasters import RasterFacts
from roadseg.io.records import StageRecord, read_json, read_key
from roadseg.learn.chips import Chip
from roadseg.learn.devices import pick_device
from roadseg.learn.history import best_row
from roadseg.learn.training import train
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
    folder = workspace.checkpoint(fold)
    split_key = read_key(workspace.record("split"))
    record = StageRecord(
        workspace.train_record(fold),
        settings=config.train.model_dump(mode="json") | {"fold": fold},
        inputs=[split_key],
    )
    if not force and (done := record.summary()):
        return TrainSummary(**done)
    if force:
        shutil.rmtree(folder, ignore_errors=True)
    training = [chip for chip in listed.chips if folds[chip.name] != fold]
    validation = [chip for chip in listed.chips if folds[chip.name] == fold]
    if not validation:
        raise ConfigError(
            f"--fold {fold}: there are folds 0 to {max(folds.values())} (split.folds)"
        )
    if not training:
        raise ConfigError(f"--fold {fold}: it holds all {len(validation)} chips; see split.folds")
    device = pick_device(config.compute.device, config.compute.precision)
    logger.info(device.reason)
    scaling = Scaling.from_json(read_json(workspace.scaling))
    scenes = {scene.name: scene_facts(scene.image, config.imagery) for scene in listed.scenes}
    history = train(
        [_chip(chip, scenes, workspace, scaling) for chip in training],
        [_chip(chip, scenes, workspace, scaling) for chip in validation],
        folder,
        facts={
            "bands": config.imagery.bands or next(iter(scenes.values())).bands,
            "gsd_m": _median_gsd_m(listed.scenes),
            "resample_m": config.imagery.gsd_m,
            "nodata": config.imagery.nodata,
            "fold": fold,
            "prepared_data": split_key,
        },
        bins=listed.bins,
        workers=config.compute.workers,
        device=device,
        started=record.begin,
        **config.train.model_dump(),
    )
    best = best_row(history)
    summary = TrainSummary(
        fold=fold,
        training_chips=len(training),
        validation_chips=len(validation),
        epochs=len(history),
        best_epoch=int(best["epoch"]),
        val_loss=best["val_loss"],
        val_iou=best["val_iou"],
        val_f1=best["val_f1"],
        seconds=sum(row["seconds"] for row in history),
        checkpoint=str(folder),
    )
    record.finish(asdict(summary))
    return summary


def _chip(
    chip: ChipRecord, scenes: dict[str, RasterFacts], workspace: Workspace, scaling: Scaling
) -> Chip:
    return Chip(scenes[chip.scene], workspace.mask(chip.scene), chip.window, scaling)


def _median_gsd_m(scenes: tuple[SceneRecord, ...]) -> float:
    return statistics.median(sum(scene.gsd_m) / 2 for scene in scenes)
