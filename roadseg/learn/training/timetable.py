"""Timetable: how many epochs of how many windows fit into the time that there is."""

import math
from pathlib import Path

from pydantic import ValidationError

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.network.checkpoints import checkpoint_path, read_checkpoint_facts
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.rehearsal import KEEPING_S, START_S, Pace

# Options that a timetable decides; they are stored with the training and stay fixed.
PLANNED = ("epochs", "patience", "windows_per_chip", "validation_windows", "warmup_steps")

_MINUTE_S = 60.0
_RESERVE = 0.03  # Share of the time that is left for what a rehearsal does not foresee.
_VALIDATION = 0.1  # Largest share of the time for validation.
_FEWEST_EPOCHS, _MOST_EPOCHS = 4, 10
_WARM_UP = 0.05  # Share of the steps over which the learning rate rises.


def fit_minutes(options: TrainOptions, pace: Pace, *, weight: float, held_out: int) -> TrainOptions:
    """Return options whose training ends after `options.minutes`, on a machine of this pace.

    1. There are as many epochs as full validations, with their checkpoints, fit into a twentieth of
       the time, and as have a step each, but at least 4 and at most 10: their number changes how
       often there is news, and not what the network learns.
    2. Validation takes at most a tenth of the time. If all held-out windows would take longer, an
       evenly spread sample is used.
    3. All other time goes into steps. The learning rate rises over a twentieth of them.
    4. The training never stops early, because the learning rate is planned to the end.

    Args:
        options: with `minutes`.
        pace: of this machine.
        weight: of all training chips together; their number, if each counts once.
        held_out: number of windows that cover the held-out chips.

    Raises:
        ConfigError: if there is no time for a step in each epoch.
    """
    # Rule 1: how many epochs.
    minutes = options.minutes or 0.0
    time_s = minutes * _MINUTE_S * (1 - _RESERVE) - START_S
    step = options.batch_size * options.accumulate
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
        enough = math.ceil(enough_s / _MINUTE_S / (1 - _RESERVE))
        raise ConfigError(
            f"train.minutes: {minutes:g} min are too few for {epochs} epochs with one step of "
            f"{step} windows each, which takes {step * pace.window_s:.1f} s on this machine; allow "
            f"{enough} min or more, or lower train.batch_size or train.window_px"
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
    """Return options with the plan of the training in a folder.

    If `options.minutes` are more than it was planned for, it gets as many more epochs of the same
    steps, and the learning rate follows the schedule of the longer training from there on.

    Raises:
        ConfigError: if that was planned for more time, or without a limit.
        CheckpointError: if the folder contains no such plan.
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
