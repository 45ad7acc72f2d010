"""predict: road probabilities of scenes. Reads a checkpoint, writes probabilities/<scene>.tif."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from roadseg.core.scaling import Scaling
from roadseg.core.windows import Rows, Window
from roadseg.errors import CheckpointError
from roadseg.io.chips import read_chips
from roadseg.io.probabilities import read_key as read_probability_key
from roadseg.io.probabilities import write_probability
from roadseg.io.rasters import RasterFacts, read_facts, read_window
from roadseg.io.records import StageRecord, file_facts, key_of, read_json, read_key
from roadseg.io.sources import find_images
from roadseg.labels import crs_setting
from roadseg.learn.checkpoints import Checkpoint, checkpoint_path, load_checkpoint
from roadseg.learn.devices import Device
from roadseg.learn.inference import predict_windows
from roadseg.networks import chosen_device
from roadseg.settings import Config, ImageryConfig, PredictConfig
from roadseg.workspace import Workspace, require

logger = logging.getLogger(__name__)

_GSD_TOLERANCE = 0.2


@dataclass(frozen=True)
class PredictSummary:
    """What was predicted."""

    checkpoint: str
    fold: int | None
    scenes: list[str]
    megapixels: float
    folder: str

    def __str__(self) -> str:
        """Say it in a sentence."""
        return f"{len(self.scenes)} scenes, {self.megapixels:.1f} megapixels; {self.folder}"


def run(config: Config, workspace: Workspace, *, fold: int, force: bool = False) -> PredictSummary:
    """Predict the scenes of the run: those with chips held out by the fold, or all of them."""
    record = StageRecord(
        workspace.record("predict"),
        settings=config.predict.model_dump(mode="json") | {"fold": fold},
        inputs=[read_key(require(workspace.train_record(fold), made_by=f"train --fold {fold}"))],
    )
    if not force and (done := record.summary()):
        return PredictSummary(**done)
    listed, folds = read_chips(workspace.chips), read_json(workspace.folds)
    held_out = {chip.scene for chip in listed.chips if folds[chip.name] == fold}
    scenes = {
        scene.name: scene.image
        for scene in listed.scenes
        if config.predict.scenes == "all" or scene.name in held_out
    }
    record.begin()
    summary = _predict_all(
        config,
        scenes,
        folder=workspace.probabilities,
        checkpoint=workspace.checkpoint(fold),
        force=force,
    )
    record.finish(asdict(summary))
    return summary


def run_images(
    config: Config, images: Iterable[str], *, checkpoint: Path, output: Path, force: bool = False
) -> PredictSummary:
    """Predict any images with a checkpoint folder, which alone is enough."""
    found = find_images(images)
    return _predict_all(config, found, folder=output, checkpoint=checkpoint, force=force)


@dataclass(frozen=True)
class _Network:
    checkpoint: Checkpoint
    device: Device
    options: PredictConfig


def _predict_all(
    config: Config, scenes: dict[str, Path], *, folder: Path, checkpoint: Path, force: bool
) -> PredictSummary:
    loaded = load_checkpoint(checkpoint)
    device = chosen_device(config.compute)
    network = _Network(loaded, device, config.predict)
    options = _pixel_options(config.imagery, loaded)
    crs = crs_setting(config.imagery.crs, "imagery.crs")
    facts = {name: read_facts(path, crs=crs, **options) for name, path in scenes.items()}
    for scene in facts.values():
        _require_fit(scene, loaded)
    settings = config.predict.model_dump(mode="json", exclude={"scenes"}) | options
    for name, scene in facts.items():
        key = key_of(settings, file_facts([scene.path, checkpoint_path(checkpoint, "best")]))
        path = folder / f"{name}.tif"
        if force or read_probability_key(path) != key:
            _predict(network, scene, path, key)
    return PredictSummary(
        checkpoint=str(checkpoint),
        fold=loaded.facts.get("fold"),
        scenes=list(scenes),
        megapixels=sum(scene.grid.height * scene.grid.width for scene in facts.values()) / 1e6,
        folder=str(folder),
    )


def _pixel_options(imagery: ImageryConfig, checkpoint: Checkpoint) -> dict[str, Any]:
    """Read pixels as in training; the config adds what the training images did not need."""
    facts = checkpoint.facts
    return {
        "bands": tuple(facts["bands"]),
        "gsd_m": facts["resample_m"] or imagery.gsd_m,
        "nodata": imagery.nodata if facts["nodata"] is None else facts["nodata"],
    }


def _require_fit(scene: RasterFacts, checkpoint: Checkpoint) -> None:
    """Refuse pixels that the network has never seen the like of."""
    known = checkpoint.scaling.ranges
    if scene.dtype not in known:
        raise CheckpointError(
            f"{scene.path}: pixels of {scene.dtype}, but the checkpoint was trained on "
            f"{' and '.join(known)} (imagery.images); convert the image or train on its like"
        )
    trained_m, found_m = float(checkpoint.facts["gsd_m"]), sum(scene.grid.pixel_size_m) / 2
    if abs(found_m / trained_m - 1) > _GSD_TOLERANCE:
        logger.warning(
            "%s: its pixels of %.2f m are not the %.2f m that the checkpoint was trained on",
            scene.path,
            found_m,
            trained_m,
        )


def _predict(network: _Network, scene: RasterFacts, path: Path, key: str) -> None:
    checkpoint, grid = network.checkpoint, scene.grid
    rows = predict_windows(
        checkpoint.model,
        lambda window: _read(scene, window, checkpoint.scaling),
        classes=checkpoint.bins.count + 1,
        height=grid.height,
        width=grid.width,
        window_px=network.options.window_px,
        overlap_px=network.options.overlap_px,
        batch_size=network.options.batch_size,
        scaling=checkpoint.scaling,
        device=network.device,
    )
    tags = {
        "ROADSEG_SOURCE": scene.path.name,
        "ROADSEG_FOLD": str(checkpoint.facts.get("fold")),
        "ROADSEG_EPOCH": str(checkpoint.facts["epoch"]),
        "ROADSEG_VERSION": str(checkpoint.facts["versions"]["roadseg"]),
    }
    with tqdm(total=grid.height, unit="row", desc=path.stem, disable=None, leave=False) as bar:
        shown = _watched(rows, bar)
        write_probability(path, shown, grid, bins=checkpoint.bins, key=key, tags=tags)


def _watched(rows: Iterable[Rows], bar: "tqdm[NoReturn]") -> Iterator[Rows]:
    for finished in rows:
        yield finished
        bar.update(finished.known.shape[0])


def _read(
    scene: RasterFacts, window: Window, scaling: Scaling
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Read a window in whole; beyond the scene's edge its pixels are mirrored and not valid."""
    row, col, height, width = window
    inside = Window(
        row, col, min(height, scene.grid.height - row), min(width, scene.grid.width - col)
    )
    bands, valid = read_window(scene, inside)
    beyond = ((0, height - inside.height), (0, width - inside.width))
    mirrored = np.pad(scaling.apply(bands), ((0, 0), *beyond), mode="symmetric")
    return mirrored, np.pad(valid, beyond)
