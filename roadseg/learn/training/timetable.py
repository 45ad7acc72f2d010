"""Timetable: how many epochs share the given time or worked best on folds; forecasts."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.network.checkpoint_facts import Facts, threshold_of
from roadseg.learn.network.checkpoints import checkpoint_path, read_checkpoint_facts
from roadseg.learn.options import MINUTE_S, TrainOptions
from roadseg.learn.training.rehearsal import KEEPING_S, START_S, Pace, guess_pace
from roadseg.raster.grid import Grid
from roadseg.raster.windows import cut_chips

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
        windows: training windows of an epoch.
        held_out: windows that cover the held-out chips.
        checked: those of them that each epoch is validated on.
        epoch_s: seconds of an epoch with its validation, at this pace.
    """

    options: TrainOptions
    pace: Pace
    windows: int
    held_out: int
    checked: int
    epoch_s: float


def training_seconds(options: TrainOptions, epoch_s: float) -> float:
    """Return how long a training takes: its time limit, or else at most all its epochs.

    Args:
        epoch_s: seconds of an epoch with its validation.
    """
    return START_S + options.epochs * epoch_s if options.limit_s is None else options.limit_s


def forecast(
    options: TrainOptions,
    scenes: Iterable[tuple[Grid, float]],
    *,
    chip_px: int,
    folds: int,
    bands: int,
    bins: int,
    device: Device,
    workers: int,
) -> Forecast:
    """Forecast a training by steps on random pixels; plan it if its time is limited.

    Args:
        scenes: grid of each scene, which will be cut into chips, and the weight of its chips.
        folds: number of folds, one of which is held out.

    Raises:
        ConfigError: if the network cannot be built, or there is no time for a step.
    """
    weight = all_windows = 0.0
    for grid, each in scenes:
        chips = cut_chips(grid.height, grid.width, chip_px=chip_px)
        weight += each * len(chips)
        all_windows += sum(
            math.ceil(chip.height / options.window_px) * math.ceil(chip.width / options.window_px)
            for chip in chips
        )
    trained, held_out = weight * (folds - 1) / folds, math.ceil(all_windows / folds)
    pace = guess_pace(options, bands=bands, bins=bins, device=device, workers=workers)
    if options.minutes is not None:
        options = fit_minutes(options, pace, weight=trained, held_out=held_out)
    windows = round(options.windows_per_chip * trained)
    checked = min(options.validation_windows or held_out, held_out)
    epoch_s = pace.epoch_seconds(windows, checked)
    return Forecast(options, pace, windows, held_out, checked, epoch_s)


@dataclass(frozen=True)
class FoldTraining:
    """A finished training that held out a fold.

    Attributes:
        weight: sum of the weights of its training chips.
    """

    folder: Path
    weight: float


def facts_of_folds(trained: Mapping[int, FoldTraining]) -> Facts:
    """Return what the checkpoint of a training on all chips takes over from the folds.

    These are the scores of the folds, the mean of their best epochs, and the mean of their
    thresholds, over all and for each set, if they were measured.

    Raises:
        CheckpointError: if a checkpoint cannot be read.
    """
    facts = {fold: read_checkpoint_facts(each.folder, "best") for fold, each in trained.items()}
    every = list(facts.values())
    sets = sorted(set().union(*(each.get("thresholds", {}) for each in every)))
    by_set = {
        name: threshold_of([each for each in every if name in each.get("thresholds", {})], name)
        for name in sets
    }
    threshold = threshold_of(every)
    shared: Facts = {
        "from_folds": {
            "epochs": max(1, round(statistics.fmean(each["epoch"] for each in every))),
            "scores": {str(fold): each["score"] for fold, each in facts.items()},
        }
    }
    if threshold is not None:
        shared |= {"threshold": threshold} | ({"thresholds": by_set} if by_set else {})
    return shared


def as_long_as_folds(
    options: TrainOptions, fold_facts: Facts, example: FoldTraining | None, *, weight: float
) -> TrainOptions:
    """Return the options of a training on all chips.

    It has as many epochs as the folds needed on average to their best one, over which the learning
    rate is planned. If the time of a training is limited, it has the epochs and steps planned for a
    fold, and so the same time.

    Args:
        example: the training of a fold; None if the training on all chips has begun, which then
            has its own plan of a limited time.
        weight: sum of the weights of all chips.

    Raises:
        ConfigError: if the training of the fold was planned for another time.
        CheckpointError: if its checkpoint cannot be read.
    """
    if options.minutes is None:
        return options.model_copy(update={"epochs": fold_facts["from_folds"]["epochs"]})
    if example is None:
        return options
    planned = planned_before(example.folder, options)
    share = example.weight / weight
    return planned.model_copy(update={"windows_per_chip": planned.windows_per_chip * share})


def facts_of_folds_before(folder: Path) -> Facts:
    """Read back `facts_of_folds` from a training on all chips that has begun.

    Raises:
        CheckpointError: if its checkpoint cannot be read.
    """
    facts = read_checkpoint_facts(folder, "last")
    return {key: facts[key] for key in ("from_folds", "threshold", "thresholds") if key in facts}
