"""Trainer: a network in training, step by step; its state can be saved, to resume exactly.

After it come the optimizer, in the fused form that a device offers, and the rate of each step.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel, freeze_unused
from roadseg.learn.network.checkpoint_facts import MODEL
from roadseg.learn.network.checkpoints import Tensors, named
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import Normalise, check_batch
from roadseg.learn.options import TrainOptions
from roadseg.raster.scaling import Scaling

Batch = Sequence[Tensor]  # Images and masks.
State = tuple[dict[str, Tensor], dict[str, Any]]  # Tensors by name, and JSON values.

_OPTIMIZER = "optimizer."  # Prefix of the names of its tensors.
_DROP = 0.2  # Factor by which the learning rate drops after a milestone.
_MILESTONES = (20, 25)  # Epochs from 1, after which schedule "step" lowers the learning rate.
_MOST_NORM = 1.0  # Of all gradients together.
_BETAS, _EPS = (0.9, 0.999), 1e-8  # Torch's defaults; Gaudi's optimizers have others.


class Trainer:
    """A network in training, whose state can be saved and loaded between two steps."""

    def __init__(
        self,
        model: nn.Module,
        options: TrainOptions,
        *,
        scaling: Scaling,
        device: Device,
        parallel: Parallel,
        state: State | None = None,
    ) -> None:
        """Move a model to the device and prepare it for its first step, or for the next one.

        From then on the process keeps freed memory, so that a rehearsal is as fast as the training.

        Args:
            model: network from normalised windows to logits.
            state: `Trainer.state` of the training to resume; None for a new training.

        Raises:
            ConfigError: if the network does not accept such batches.
        """
        keep_freed_memory()
        bands, side = len(scaling.mean), options.window_px
        check_batch(model.train(), in_channels=bands, window_px=side, batch_size=options.batch_size)
        model = device.to(model)
        if parallel.size > 1:
            freeze_unused(model, torch.zeros(1, bands, side, side).to(device.type))
        self.options = options
        self.device, self.parallel, self._scaler = device, parallel, device.scaler()
        optimizer = build_optimizer(model.parameters(), rate=options.learning_rate, device=device)
        if state is not None:
            tensors, values = state
            model.load_state_dict(_named_under(MODEL, tensors))
            moments = _named_under(_OPTIMIZER, tensors)
            _load_optimizer(moments, values["optimizer_state"]["values"], optimizer)
            self._scaler.load_state_dict(values["scaler_state"])
        self.model, self._optimizer = device.for_training(model, optimizer)
        normalise = Normalise(scaling)
        network = device.to(nn.Sequential(normalise, self.model))
        self._in_training = device.compile(parallel.wrap(network, device=device))
        self._in_validation = device.compile(nn.Sequential(normalise, self.model))

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of all weights; it is part of the state."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def step(self, batch: Batch, *, rate: float) -> Tensor:
        """Take one step; return its loss, on the device."""
        self._in_training.train()
        with self.device.fast_gradients(), self.parallel.normalising():
            logits, masks = self._forward(self._in_training, batch)
        sums = loss_sums(logits, masks, weights=self.options.loss)
        loss = loss_of(self.parallel.sum_with_gradient(sums), weights=self.options.loss)
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.device.mark()
        self.set_rate(rate)
        if self._scaler.is_enabled():
            self._scaler.unscale_(self._optimizer)
        clip_gradients(self.model.parameters(), device=self.device)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.device.mark()
        self._optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of `model`, float32, and the sums of its loss."""
        logits, masks = self._forward(self._in_validation.eval(), batch)
        sums = loss_sums(logits, masks, weights=self.options.loss)
        self.device.mark()
        return logits, sums

    def state(self) -> State:
        """Return all that a trainer needs to resume exactly."""
        content = self._optimizer.state_dict()
        tensors = named(MODEL, self.model.state_dict())
        numbers: dict[str, Any] = {}
        for index, entries in content["state"].items():
            for name, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"{_OPTIMIZER}{index}.{name}"] = value
                else:
                    # The fused optimizers of Gaudi count steps in plain numbers.
                    numbers[f"{index}.{name}"] = value
        return tensors, {
            "optimizer_state": {"groups": content["param_groups"], "values": numbers},
            "scaler_state": self._scaler.state_dict(),
        }

    def _forward(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of a batch, float32, and its masks on the device."""
        images, masks = batch
        with self.device.autocast():
            logits = network(self.device.to(images)).float()
        return logits, self.device.to(masks)


def _load_optimizer(
    tensors: Tensors, values: Mapping[str, Any], optimizer: torch.optim.Optimizer
) -> None:
    """Load the state of an optimizer, in the memory layout of the weights it belongs to.

    Its settings are those of the options, whatever the file says of them. A fused optimizer walks
    through memory without a look at strides, so a moment in another layout than its weight would
    go to the wrong places.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **values}.items():
        index, _, name = key.partition(".")
        weight, placed = weights[int(index)], value
        if isinstance(value, Tensor) and value.shape == weight.shape:
            placed = torch.empty_like(weight).copy_(value)
        state.setdefault(int(index), {})[name] = placed
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _named_under(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


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


def clip_gradients(parameters: Iterable[nn.Parameter], *, device: Device) -> None:
    """Shrink the gradients together so that their norm is at most 1.

    With backend ipex, pass `model.parameters()`: those of the optimizer are copies without
    gradients.
    """
    if device.name == "hpu":
        _hpu_clipper().clip_norm(parameters)
    else:
        nn.utils.clip_grad_norm_(parameters, _MOST_NORM)


@cache
def _hpu_clipper() -> Any:  # noqa: ANN401 - no type of ours
    """Build Gaudi's clipper, which puts the norm on the device; for float32 without parameters."""
    return import_module("habana_frameworks.torch.hpex.normalization").FusedClipNorm([], _MOST_NORM)


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
        options: `schedule`, `learning_rate` (the peak), `warmup_steps` (0 begins at the peak)
            and `epochs`.
        steps_per_epoch: at least 1.
    """
    warmup, peak = options.warmup_steps, options.learning_rate
    rising = min(1.0, (step + 1) / warmup) if warmup else 1.0
    if options.schedule == "step":
        epoch = step // steps_per_epoch + 1
        passed = sum(epoch > milestone for milestone in _MILESTONES)
        return peak * rising * _DROP**passed
    falling_steps = max(1, steps_per_epoch * options.epochs - warmup)
    done = min(max(0, step - warmup) / falling_steps, 1.0)
    return peak * rising * (1 + math.cos(math.pi * done)) / 2
