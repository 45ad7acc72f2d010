"""Trainer: a network in training; its state can be saved, and loaded to resume exactly."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from roadseg.errors import CheckpointError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoint_facts import MODEL
from roadseg.learn.network.checkpoints import Tensors, misfit, named
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import Normalise
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.optimizers import build_optimizer, clip_gradients
from roadseg.raster.scaling import Scaling
from roadseg.system.text import one_line

Batch = Sequence[Tensor]  # Images, masks and, if the loss needs them, skeletons.
State = tuple[dict[str, Tensor], dict[str, Any]]  # Tensors by name, and JSON values.

_OPTIMIZER = "optimizer."  # Prefix of the names of its tensors.


class Trainer:
    """A network in training, whose state can be saved and loaded between two steps.

    Attributes:
        model: the network, from normalised windows to logits.
        device: where it trains.
    """

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
        """Prepare a model for its first step, or for the next one of an earlier training.

        Args:
            model: network from normalised windows to logits, on the device.
            state: `Trainer.state` of the training to resume; None for a new training.

        Raises:
            CheckpointError: if the state does not fit the network or the options.
        """
        self._options = options
        self.device, self._parallel, self._scaler = device, parallel, device.scaler()
        optimizer = build_optimizer(model.parameters(), rate=options.learning_rate, device=device)
        if state is not None:
            _load_state(state, model, optimizer, self._scaler)
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
        loss = self._loss(batch)
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
        logits, labels = self._forward(self._in_validation.eval(), batch)
        sums = loss_sums(logits, *labels, weights=self._options.loss)
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

    def _loss(self, batch: Batch) -> Tensor:
        weights = self._options.loss
        with self.device.fast_gradients(), self._parallel.normalising():
            logits, (masks, *skeletons) = self._forward(self._in_training, batch)
        sums = loss_sums(logits, masks, *skeletons, weights=weights)
        return loss_of(self._parallel.sum_with_gradient(sums), weights=weights)

    def _forward(self, network: nn.Module, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of a batch, float32, and its labels on the device."""
        images, *labels = batch
        with self.device.autocast():
            logits = network(self.device.to(images)).float()
        return logits, [self.device.to(label) for label in labels]


def _load_state(
    state: State,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
) -> None:
    """Load the state of a trainer into its model, optimizer and scaler.

    Raises:
        CheckpointError: if it does not fit them.
    """
    tensors, values = state
    weights = _named_under(MODEL, tensors)
    if problem := misfit(weights, model.state_dict()):
        raise _unfit(problem)
    model.load_state_dict(weights)
    try:
        _load_optimizer(
            _named_under(_OPTIMIZER, tensors), values["optimizer_state"]["values"], optimizer
        )
        scaler.load_state_dict(values["scaler_state"])
    except (RuntimeError, LookupError, ValueError) as error:
        raise _unfit(one_line(error)[:200]) from error


def _unfit(problem: str) -> CheckpointError:
    return CheckpointError(
        f"last.safetensors: its state does not fit this training ({problem}); restore it, or "
        "retrain with --force"
    )


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
