"""Timetable: how many epochs share the given time, and the clock that ends each of them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from roadseg.errors import ConfigError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoint_facts import Facts, checkpoint_path, read_checkpoint_facts
from roadseg.learn.options import MINUTE_S, TrainOptions
from roadseg.learn.training.history import Row, seconds_of

# Options that a timetable decides; they are stored with the training and stay fixed.
PLANNED = ("epochs", "windows_per_chip", "validation_windows", "warmup_steps")

_VALIDATION = 0.1  # Largest share of the time for validation.
_FEWEST_EPOCHS, _MOST_EPOCHS = 4, 10
_WARM_UP = 0.05  # Share of the time over which the learning rate rises.
_CHECKS = 0.25  # Largest share of the time left for validation and its files.
_START_S = 3.0  # Seconds before the first step: loading weights, starting worker processes.
_KEEPING_S = 1.5  # Seconds for writing checkpoint, table and curves of an epoch.


@dataclass(frozen=True)
class Pace:
    """Seconds per window of a training by all its processes together.

    Attributes:
        window_s: seconds of a training step per window.
        held_out_s: seconds of validation per window.
    """

    window_s: float
    held_out_s: float


def fit_minutes(options: TrainOptions, pace: Pace, *, weight: float, held_out: int) -> TrainOptions:
    """Return options that divide `options.minutes` into epochs, on a machine of this pace.

    The clock ends the epochs, so that the training keeps its time if the machine is slower or
    faster. It has then fewer or more steps, whose learning rate follows the time.

    1. The number of epochs, 4 to 10, is that of full validations with checkpoints that fit into a
       twentieth of the time, if there is time for a step in each. It decides how often the progress
       is measured, not what the network learns.
    2. Validation takes at most a tenth of the time. If all held-out windows would take longer, an
       evenly spread sample is used.
    3. All other time goes into steps. The learning rate rises over a twentieth of the time.

    Args:
        options: options of the training, with `minutes`.
        weight: sum of the weights of all training chips.
        held_out: number of windows that cover the held-out chips.

    Raises:
        ConfigError: if there is no time for a step in each epoch.
    """
    # Rule 1: how many epochs.
    time_s = (options.limit_s or 0.0) - _START_S
    step = options.batch_size
    least_s = _KEEPING_S + pace.held_out_s + step * pace.window_s
    fitting = min(
        _VALIDATION / 2 * time_s / (held_out * pace.held_out_s + _KEEPING_S),
        (1 - _VALIDATION) * time_s / least_s,
    )
    epochs = int(min(max(fitting, _FEWEST_EPOCHS), _MOST_EPOCHS))
    # Rule 2: on how many windows each is validated.
    checked = max(1, min(held_out, int(_VALIDATION * time_s / (epochs * pace.held_out_s))))
    # Rule 3: the steps that fit into what is left.
    left_s = time_s / epochs - _KEEPING_S - checked * pace.held_out_s
    steps = int(left_s / (step * pace.window_s))
    if steps < 1:
        enough_s = _START_S + epochs * least_s / (1 - _VALIDATION)
        enough = math.ceil(enough_s / MINUTE_S)
        raise ConfigError(
            f"train.minutes: {options.minutes:g} min are too few for {epochs} epochs with one step "
            f"of {step} windows each, which takes {step * pace.window_s:.1f} s on this machine; "
            f"allow {enough} min or more, or lower train.batch_size or train.window_px"
        )
    return options.model_copy(
        update={
            "epochs": epochs,
            "windows_per_chip": steps * step / weight,
            "validation_windows": None if checked == held_out else checked,
            "warmup_steps": max(1, round(_WARM_UP * steps * epochs)),
        }
    )


def planned_before(folder: Path, options: TrainOptions) -> TrainOptions:
    """Return options with the plan of the training in a folder, to resume it.

    If `options.minutes` has grown, there are proportionally more epochs, and the learning rate
    follows the schedule of the longer training from then on.

    Raises:
        ConfigError: if the training was planned for more time, or without a limit.
    """
    facts, now = read_checkpoint_facts(folder, "last"), options.minutes
    before = facts.get("minutes")
    if before != now and not (before and now and before < now):
        raise ConfigError(
            f"{checkpoint_path(folder, 'last')}: the training was started with train.minutes "
            f"{before} (now {now}); restore this setting to resume it, or train with --force or "
            "in another folder"
        )
    if now is None:
        return options
    epochs = int(facts["epochs"] * now / (before or now))
    planned = {key: facts[key] for key in PLANNED}
    return options.model_copy(update=planned | {"epochs": epochs})


@dataclass
class TrainingClock:
    """The time of a training over all its sessions; all processes go by the same readings.

    Attributes:
        options: options of the training; `epochs` share the time that `minutes` limits.
        history: a row for each finished epoch, to which others add.
        since_s: seconds that earlier sessions took since the last finished epoch.
        check_s: seconds that the last validation took, with writing its files.
        step_s: seconds between the last two readings.
        tick: seconds of a clock that never goes back.
        now_s: seconds of the training at the last reading.
    """

    options: TrainOptions
    history: list[Row]
    parallel: Parallel
    since_s: float = 0.0
    check_s: float = 0.0
    step_s: float = 0.0
    tick: Callable[[], float] = time.monotonic
    now_s: float = field(init=False)
    _zero_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Go on where the earlier sessions ended."""
        self.now_s = seconds_of(self.history) + self.since_s
        self._zero_s = self.tick() - self.now_s

    def read(self, *, stop: bool = False) -> bool:
        """Read the clock, in all processes together; return whether any of them has to stop."""
        before_s = self.now_s
        stops, self.now_s = self.parallel.largest(stop, self.tick() - self._zero_s)
        self.step_s = self.now_s - before_s
        return bool(stops)

    def state(self) -> Facts:
        """Return what the next session needs, by the clock of this process now."""
        since_s = self.tick() - self._zero_s - seconds_of(self.history)
        # Below 0 if the seconds in the history were rounded up.
        return {"seconds": max(0.0, since_s), "check_s": self.check_s, "step_s": self.step_s}

    @property
    def used(self) -> float | None:
        """The share of the time that is used, from 0 to about 1; None without a limit."""
        limit_s = self.options.limit_s
        return None if limit_s is None else self.now_s / limit_s

    @property
    def epoch_is_over(self) -> bool:
        """Whether another step would exceed the time of the epoch; never without a limit.

        The epochs that are left share the time that is left, and each needs time for its
        validation. So a training that was slow for a while has fewer steps, but as many epochs,
        unless validation would take more than a quarter of that time.
        """
        if self.options.limit_s is None:
            return False
        begun_s = seconds_of(self.history)
        left_s, epochs = self.options.limit_s - begun_s, self.options.epochs - len(self.history)
        if self.check_s:
            epochs = min(epochs, int(_CHECKS * left_s / self.check_s))
        share_s = left_s / max(1, epochs)
        return self.now_s + self.step_s > begun_s + share_s - self.check_s

    @property
    def is_over(self) -> bool:
        """Whether the time left is too short to validate once more; never without a limit."""
        limit_s = self.options.limit_s
        return limit_s is not None and self.now_s + self.check_s >= limit_s
