"""Moving average of the weights in training: often a better network than the last weights."""

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

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
