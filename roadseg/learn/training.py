"""Training: from chips to checkpoints, epoch by epoch; an interrupted training goes on."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

from roadseg.core.masks import BACKGROUND, IGNORE
from roadseg.core.pixel_metrics import Counts
from roadseg.core.scaling import Scaling
from roadseg.core.speeds import SpeedBins
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.io.records import versions
from roadseg.learn.augment import use_one_thread
from roadseg.learn.checkpoints import (
    load_optimizer,
    load_weights,
    save_checkpoint,
)
from roadseg.learn.chips import Chip, ShuffledEpoch, TrainingWindows, ValidationWindows
from roadseg.learn.devices import Device
from roadseg.learn.history import Row, best_row, has_ended, read_history, write_metrics
from roadseg.learn.losses import road_loss
from roadseg.learn.models import Normalise, build_model, check_window

_log = logging.getLogger(__name__)
_CHECK_EVERY = 20  # steps between looks at the loss, each of which waits for the device

Batches = Iterable[tuple[Tensor, Tensor]]  # images and masks


def train(
    training: Sequence[Chip],
    validation: Sequence[Chip],
    folder: Path,
    *,
    facts: Mapping[str, Any],
    bins: SpeedBins,
    architecture: str,
    encoder: str,
    encoder_weights: str | None,
    window_px: int,
    windows_per_chip: int,
    batch_size: int,
    epochs: int,
    patience: int,
    learning_rate: float,
    lr_milestones: tuple[int, ...],
    lr_gamma: float,
    clip_norm: float,
    focal: float,
    dice: float,
    seed: int,
    workers: int,
    device: Device,
    started: Callable[[], None] = lambda: None,
) -> list[Row]:
    """Train a network, or go on with the training that `folder` holds.

    Every finished epoch leaves `last.safetensors` (all that the next epoch needs),
    `best.safetensors` (the epoch with the lowest validation loss) and `metrics.csv`. Called
    again with the same settings it starts after the last finished epoch, and on a CPU ends with
    the same weights as if it had never stopped; only `epochs` and `patience` may change.

    Args:
        training: chips to learn from.
        validation: chips to measure on.
        folder: where checkpoints and metrics are written.
        facts: JSON values to keep in the checkpoint beside those known here (bands, GSD, ...);
            a training goes on only with the same ones.
        bins: speed bins of the masks.
        architecture: name in segmentation-models.
        encoder: name in segmentation-models.
        encoder_weights: name of pretrained weights, None to start from scratch.
        window_px: side of the windows, a multiple of 32.
        windows_per_chip: training windows drawn from each chip an epoch.
        batch_size: windows a step.
        epochs: passes over the chips.
        patience: stop when the validation loss has not improved for so many epochs.
        learning_rate: of Adam.
        lr_milestones: epochs after which the learning rate drops.
        lr_gamma: it drops by this factor.
        clip_norm: largest norm of the gradient.
        focal: weight of the focal loss.
        dice: weight of the dice loss.
        seed: decides first weights, windows and augmentation.
        workers: processes that read and augment windows; 0 does it here.
        device: where the network runs.
        started: called once the folder is known to hold this training or none.

    Returns:
        One row an epoch, as in metrics.csv.

    Raises:
        ConfigError: if the settings do not go together, or the folder holds a training that had
            others.
        DataError: if a chip cannot be read, or no validation pixel has data.
        RoadsegError: if the loss is no longer a number.
    """
    check_window(window_px)
    scaling = _shared_scaling([*training, *validation])
    shape = {"in_channels": len(scaling.mean), "classes": bins.count + 1}
    settings = {
        **facts,
        "architecture": architecture,
        "encoder": encoder,
        "encoder_weights": encoder_weights,
        **shape,
        "bin_edges": bins.edges,
        "bin_unit": bins.unit,
        "scaling": asdict(scaling),
        "window_px": window_px,
        "windows_per_chip": windows_per_chip,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "lr_milestones": lr_milestones,
        "lr_gamma": lr_gamma,
        "clip_norm": clip_norm,
        "focal": focal,
        "dice": dice,
        "seed": seed,
        "training_chips": _digest(training),
        "validation_chips": _digest(validation),
    }
    history = read_history(folder, settings)
    started()
    if has_ended(history, epochs, patience):
        return history

    with _seeded(device, seed, 0):
        model = build_model(
            architecture=architecture,
            encoder=encoder,
            encoder_weights=None if history else encoder_weights,
            **shape,
        )
    network = device.to(nn.Sequential(Normalise(scaling), model))
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    if history:
        load_weights(folder, "last", model)
        load_optimizer(folder, "last", optimizer)
        _log.info("%s: going on after epoch %d", folder, len(history))

    windows = TrainingWindows(
        training, window_px=window_px, windows_per_chip=windows_per_chip, seed=seed
    )
    order = ShuffledEpoch(len(windows), seed=seed)
    batches = _loader(windows, batch_size, workers, device, sampler=order, drop_last=True)
    if len(batches) == 0:
        raise ConfigError(
            f"batch_size: expected at most {len(windows)}, the windows an epoch, got {batch_size}"
        )
    covers = ValidationWindows(validation, window_px=window_px)
    validation_batches = _loader(covers, batch_size, workers, device)

    while not has_ended(history, epochs, patience):
        epoch = order.epoch = len(history) + 1
        rate = learning_rate * lr_gamma ** sum(epoch > milestone for milestone in lr_milestones)
        for group in optimizer.param_groups:
            group["lr"] = rate
        begun = time.monotonic()
        with _seeded(device, seed, epoch):
            train_loss = _train_epoch(
                network,
                optimizer,
                tqdm(batches, f"epoch {epoch}", unit="batch", leave=False, disable=None),
                device,
                clip_norm=clip_norm,
                focal=focal,
                dice=dice,
            )
            trained = time.monotonic()
            scores = _validate(network, validation_batches, device, focal=focal, dice=dice)
        row = {
            "epoch": epoch,
            "train_loss": train_loss,
            **scores,
            "learning_rate": rate,
            "seconds": round(time.monotonic() - begun, 3),
            "windows_per_s": round(len(batches) * batch_size / (trained - begun), 3),
        }
        history.append(row)
        now = {**settings, "epoch": epoch, "score": scores, "versions": versions()}
        write_metrics(folder / "metrics.csv", history)
        if best_row(history) is row:  # "last" is last: once it is there, all is
            save_checkpoint(folder, "best", model, now)
        save_checkpoint(folder, "last", model, {**now, "history": history}, optimizer)
        _log.info(
            "epoch %d of %d: training loss %.4f, validation loss %.4f, IoU %.3f, %.1f windows/s",
            *(epoch, epochs, train_loss, row["val_loss"], row["val_iou"], row["windows_per_s"]),
        )
    return history


def _train_epoch(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    device: Device,
    *,
    clip_norm: float,
    focal: float,
    dice: float,
) -> float:
    """Take one step a batch; return the mean loss."""
    network.train()
    total, step = torch.zeros((), device=device.type), 0
    for step, (images, masks) in enumerate(batches, start=1):
        with device.autocast():
            logits = network(device.to(images))
        loss = road_loss(logits, device.to(masks), focal=focal, dice=dice)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), clip_norm)
        optimizer.step()
        total += loss.detach()
        if step % _CHECK_EVERY == 0:
            _finite(total)
    return _finite(total) / step


@torch.no_grad()
def _validate(
    network: nn.Module, batches: Batches, device: Device, *, focal: float, dice: float
) -> Row:
    """Measure the loss, and IoU and F1 of any road at probability 0.5, over all valid pixels."""
    network.eval()
    total = torch.zeros((), device=device.type)
    counts = torch.zeros(4, dtype=torch.int64, device=device.type)
    windows = 0
    for images, masks in batches:
        on_device = device.to(masks)
        with device.autocast():
            logits = network(device.to(images))
        total += road_loss(logits, on_device, focal=focal, dice=dice) * len(images)
        counts += _count(logits, on_device)
        windows += len(images)
    valid, *ratios = counts.tolist()
    if valid == 0:
        raise DataError(
            "the validation chips hold no pixel with data; split the chips in another way"
        )
    roads = Counts(*ratios)
    return {"val_loss": _finite(total) / windows, "val_iou": roads.iou, "val_f1": roads.f1}


def _count(logits: Tensor, masks: Tensor) -> Tensor:
    """Count valid pixels, and true positives, false positives and false negatives among them."""
    valid = masks != IGNORE
    reference = valid & (masks != BACKGROUND)
    predicted = valid & (logits[:, -1] > 0)
    found = reference & predicted
    return torch.stack([m.sum() for m in (valid, found, predicted & ~found, reference & ~found)])


def _finite(total: Tensor) -> float:
    value = float(total)
    if not np.isfinite(value):
        raise RoadsegError(
            "the loss is no longer a number; lower train.learning_rate or use precision fp32"
        )
    return value


def _loader(
    windows: Dataset[tuple[Tensor, Tensor]],
    batch_size: int,
    workers: int,
    device: Device,
    **options: Any,  # noqa: ANN401 - DataLoader's
) -> DataLoader[tuple[Tensor, Tensor]]:
    return DataLoader(
        windows,
        batch_size,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.pin_memory,
        worker_init_fn=use_one_thread,
        **options,
    )


@contextmanager
def _seeded(device: Device, *numbers: int) -> Iterator[None]:
    """Seed torch's generators (first weights, dropout) for a while; then they are as before."""
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
        yield


def _shared_scaling(chips: Sequence[Chip]) -> Scaling:
    first = chips[0]
    for chip in chips:
        if chip.scaling != first.scaling:
            raise DataError(
                f"{chip.scene.path} has another scaling than {first.scene.path}, "
                "expected one for all"
            )
    return first.scaling


def _digest(chips: Sequence[Chip]) -> str:
    """Return what tells one list of chips from another, wherever their folder lies."""
    text = repr([(chip.scene.path.name, tuple(chip.window)) for chip in chips])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
