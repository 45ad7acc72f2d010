"""Learner: a network in training, with all that its next step depends on."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoints import MODEL, is_sound, misfit, named
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import Normalise
from roadseg.learn.options import DistributedOptions, LossOptions, TrainOptions
from roadseg.learn.training.local_sgd import HierarchicalAverager, statistics
from roadseg.learn.training.optimizers import build_optimizer, clip_gradients, moving_average
from roadseg.raster.scaling import Scaling
from roadseg.system.text import one_line

_OPTIMIZER, _AVERAGE = "optimizer.", "average."  # begin the names of tensors

Batch = Sequence[Tensor]  # images, masks and, if the loss needs them, skeletons
State = tuple[dict[str, Tensor], dict[str, Any]]  # tensors by name, and JSON values


class Learner:
    """A network that learns step by step, and can be saved and taken up again between two."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        state: State | None,
        scaling: Scaling,
        weights: LossOptions,
        clip_norm: float,
        ema: float | None,
        device: Device,
        parallel: Parallel,
        sharing: DistributedOptions,
    ) -> None:
        """Make a model ready to learn.

        Args:
            model: from normalised windows to logits, on the device.
            optimizer: of its weights.
            state: what `state` gave of the learner to go on with.
            scaling: mean and standard deviation of the bands.
            weights: weights of the terms of the loss.
            clip_norm: largest norm of the gradient.
            ema: decay of the moving average of the weights, which is then what is kept; it
                follows them at the steps after which all processes hold the same.
            device: where the network runs.
            parallel: the processes that train together.
            sharing: how they do.

        Raises:
            ConfigError: if these do not go together.
        """
        if device.backend == "ipex" and (ema or sharing.hierarchy):
            raise ConfigError(
                "--backend ipex keeps packed weights, which cannot be averaged: use the backend "
                "native, or set train.ema and train.distributed.hierarchy to null"
            )
        self._weights, self._clip_norm = weights, clip_norm
        self._device, self._parallel, self._scaler = device, parallel, device.scaler()
        self._average = moving_average(model, ema) if ema else None
        if state is not None:
            _load(state, model, optimizer, self._average, self._scaler)
        self._model, self._optimizer = device.for_training(model, optimizer)
        normalise = Normalise(scaling)
        plain = device.to(nn.Sequential(normalise, self._model))
        self._averager = HierarchicalAverager(
            parallel,
            plain,
            optimizer=self._optimizer,
            hierarchy=sharing.hierarchy or {},
            warmup_steps=sharing.warmup_steps,
        )
        self._network = parallel.wrap(
            plain,
            device=device,
            bucket_mb=sharing.bucket_mb,
            gradient_as_bucket_view=sharing.gradient_as_bucket_view,
        )
        self._run = device.compile(self._network)
        self._kept = device.compile(nn.Sequential(normalise, self.kept))

    @property
    def kept(self) -> nn.Module:
        """The model that is validated and kept: the moving average, if there is one."""
        return self._model if self._average is None else self._average.module

    def step(self, batches: Sequence[Batch], *, number: int, rate: float) -> Tensor:
        """Take one step; return its loss, on the device.

        Args:
            batches: that the step learns from; the mean of their losses is what it follows.
            number: of the step in the whole training, from 1.
            rate: learning rate.
        """
        together = self._averager.synchronous(number)
        self._run.train()
        total = torch.zeros((), device=self._device.type)
        for batch in batches:
            last = together and batch is batches[-1]
            with self._parallel.accumulating(self._network, last=last):
                loss = self._loss(batch, number) / len(batches)
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            self._device.mark()
            total += loss.detach()
        self._averager.average_gradients(number)
        self._follow_gradient(rate)
        self._averager.average(number)
        if self._average is not None and self.replicas_agree(number):
            self._average.update_parameters(self._model)
        return total

    @torch.no_grad()
    def judge(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of the model that is kept, float32, and the sums of its loss."""
        found = self._forward(self._kept.eval(), batch)
        self._device.mark()
        return found

    def replicas_agree(self, number: int) -> bool:
        """Say whether all processes hold the same weights after a step."""
        return self._averager.replicas_agree(number)

    def average_replicas(self) -> None:
        """Give all processes the same weights and statistics; they must all call this."""
        self._averager.average_all()
        if self._average is not None:
            module = self._average.module
            self._parallel.average([*module.parameters(), *statistics(module)])

    def state(self) -> State:
        """Return all that a learner needs to go on as if it had never stopped."""
        found = self._optimizer.state_dict()
        tensors = named(MODEL, self._model.state_dict())
        values: dict[str, Any] = {
            "optimizer_state": {"groups": found["param_groups"], "values": {}}
        }
        for index, entries in found["state"].items():
            for name, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"{_OPTIMIZER}{index}.{name}"] = value
                else:  # the fused optimizers of Gaudi count in plain numbers
                    values["optimizer_state"]["values"][f"{index}.{name}"] = value
        if self._average is not None:
            tensors |= named(_AVERAGE, self._average.state_dict())
        return tensors, values | {"scaler_state": self._scaler.state_dict()}

    def _loss(self, batch: Batch, number: int) -> Tensor:
        _, sums = self._forward(self._run, batch)
        return loss_of(self._averager.shared(sums, number), weights=self._weights)

    def _forward(self, network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits of a batch, float32, and the sums of its loss."""
        images, *labels = batch
        with self._device.autocast():
            logits = network(self._device.to(images))
        labels = [self._device.to(label) for label in labels]
        return logits.float(), loss_sums(logits.float(), *labels, weights=self._weights)

    def _follow_gradient(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if self._scaler.is_enabled():
            self._scaler.unscale_(self._optimizer)
        clip_gradients(self._model.parameters(), self._clip_norm, device=self._device)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._device.mark()
        self._optimizer.zero_grad(set_to_none=True)


def new_learner(
    model: nn.Module,
    recipe: TrainOptions,
    *,
    state: State | None = None,
    scaling: Scaling,
    device: Device,
    parallel: Parallel,
    sharing: DistributedOptions,
) -> Learner:
    """Return a learner with the optimizer of a recipe; the arguments are those of `Learner`."""
    return Learner(
        model,
        recipe_optimizer(model, recipe, device=device),
        state=state,
        scaling=scaling,
        weights=recipe.loss,
        clip_norm=recipe.clip_norm,
        ema=recipe.ema,
        device=device,
        parallel=parallel,
        sharing=sharing,
    )


def recipe_optimizer(
    model: nn.Module, recipe: TrainOptions, *, device: Device
) -> torch.optim.Optimizer:
    """Return the optimizer of a recipe for a model on its device."""
    return build_optimizer(
        model.parameters(),
        device=device,
        kind=recipe.optimizer,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        momentum=recipe.momentum,
    )


def _load(
    state: State,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedModel | None,
    scaler: torch.amp.GradScaler,
) -> None:
    """Load the state of a learner.

    Raises:
        CheckpointError: if it is not one of such a learner.
    """
    tensors, values = state
    _load_weights(_under(MODEL, tensors), model)
    _load_optimizer(_under(_OPTIMIZER, tensors), values["optimizer_state"]["values"], optimizer)
    if average is not None:
        _load_weights(_under(_AVERAGE, tensors), average)
    try:
        scaler.load_state_dict(values["scaler_state"])
    except (RuntimeError, LookupError) as error:
        raise _unfit(f"scaler_state: {one_line(error):.200}") from error


def _load_weights(tensors: Mapping[str, Tensor], module: nn.Module) -> None:
    if problem := misfit(tensors, module.state_dict()):
        raise _unfit(problem)
    module.load_state_dict(tensors)


def _unfit(problem: str) -> CheckpointError:
    return CheckpointError(
        f"last.safetensors: its state does not fit this training ({problem}); restore it, or train "
        "anew with --force"
    )


def _load_optimizer(
    tensors: Mapping[str, Tensor], values: Mapping[str, Any], optimizer: torch.optim.Optimizer
) -> None:
    """Load the state of an optimizer, in the memory layout of the weights it belongs to.

    Its settings are those of the recipe, whatever the file says of them. A fused optimizer walks
    through memory without a look at strides, so a moment in another layout than its weight would
    go to the wrong places.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **values}.items():
        index, _, name = key.partition(".")
        if not (index.isdecimal() and int(index) < len(weights)):
            raise _unfit(f"optimizer: expected entries of {len(weights)} weights, got {key!r:.60}")
        weight, placed = weights[int(index)], value
        if isinstance(value, Tensor):
            _require_moment(key, value, weight)
            like_weight = value.shape == weight.shape
            placed = torch.empty_like(weight).copy_(value) if like_weight else value
        state.setdefault(int(index), {})[name] = placed
    if len({frozenset(entries) for entries in state.values()}) > 1:
        raise _unfit("optimizer: expected entries of one kind for all weights")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _require_moment(key: str, found: Tensor, weight: Tensor) -> None:
    """Refuse what is neither like a weight nor one number, or not made of numbers."""
    fits = found.shape == weight.shape or found.numel() == 1
    if not (fits and found.is_floating_point() and is_sound(found)):
        raise _unfit(
            f"{_OPTIMIZER}{key:.60}: expected numbers in shape {tuple(weight.shape)}, got "
            f"{found.dtype} in {tuple(found.shape)}"
        )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
