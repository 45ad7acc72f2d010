"""Training plan: the duration of a training, or a plan for the given minutes."""

import math
from collections.abc import Sequence

from roadseg.commands.survey.defaults import Settings
from roadseg.config import Config
from roadseg.learn.hardware.devices import Device, chosen_device
from roadseg.learn.training.rehearsal import guess_pace
from roadseg.learn.training.timetable import PLANNED, Forecast, forecast
from roadseg.raster.images import RasterFacts
from roadseg.raster.windows import cover, cut_chips


def forecast_training(
    scenes: Sequence[tuple[RasterFacts, float]], config: Config, *, device: Device
) -> Forecast:
    """Forecast how long the training of a config takes, before its scenes are cut into chips.

    Its pace is measured on random pixels, and one fold is taken to be held out.

    Args:
        scenes: facts of each scene's image, and the weight of its chips.

    Raises:
        ConfigError: if the network cannot be built, or there is no time for a step.
    """
    train, weight, windows = config.train, 0.0, 0
    for facts, each in scenes:
        chips = cut_chips(facts.grid.height, facts.grid.width, chip_px=config.imagery.chip_px)
        weight += each * len(chips)
        windows += sum(
            len(cover(chip.height, chip.width, window_px=train.window_px)) for chip in chips
        )
    pace = guess_pace(
        train,
        bands=len(scenes[0][0].bands),
        bins=config.labels.bins.count,
        device=device,
        workers=config.compute.workers,
    )
    trained = weight * (config.folds - 1) / config.folds
    return forecast(train, pace, weight=trained, held_out=math.ceil(windows / config.folds))


def plan_training(
    scenes: Sequence[tuple[RasterFacts, float]], config: Config
) -> tuple[Settings, dict[str, str]]:
    """Plan a training for `train.minutes`, by some steps of its network on random pixels.

    Args:
        scenes: facts of each scene's image, and the weight of its chips.

    Returns:
        Settings of the training, and rows of the table that init prints.

    Raises:
        ConfigError: if there is no time for a step in each epoch.
    """
    device = chosen_device(config.compute)
    forecast = forecast_training(scenes, config, device=device)
    settings: Settings = {key: getattr(forecast.options, key) for key in PLANNED}
    options, every = forecast.options, forecast.held_out
    step = options.batch_size
    share = forecast.checked * forecast.pace.held_out_s / forecast.epoch_s
    times = options.epochs * forecast.windows / (every * (config.folds - 1))
    return settings, {
        "training": f"{options.minutes:g} min on {device.name} in {device.precision}: "
        f"{options.epochs} epochs of about {int(forecast.windows // step)} steps of {step} windows "
        f"of {options.window_px} px, {step * forecast.pace.window_s:.1f} s per step (a busy "
        "machine takes fewer steps, not more time)",
        "": f"each place is seen {times:.1f} times; validation on {forecast.checked} of {every} "
        f"windows takes {share:.0%} of the time",
    }
