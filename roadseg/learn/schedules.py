"""Schedules: the learning rate of every step of a training."""

import math
from collections.abc import Sequence
from typing import Literal

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
