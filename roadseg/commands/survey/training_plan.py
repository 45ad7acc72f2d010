"""Training plan: how long a training will take, and what fits into the minutes that it may."""

from collections.abc import Sequence
from dataclasses import dataclass

from roadseg.commands.survey.defaults import Settings
from roadseg.config import Config
from roadseg.learn.hardware.devices import Device, chosen_device
from roadseg.learn.training.forecast import Forecast, forecast_scenes
from roadseg.learn.training.timetable import PLANNED
from roadseg.raster.images import RasterFacts


@dataclass(frozen=True)
class TrainingPlan:
    """The plan of a training.

    Attributes:
        settings: of the section train.
        rows: of the table that init prints: what was planned, and why.
    """

    settings: Settings
    rows: dict[str, str]


def forecast_training(
    scenes: Sequence[tuple[RasterFacts, float]], config: Config, *, device: Device
) -> Forecast:
    """Say how long the training of a config takes, before its scenes are cut into chips.

    Args:
        scenes: facts of each scene's image, and the weight of its chips.
        config: all settings.
        device: where the network runs.

    Raises:
        ConfigError: if the network cannot be built, or there is no time for a step.
    """
    return forecast_scenes(
        config.train,
        scenes,
        chip_px=config.imagery.chip_px,
        folds=config.folds,
        bins=config.labels.bins.count,
        device=device,
    )


def plan_training(scenes: Sequence[tuple[RasterFacts, float]], config: Config) -> TrainingPlan:
    """Plan a training for `train.minutes`, by some steps of its network on random pixels.

    Args:
        scenes: facts of each scene's image, and the weight of its chips.
        config: all other settings.

    Raises:
        ConfigError: if there is no time for a step in each epoch.
    """
    device = chosen_device(config.compute)
    seen = forecast_training(scenes, config, device=device)
    settings = {key: getattr(seen.options, key) for key in PLANNED}
    where = f"{device.name} in {device.precision}"
    rows = {"training": _pace_text(seen, where), "": _ground_text(seen, config)}
    return TrainingPlan(settings, rows)


def _pace_text(seen: Forecast, where: str) -> str:
    options = seen.options
    step = options.batch_size * options.accumulate
    return (
        f"{options.minutes:g} min on {where}: {options.epochs} epochs of {seen.windows // step} "
        f"steps of {step} windows of {options.window_px} px, {step * seen.pace.window_s:.1f} s a "
        "step; measured again when it starts"
    )


def _ground_text(seen: Forecast, config: Config) -> str:
    every = seen.ground.held_out
    share = seen.held_out * seen.pace.held_out_s / seen.epoch_s
    times = seen.options.epochs * seen.windows / (every * (config.folds - 1))
    return (
        f"every place is seen {times:.1f} times; validation on "
        f"{seen.held_out} of {every} windows takes {share:.0%} of the time"
    )
