"""Bench: windows per second of training and inference, and of minimal loops of torch."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.inference.engines import open_engine
from roadseg.learn.inference.sliding_window import predict_parts
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import untrained_model
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.optimizers import build_optimizer
from roadseg.learn.training.trainer import Trainer
from roadseg.raster.scaling import Scaling
from roadseg.roads.masks.burning import IGNORE
from roadseg.system.progress import counted

_ROAD_SHARE = 0.05
_VALUES = 256  # Values that a byte can have.


@dataclass(frozen=True)
class Rate:
    """Windows per second: the median of some rounds.

    Attributes:
        ratio: median of the rounds' ratios.
    """

    roadseg: float
    bare: float
    ratio: float


def training_rate(
    options: TrainOptions, *, bands: int, bins: int, device: Device, steps: int, rounds: int
) -> Rate:
    """Compare the training step with a bare loop of the same model, batch, loss and precision.

    Args:
        bands: of the windows, which are noise in memory.
        rounds: of each, in turns, after a step of each that is not counted.
    """
    images, masks = _noise(options.batch_size, bands, bins, options.window_px)
    labels = [masks] + ([masks.clamp(max=1)] if options.loss.needs_skeletons else [])
    trainer = noise_trainer(options, bands=bands, bins=bins, device=device)

    def step() -> None:
        trainer.step((images, *labels), rate=options.learning_rate)

    bare = bare_step(options, images, labels, bins=bins, device=device)
    repeated = {"roadseg": _times(step, steps), "bare": _times(bare, steps)}
    return rates(repeated, windows=steps * options.batch_size, rounds=rounds, device=device)


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
) -> Rate:
    """Compare tiled inference with the same engine over as many windows in memory.

    Args:
        bands: of the scene, which is noise in memory.
        rounds: of each, in turns, after one of each that is not counted.
    """
    model = _model(options, bands, bins, device).eval()
    engine = open_engine(
        Checkpoint(model, {"scaling": asdict(_scaling(bands))}),
        Path(),
        name="eager" if device.compiler is None else "inductor",
        device=device,
        window_px=window_px,
        batch_size=batch_size,
        windows=batches * batch_size,
    )
    windows, stride = batches * batch_size, window_px - overlap_px
    image = np.random.default_rng(0).integers(0, _VALUES, (bands, window_px, window_px), np.uint8)
    known = np.ones((window_px, window_px), dtype=bool)

    def scene() -> None:
        for _ in predict_parts(
            engine,
            lambda _: (image, known),
            classes=bins + 1,
            height=window_px,
            width=window_px + (windows - 1) * stride,
            overlap_px=overlap_px,
        ):
            pass

    batch = torch.from_numpy(np.stack([image] * batch_size))

    def bare() -> None:
        for _ in range(batches):
            engine.run(batch).cpu()

    return rates({"roadseg": scene, "bare": bare}, windows=windows, rounds=rounds, device=device)


def bare_step(
    options: TrainOptions, images: Tensor, labels: Sequence[Tensor], *, bins: int, device: Device
) -> Callable[[], None]:
    """Return a step of training as short as torch allows, on tensors that are on the device."""
    model = _model(options, images.shape[1], bins, device)
    model, optimizer = device.for_training(
        model, build_optimizer(model.parameters(), rate=options.learning_rate, device=device)
    )
    network = device.compile(model).train()
    scaler = device.scaler()
    ready = device.to(images.float().sub(127).div(64))
    wanted = [device.to(label) for label in labels]

    def step() -> None:
        with device.autocast():
            logits = network(ready)
        sums = loss_sums(logits.float(), *wanted, weights=options.loss)
        scaler.scale(loss_of(sums, weights=options.loss)).backward()  # type: ignore[no-untyped-call]
        device.mark()
        scaler.step(optimizer)
        scaler.update()
        device.mark()
        optimizer.zero_grad(set_to_none=True)

    return step


def rates(
    works: Mapping[str, Callable[[], object]], *, windows: int, rounds: int, device: Device
) -> Rate:
    """Time two kinds of work, "roadseg" and "bare", in turns, after one of each unmeasured.

    Args:
        works: functions to time, each over a number of windows.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in counted(range(rounds + 1), "measure", total=rounds + 1, unit="rounds"):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            device.synchronize()
            if number:
                seconds[name].append(time.perf_counter() - begun)
    ratios = [b / a for a, b in zip(seconds["roadseg"], seconds["bare"], strict=True)]
    medians = {name: windows / statistics.median(each) for name, each in seconds.items()}
    return Rate(medians["roadseg"], medians["bare"], statistics.median(ratios))


def _times(work: Callable[[], None], count: int) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(count):
            work()

    return repeat


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
        _model(options, bands, bins, device),
        options,
        scaling=_scaling(bands),
        device=device,
        parallel=Parallel(),
    )


def _model(options: TrainOptions, bands: int, bins: int, device: Device) -> nn.Module:
    return device.to(untrained_model(options, bands=bands, bins=bins))


def _scaling(bands: int) -> Scaling:
    return Scaling({}, mean=(127.0,) * bands, std=(64.0,) * bands)
