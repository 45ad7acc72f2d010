"""State of a trainer: all that its next step depends on, as tensors by name and JSON values."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from roadseg.errors import CheckpointError
from roadseg.learn.network.checkpoint_facts import MODEL
from roadseg.learn.network.checkpoints import Tensors, is_sound, misfit, named
from roadseg.system.text import one_line

_OPTIMIZER, _AVERAGE = "optimizer.", "average."  # Names of their tensors begin with these.

State = tuple[dict[str, Tensor], dict[str, Any]]  # Tensors by name, and JSON values.


def state_of(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedModel | None,
    scaler: torch.amp.GradScaler,
) -> State:
    """Return the state of all parts of a trainer.

    Args:
        model: the network.
        optimizer: of its weights.
        average: moving average of the weights; None if there is none.
        scaler: of the loss.
    """
    content = optimizer.state_dict()
    tensors = named(MODEL, model.state_dict())
    numbers: dict[str, Any] = {}
    for index, entries in content["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMIZER}{index}.{name}"] = value
            else:
                # The fused optimizers of Gaudi count steps in plain numbers.
                numbers[f"{index}.{name}"] = value
    if average is not None:
        tensors |= named(_AVERAGE, average.state_dict())
    return tensors, {
        "optimizer_state": {"groups": content["param_groups"], "values": numbers},
        "scaler_state": scaler.state_dict(),
    }


def load_state(
    state: State,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: AveragedModel | None,
    scaler: torch.amp.GradScaler,
) -> None:
    """Load the state of a trainer into its model, optimizer, moving average and scaler.

    Raises:
        CheckpointError: if it is not one of such a trainer.
    """
    tensors, values = state
    _load_weights(_named_under(MODEL, tensors), model)
    _load_optimizer(
        _named_under(_OPTIMIZER, tensors), values["optimizer_state"]["values"], optimizer
    )
    if average is not None:
        _load_weights(_named_under(_AVERAGE, tensors), average)
    try:
        scaler.load_state_dict(values["scaler_state"])
    except (RuntimeError, LookupError) as error:
        raise _unfit(f"scaler_state: {one_line(error):.200}") from error


def _load_weights(tensors: Tensors, module: nn.Module) -> None:
    if problem := misfit(tensors, module.state_dict()):
        raise _unfit(problem)
    module.load_state_dict(tensors)


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


def _require_moment(key: str, moment: Tensor, weight: Tensor) -> None:
    """Refuse a moment with another shape than its weight, unless it is one number, or with NaN."""
    fits = moment.shape == weight.shape or moment.numel() == 1
    if not (fits and moment.is_floating_point() and is_sound(moment)):
        raise _unfit(
            f"{_OPTIMIZER}{key:.60}: expected numbers in shape {tuple(weight.shape)}, got "
            f"{moment.dtype} in {tuple(moment.shape)}"
        )


def _named_under(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
