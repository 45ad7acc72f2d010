"""Bench: windows per second of training and inference."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.inference.engines import open_engine
from roadseg.learn.inference.sliding_window import predict_parts
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.trainer import Trainer
from roadseg.raster.scaling import Scaling
from roadseg.roads.masks.burning import IGNORE
from roadseg.system.progress import counted

_ROAD_SHARE = 0.05
_VALUES = 256  # Values that a byte can have.


def training_rate(
    options: TrainOptions, *, bands: int, bins: int, device: Device, steps: int, rounds: int
) -> float:
    """Return the windows per second of training steps.

    Args:
        bands: of the windows, which are noise in memory.
        rounds: number of steps, after one that is not counted.
    """
    batch = _noise(options.batch_size, bands, bins, options.window_px)
    trainer = noise_trainer(options, bands=bands, bins=bins, device=device)

    def learn() -> None:
        for _ in range(steps):
            trainer.step(batch, rate=options.learning_rate)

    return _rate(learn, steps * options.batch_size, rounds=rounds, device=device)


def inference_rate(
    options: TrainOptions,
    *,
    bands: int,
    bins: int,
    window_px: int,
    overlap_px: int,
    batch_size: int,
    device: Device,
    batches: int,
    rounds: int,
) -> float:
    """Return the windows per second of tiled inference, with PyTorch.

    Args:
        bands: of the scene, which is noise in memory.
        rounds: number of batches, after one that is not counted.
    """
    model = build_model(NetworkSpec.for_training(options, bands=bands, bins=bins)).eval()
    windows, stride = batches * batch_size, window_px - overlap_px
    engine = open_engine(
        Checkpoint(model, {"scaling": asdict(_scaling(bands))}),
        Path(),
        name="eager" if device.compiler is None else "inductor",
        device=device,
        window_px=window_px,
        batch_size=batch_size,
        windows=windows,
    )
    image = np.random.default_rng(0).integers(0, _VALUES, (bands, window_px, window_px), np.uint8)
    known = np.ones((window_px, window_px), dtype=bool)

    def predict() -> None:
        for _ in predict_parts(
            engine,
            lambda _: (image, known),
            classes=bins + 1,
            height=window_px,
            width=window_px + (windows - 1) * stride,
            overlap_px=overlap_px,
        ):
            pass

    return _rate(predict, windows, rounds=rounds, device=device)


def _rate(work: Callable[[], object], windows: int, *, rounds: int, device: Device) -> float:
    """Return the windows per second of some work: the median of rounds after one that warms up."""
    seconds = []
    for number in counted(range(rounds + 1), "measure", total=rounds + 1, unit="rounds"):
        begun = time.perf_counter()
        work()
        device.synchronize()
        if number:
            seconds.append(time.perf_counter() - begun)
    return windows / statistics.median(seconds)


def _noise(windows: int, bands: int, bins: int, side_px: int) -> tuple[Tensor, Tensor]:
    """Return images and masks with as many roads as there usually are."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, _VALUES, (windows, bands, side_px, side_px), np.uint8)
    masks = rng.integers(1, bins + 1, (windows, side_px, side_px), np.uint8)
    masks[rng.random(masks.shape) > _ROAD_SHARE] = 0
    masks[:, :8, :8] = IGNORE
    return torch.from_numpy(images), torch.from_numpy(masks)


def noise_trainer(options: TrainOptions, *, bands: int, bins: int, device: Device) -> Trainer:
    """Return a trainer as training starts with, whose images have mean 127 and deviation 64."""
    return Trainer(
        build_model(NetworkSpec.for_training(options, bands=bands, bins=bins)),
        options,
        scaling=_scaling(bands),
        device=device,
        parallel=Parallel(),
    )


def _scaling(bands: int) -> Scaling:
    return Scaling({}, mean=(127.0,) * bands, std=(64.0,) * bands)
