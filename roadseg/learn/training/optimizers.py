"""Optimizers: how weights follow their gradients, in the fused form that a device offers."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from roadseg.errors import ConfigError
from roadseg.learn.hardware.devices import Device

_KINDS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}
_BETAS, _EPS = (0.9, 0.999), 1e-8  # torch's defaults; Gaudi's optimizers have others


def build_optimizer(
    parameters: Iterable[nn.Parameter],
    *,
    device: Device,
    kind: str,
    learning_rate: float,
    weight_decay: float,
    momentum: float,
) -> torch.optim.Optimizer:
    """Build an optimizer that updates all weights in few, fused operations.

    Build it after the model is on the device, and load its state before `Device.for_training`.
    Gaudi's optimizers keep their state in another form than torch's: it can be loaded on an HPU
    only. Gaudi has no fused Adam whose decay is part of the gradient; that one is torch's, unfused.

    Args:
        parameters: weights to update, on the device.
        device: where they are.
        kind: "adam" (weight decay is part of the gradient), "adamw" (decay apart from it) or "sgd".
        learning_rate: first learning rate of all groups.
        weight_decay: 0 for none.
        momentum: of SGD; Adam's are 0.9 and 0.999.

    Raises:
        ConfigError: if there is no such kind.
    """
    if kind not in _KINDS:
        raise ConfigError(f"optimizer: expected one of {', '.join(_KINDS)}, got {kind!r}")
    options: dict[str, Any] = {"lr": learning_rate, "weight_decay": weight_decay}
    options |= {"momentum": momentum} if kind == "sgd" else {"betas": _BETAS, "eps": _EPS}
    if device.name != "hpu":
        return _KINDS[kind](parameters, **options, fused=True)
    if kind == "adam" and weight_decay:
        return torch.optim.Adam(parameters, **options)
    fused = import_module("habana_frameworks.torch.hpex.optimizers")
    optimizer: torch.optim.Optimizer
    if kind == "sgd":
        optimizer = fused.FusedSGD(parameters, **options, dampening=0.0, nesterov=False)
    else:
        optimizer = fused.FusedAdamW(parameters, **options)  # Adam without decay is the same
    return optimizer


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float, *, device: Device) -> None:
    """Shrink the gradients together so that their norm is at most `max_norm`.

    With backend ipex give it `model.parameters()`: the optimizer's are copies without gradients.

    Args:
        parameters: weights on the device, with gradients.
        max_norm: largest norm of all gradients together.
        device: where they are.
    """
    if device.name == "hpu":
        _hpu_clipper(max_norm).clip_norm(parameters)
    else:
        nn.utils.clip_grad_norm_(parameters, max_norm)


@cache
def _hpu_clipper(max_norm: float) -> Any:  # noqa: ANN401 - no type of ours
    """Build Gaudi's clipper, which puts the norm on the device; for float32 without parameters."""
    return import_module("habana_frameworks.torch.hpex.normalization").FusedClipNorm([], max_norm)


Schedule = Literal["step", "cosine"]


def learning_rate(
    step: int,
    *,
    steps_per_epoch: int,
    epochs: int,
    peak: float,
    schedule: Schedule,
    warmup_steps: int,
    milestones: Sequence[int],
    gamma: float,
) -> float:
    """Return the learning rate of a step.

    It rises in equal parts to the schedule's rate, which step `warmup_steps - 1` is the first to
    have in full. "step" multiplies the peak by `gamma` after each milestone. "cosine" falls from
    the peak after the warm-up along half a cosine, and would be zero one step after the last: no
    step is wasted at zero. It depends on `epochs`, so a training that is prolonged has another
    rate at every step.

    Source: the cosine is that of Loshchilov and Hutter, SGDR, 2017, without restarts, the warm-up
    that of Goyal et al., Accurate, Large Minibatch SGD, 2017.

    Args:
        step: steps taken before it in the whole training, so 0 is the first.
        steps_per_epoch: at least 1.
        epochs: passes of the whole training.
        peak: the highest rate.
        schedule: "step" or "cosine".
        warmup_steps: steps of the rise; 0 begins at the peak.
        milestones: epochs, counted from 1, after which "step" lowers the rate.
        gamma: by which factor.
    """
    rising = min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0
    if schedule == "step":
        epoch = step // steps_per_epoch + 1
        return peak * rising * gamma ** sum(epoch > milestone for milestone in milestones)
    falling_steps = max(1, steps_per_epoch * epochs - warmup_steps)
    done = min(max(0, step - warmup_steps) / falling_steps, 1.0)
    return peak * rising * (1 + math.cos(math.pi * done)) / 2


_SETTLING = 10  # updates after which the average looks back over about as many


def moving_average(model: nn.Module, decay: float) -> AveragedModel:
    """Return a copy of a model that follows its weights, to be updated after every step.

    The decay rises from 0.1 to its value over the first updates, so that the first weights, which
    know nothing, are soon forgotten; buffers such as those of batch norm are copied.

    Source: the warm-up is that of TensorFlow's ExponentialMovingAverage (num_updates).

    Args:
        model: on its device.
        decay: of the average, a number below 1 near it.
    """

    def blend(averaged: Tensor, current: Tensor, updates: Tensor | int) -> Tensor:
        settling = (1 + torch.as_tensor(updates)) / (_SETTLING + torch.as_tensor(updates))
        share = 1 - settling.clamp(max=decay)
        return averaged.lerp(current, share.to(averaged))

    return AveragedModel(model, avg_fn=blend)
