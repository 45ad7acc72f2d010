"""Timetable: how many epochs share the given time; forecasts."""

import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.network.checkpoints import checkpoint_path, read_checkpoint_facts
from roadseg.learn.options import MINUTE_S, TrainOptions
from roadseg.learn.training.rehearsal import KEEPING_S, START_S, Pace
from roadseg.learn.training.samples import epoch_windows
from roadseg.system.text import about_time

# Options that a timetable decides; they are stored with the training and stay fixed.
PLANNED = ("epochs", "patience", "windows_per_chip", "validation_windows", "warmup_steps")

_VALIDATION = 0.1  # Largest share of the time for validation.
_FEWEST_EPOCHS, _MOST_EPOCHS = 4, 10
_WARM_UP = 0.05  # Share of the time over which the learning rate rises.


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
    4. The training never stops early, because the learning rate is planned to the end.

    Args:
        options: options of the training, with `minutes`.
        weight: sum of the weights of all training chips.
        held_out: number of windows that cover the held-out chips.

    Raises:
        ConfigError: if there is no time for a step in each epoch.
    """
    # Rule 1: how many epochs.
    time_s = (options.limit_s or 0.0) - START_S
    step = options.batch_size
    least_s = KEEPING_S + pace.held_out_s + step * pace.window_s
    fitting = min(
        _VALIDATION / 2 * time_s / (held_out * pace.held_out_s + KEEPING_S),
        (1 - _VALIDATION) * time_s / least_s,
    )
    epochs = int(min(max(fitting, _FEWEST_EPOCHS), _MOST_EPOCHS))
    # Rule 2: on how many windows each is validated.
    checked = max(1, min(held_out, int(_VALIDATION * time_s / (epochs * pace.held_out_s))))
    # Rule 3: the steps that fit into what is left.
    left_s = time_s / epochs - KEEPING_S - checked * pace.held_out_s
    steps = int(left_s / (step * pace.window_s))
    if steps < 1:
        enough_s = START_S + epochs * least_s / (1 - _VALIDATION)
        enough = math.ceil(enough_s / MINUTE_S)
        raise ConfigError(
            f"train.minutes: {options.minutes:g} min are too few for {epochs} epochs with one step "
            f"of {step} windows each, which takes {step * pace.window_s:.1f} s on this machine; "
            f"allow {enough} min or more, or lower train.batch_size or train.window_px"
        )
    return options.model_copy(
        update={
            "epochs": epochs,
            "patience": epochs,  # Rule 4.
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
        CheckpointError: if the folder contains no plan.
    """
    facts, now = read_checkpoint_facts(folder, "last"), options.minutes
    before = facts.get("minutes")
    if before != now and not (before and now and before < now):
        raise ConfigError(
            f"{checkpoint_path(folder, 'last')}: the training was started with train.minutes "
            f"{before} (now {now}); restore this setting to resume it, or retrain with --force"
        )
    if now is None:
        return options
    planned = {key: facts.get(key) for key in PLANNED}
    try:
        known = TrainOptions.model_validate({**dict(options), **planned})
    except ValidationError as error:
        raise CheckpointError(
            f"{checkpoint_path(folder, 'last')}: expected the plan of a training, found "
            f"{planned!r:.100}; restore the file, or retrain with --force"
        ) from error
    epochs = int(known.epochs * now / (before or now))
    return known.model_copy(update={"epochs": epochs, "patience": epochs})  # Rule 4.


@dataclass(frozen=True)
class Forecast:
    """The forecast of a training.

    Attributes:
        options: options of the training, with the plan for its `minutes`.
        epoch_s: seconds of an epoch with its validation.
    """

    options: TrainOptions
    epoch_s: float

    @property
    def seconds(self) -> float:
        """Seconds of the training: its time limit, or else at most all its epochs."""
        limit_s, epochs = self.options.limit_s, self.options.epochs
        return START_S + epochs * self.epoch_s if limit_s is None else limit_s

    @property
    def epochs_text(self) -> str:
        """How many epochs there are at most, and how long each takes."""
        limit_s, epochs = self.options.limit_s, self.options.epochs
        each_s = self.epoch_s if limit_s is None else limit_s / epochs
        return f"{epochs} epochs of {about_time(each_s)}"


def forecast(options: TrainOptions, pace: Pace, *, weight: float, held_out: int) -> Forecast:
    """Forecast a training at a pace; plan it if its time is limited.

    Args:
        weight: sum of the weights of all training chips.
        held_out: number of windows that cover the held-out chips; 0 if none are held out, so that
            the options are planned already.

    Raises:
        ConfigError: if there is no time for a step in each epoch.
    """
    if options.minutes is not None and held_out:
        options = fit_minutes(options, pace, weight=weight, held_out=held_out)
    checked = min(options.validation_windows or held_out, held_out)
    return Forecast(options, pace.epoch_seconds(epoch_windows(options, weight), checked))
