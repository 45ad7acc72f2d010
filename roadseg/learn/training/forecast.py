"""Forecast: how long a training will take, before its images are cut into chips."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from roadseg.learn.hardware.devices import Device
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.rehearsal import Pace, guess_pace
from roadseg.learn.training.timetable import fit_minutes
from roadseg.raster.grid import Grid
from roadseg.raster.windows import cut_chips


@dataclass(frozen=True)
class Ground:
    """The images of a training, as far as its time depends on them.

    Attributes:
        chips: number of chips to train on, each counted by its weight.
        held_out: number of windows that cover those held out.
    """

    chips: float
    held_out: int


@dataclass(frozen=True)
class Forecast:
    """The forecast of a training.

    Attributes:
        options: of the training, with what was planned for its time.
        ground: its images.
        pace: of this machine.
        windows: of an epoch.
        held_out: windows that are validated on.
        epoch_s: seconds of an epoch with its validation.
    """

    options: TrainOptions
    ground: Ground
    pace: Pace
    windows: int
    held_out: int
    epoch_s: float


def count_ground(
    scenes: Iterable[tuple[Grid, float]], *, chip_px: int, window_px: int, folds: int
) -> Ground:
    """Count the chips and windows that scenes will be cut into, if one fold of all is held out.

    Args:
        scenes: grid of each, and the weight of its chips.
        chip_px: longest side of a chip.
        window_px: side of the windows.
        folds: number of folds.
    """
    weight = windows = 0.0
    for grid, each in scenes:
        chips = cut_chips(grid.height, grid.width, chip_px=chip_px)
        weight += each * len(chips)
        windows += sum(
            math.ceil(chip.height / window_px) * math.ceil(chip.width / window_px) for chip in chips
        )
    return Ground(weight * (folds - 1) / folds, math.ceil(windows / folds))


def forecast(
    options: TrainOptions, ground: Ground, *, bands: int, bins: int, device: Device, workers: int
) -> Forecast:
    """Say how long a training takes, by steps on random pixels; plan it, if its time is limited.

    Args:
        options: of the training.
        ground: its images.
        bands: of the images.
        bins: number of speed bins.
        device: where the network runs.
        workers: processes that read windows.

    Raises:
        ConfigError: if the network cannot be built, or there is no time for a step.
    """
    pace = guess_pace(options, bands=bands, bins=bins, device=device, workers=workers)
    if options.minutes is not None:
        options = fit_minutes(options, pace, weight=ground.chips, held_out=ground.held_out)
    windows = round(options.windows_per_chip * ground.chips)
    checked = min(options.validation_windows or ground.held_out, ground.held_out)
    epoch_s = pace.epoch_seconds(windows, checked)
    return Forecast(options, ground, pace, windows, checked, epoch_s)
