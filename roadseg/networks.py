"""What the config says of networks, as values that learn takes: the device and the recipe."""

import logging

from roadseg.learn.devices import Device, pick_device
from roadseg.learn.gpus import set_math
from roadseg.learn.losses import LossWeights
from roadseg.learn.recipe import Recipe
from roadseg.settings import ComputeConfig
from roadseg.train_settings import TrainConfig

_log = logging.getLogger(__name__)


def chosen_device(compute: ComputeConfig) -> Device:
    """Pick the device of a config, make it compute as asked, and say in one line what and why.

    Raises:
        ConfigError: if its settings do not go together.
        DeviceError: if the machine lacks what they ask for.
    """
    device = pick_device(
        compute.device,
        compute.precision,
        backend=compute.backend,
        compiled=compute.compile,
        compile_mode=compute.compile_mode,
    )
    if device.type == "cuda":
        set_math(tf32=compute.tf32, benchmark=compute.cudnn_benchmark)
    _log.info(device.reason)
    return device


def recipe_of(train: TrainConfig) -> Recipe:
    """Return what decides about the weights of a network."""
    settings = train.model_dump(exclude={"loss", "distributed", "tensorboard"})
    return Recipe(**settings, loss=LossWeights(**train.loss.model_dump()))
