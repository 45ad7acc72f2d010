"""Optimizers: how weights follow their gradients, in the fused form that a device offers."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import nn

from roadseg.errors import ConfigError
from roadseg.learn.devices import Device

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
