"""Quantisation: the INT8 form of a checkpoint's network, calibrated on windows of chips."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import openvino
from roadseg.learn.inference.engines import Engine, ProbabilityNetwork, open_engine
from roadseg.learn.inference.int8 import int8_folder, remove_int8_facts
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.training.samples import Chip, ValidationWindows
from roadseg.system.files import writing

_SEED = 0  # Seed of the choice of windows for calibration.


def quantise(
    checkpoint: Checkpoint,
    folder: Path,
    chips: Sequence[Chip],
    *,
    window_px: int,
    batch_size: int,
    windows: int,
) -> tuple[Engine, Engine]:
    """Quantise a network in its checkpoint folder; without facts it cannot be used yet.

    Args:
        chips: training chips, on which it is calibrated.
        window_px: side of the windows for calibration and comparison, a multiple of 32.
        windows: largest number of windows to calibrate on.

    Returns:
        Engines of the INT8 network and of the float32 network, both on the CPU.

    Raises:
        ConfigError: if the network cannot work on such windows.
        RoadsegError: if a package is missing, or the network cannot be quantised.
        OutputError: if the files cannot be written.
    """
    exact = open_engine(
        checkpoint,
        folder,
        name="eager",
        device=pick_device("cpu", "fp32"),
        window_px=window_px,
        batch_size=batch_size,
        windows=1,
    )
    calibration = calibration_windows(
        chips, window_px=window_px, batch_size=batch_size, windows=windows
    )
    shape = (batch_size, len(checkpoint.scaling.mean), window_px, window_px)
    network = ProbabilityNetwork(checkpoint.model, checkpoint.scaling).eval()
    where = int8_folder(folder)
    with writing(where):
        remove_int8_facts(folder)
        where.mkdir(parents=True, exist_ok=True)
        openvino.build(network, where, window_shape=shape, calibration=calibration)
    run = openvino.open(where, window_shape=shape)
    return Engine("openvino", "engine openvino (INT8)", batch_size, window_px, run), exact


def calibration_windows(
    chips: Sequence[Chip], *, window_px: int, batch_size: int, windows: int
) -> list[Tensor]:
    """Draw windows at random from all chips, with or without roads; they are not augmented.

    Args:
        chips: at least one.
        windows: largest number of windows to draw.

    Returns:
        Batches, uint8 (window, band, row, col); the last one is filled up with the first windows.
    """
    cover = ValidationWindows(chips, window_px=window_px)
    drawn = np.random.default_rng(_SEED).permutation(len(cover))[:windows]
    filled = np.resize(drawn, (-(-len(drawn) // batch_size), batch_size))
    return [torch.stack([cover[number][0] for number in batch]) for batch in filled.tolist()]
