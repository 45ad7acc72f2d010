"""Rehearsal: how long a training will take on this machine, from a few windows of its own."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from roadseg.learn.hardware.devices import Device
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import Normalise, check_batch, untrained_model
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.samples import ValidationWindows, training_windows
from roadseg.learn.training.train import TrainingJob

_WINDOWS = 2  # Windows that are rehearsed together; the time of one hardly depends on how many.
_ROUNDS = 2  # The last one counts; the first one warms up.


def epoch_seconds(job: TrainingJob, *, workers: int) -> float:
    """Return how long one epoch of a training will take here, with its validation.

    A few of its windows are read and augmented, and go through a network like its own, forwards
    and backwards and once more as in validation. Nothing that is random elsewhere changes.
    Compilers are left out, so that a compiled training is faster than this.

    Args:
        job: the training.
        workers: processes that read windows, which then takes no time of its own.

    Raises:
        ConfigError: if the network cannot be built, or takes no such batches.
        DataError: if a chip cannot be read.
    """
    options, device = job.options, job.device
    windows = training_windows(job.training, options)
    begun = time.perf_counter()
    samples = [windows[number % len(windows)] for number in range(_WINDOWS)]
    reading_s = 0.0 if workers else (time.perf_counter() - begun) / _WINDOWS
    batch = [torch.stack(planes) for planes in zip(*samples, strict=True)]
    with torch.random.fork_rng([]):
        bands = batch[0].shape[1]
        model = untrained_model(options, bands=bands, bins=job.bins.count)
        check_batch(
            model.train(),
            in_channels=bands,
            window_px=options.window_px,
            batch_size=options.batch_size,
        )
        network = device.to(nn.Sequential(Normalise(job.training[0].scaling), device.to(model)))
        training_s = _window_seconds(
            lambda: _learn(network.train(), batch, options, device), device
        )
        checking_s = _window_seconds(lambda: _check(network.eval(), batch, options, device), device)
    held_out = ValidationWindows(job.validation, window_px=options.window_px)
    return len(windows) * (reading_s + training_s) + len(held_out) * (reading_s + checking_s)


def _window_seconds(work: Callable[[], object], device: Device) -> float:
    """Return the seconds that a window of the batch takes once all is warm."""
    seconds = 0.0
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        work()
        device.synchronize()
        seconds = time.perf_counter() - begun
    return seconds / _WINDOWS


def _learn(network: nn.Module, batch: list[Tensor], options: TrainOptions, device: Device) -> None:
    _loss(network.train(), batch, options, device).backward()  # type: ignore[no-untyped-call]
    network.zero_grad(set_to_none=True)
    device.mark()


@torch.no_grad()
def _check(network: nn.Module, batch: list[Tensor], options: TrainOptions, device: Device) -> None:
    _loss(network.eval(), batch, options, device)
    device.mark()


def _loss(network: nn.Module, batch: list[Tensor], options: TrainOptions, device: Device) -> Tensor:
    images, *labels = batch
    with device.autocast():
        logits = network(device.to(images)).float()
    labels = [device.to(label) for label in labels]
    return loss_of(loss_sums(logits, *labels, weights=options.loss), weights=options.loss)
