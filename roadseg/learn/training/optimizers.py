"""The optimizer, in the fused form that a device offers, and the learning rate of each step."""

import math
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import nn

from roadseg.learn.hardware.devices import Device
from roadseg.learn.options import TrainOptions

_DROP = 0.2  # Factor by which the learning rate drops after a milestone.
_BETAS, _EPS = (0.9, 0.999), 1e-8  # Torch's defaults; Gaudi's optimizers have others.


def build_optimizer(
    parameters: Iterable[nn.Parameter], *, rate: float, device: Device
) -> torch.optim.Optimizer:
    """Build an Adam that updates all weights in few, fused operations.

    Build it after the model is on the device, and load its state before `Device.for_training`.
    The state of Gaudi's optimizers differs from that of torch's, and can be loaded on an HPU only.
    """
    if device.name == "hpu":
        # Without weight decay, AdamW is Adam, of which Gaudi has no fused form.
        fused = import_module("habana_frameworks.torch.hpex.optimizers")
        optimizer: torch.optim.Optimizer = fused.FusedAdamW(
            parameters, lr=rate, weight_decay=0.0, betas=_BETAS, eps=_EPS
        )
        return optimizer
    return torch.optim.Adam(parameters, lr=rate, betas=_BETAS, eps=_EPS, fused=True)


def clip_gradients(
    parameters: Iterable[nn.Parameter], *, device: Device, max_norm: float = 1.0
) -> None:
    """Shrink the gradients together so that their norm is at most `max_norm`.

    With backend ipex, pass `model.parameters()`: those of the optimizer are copies without
    gradients.

    Args:
        parameters: weights on the device, with gradients.
    """
    if device.name == "hpu":
        _hpu_clipper(max_norm).clip_norm(parameters)
    else:
        nn.utils.clip_grad_norm_(parameters, max_norm)


@cache
def _hpu_clipper(max_norm: float) -> Any:  # noqa: ANN401 - no type of ours
    """Build Gaudi's clipper, which puts the norm on the device; for float32 without parameters."""
    return import_module("habana_frameworks.torch.hpex.normalization").FusedClipNorm([], max_norm)


def learning_rate(step: float, options: TrainOptions, *, steps_per_epoch: int) -> float:
    """Return the learning rate of a step.

    It rises linearly to the peak, which step `warmup_steps - 1` is the first to have. Schedule
    "step" divides it by 5 after each milestone. Schedule "cosine" falls from the peak along half a
    cosine and would reach zero one step after the last. It depends on `epochs`, so a longer
    training has other rates at all steps.

    Source: the cosine is that of Loshchilov and Hutter, SGDR, 2017, without restarts, the warm-up
    that of Goyal et al., Accurate, Large Minibatch SGD, 2017.

    Args:
        step: number of the step in the whole training, from 0; between two steps if the time tells.
        options: `schedule`, `learning_rate` (the peak), `warmup_steps` (0 begins at the peak),
            `lr_milestones` (epochs from 1, after which "step" lowers the rate) and `epochs`.
        steps_per_epoch: at least 1.
    """
    warmup, peak = options.warmup_steps, options.learning_rate
    rising = min(1.0, (step + 1) / warmup) if warmup else 1.0
    if options.schedule == "step":
        epoch = step // steps_per_epoch + 1
        passed = sum(epoch > milestone for milestone in options.lr_milestones)
        return peak * rising * _DROP**passed
    falling_steps = max(1, steps_per_epoch * options.epochs - warmup)
    done = min(max(0, step - warmup) / falling_steps, 1.0)
    return peak * rising * (1 + math.cos(math.pi * done)) / 2
