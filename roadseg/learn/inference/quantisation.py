"""Quantisation: the INT8 form of a checkpoint's network, calibrated on windows of chips."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import openvino
from roadseg.learn.inference.bench import rates
from roadseg.learn.inference.engines import Engine, ProbabilityNetwork, open_engine
from roadseg.learn.inference.int8 import int8_folder, remove_int8_facts
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.training.samples import Chip, ValidationWindows
from roadseg.system.files import writing

_SEED = 0  # Seed of the choice of windows for calibration.
_ROUNDS = 5  # Rounds in which speeds are measured.


@dataclass(frozen=True)
class Quantised:
    """A new INT8 network, to be compared with the float32 network.

    Attributes:
        engine: engine of the INT8 network.
        exact: eager engine of the float32 network, also on the CPU.
        opening_s: seconds to open the INT8 network.
        windows_per_s: speed of the INT8 network.
        eager_windows_per_s: speed of the eager engine, measured in turns with it.
        eager: precision of the eager engine there: "fp32", or "bf16" on a CPU that is fast at it.
    """

    engine: Engine
    exact: Engine
    opening_s: float
    windows_per_s: float
    eager_windows_per_s: float
    eager: str


def quantise(
    checkpoint: Checkpoint,
    folder: Path,
    chips: Sequence[Chip],
    *,
    window_px: int,
    batch_size: int,
    windows: int,
) -> Quantised:
    """Quantise a network in its checkpoint folder; without facts it cannot be used yet.

    Args:
        chips: training chips, on which it is calibrated.
        window_px: side of the windows for calibration and measurement, a multiple of 32.
        windows: largest number of windows to calibrate on.

    Raises:
        ConfigError: if the network cannot work on such windows.
        RoadsegError: if a package is missing, or the network cannot be quantised.
        OutputError: if the files cannot be written.
    """
    cpu = pick_device("cpu", "fp32")
    open_eager = partial(
        open_engine,
        checkpoint,
        folder,
        name="eager",
        window_px=window_px,
        batch_size=batch_size,
        windows=1,
    )
    exact = open_eager(device=cpu)
    calibration = calibration_windows(
        chips, window_px=window_px, batch_size=batch_size, windows=windows, seed=_SEED
    )
    shape = (batch_size, len(checkpoint.scaling.mean), window_px, window_px)
    network = ProbabilityNetwork(checkpoint.model, checkpoint.scaling).eval()
    where = int8_folder(folder)
    with writing(where):
        remove_int8_facts(folder)
        where.mkdir(parents=True, exist_ok=True)
        openvino.build(network, where, window_shape=shape, calibration=calibration)
    begun = time.perf_counter()
    run = openvino.open(where, window_shape=shape)
    opening_s = time.perf_counter() - begun
    engine = Engine("openvino", "engine openvino (INT8, just made)", batch_size, window_px, run)
    fast = pick_device("cpu", "auto")
    eager = open_eager(device=fast)
    turns = {"int8": partial(run, calibration[0]), "eager": partial(eager.run, calibration[0])}
    found = rates(turns, windows=batch_size, rounds=_ROUNDS, device=cpu)
    return Quantised(engine, exact, opening_s, found["int8"], found["eager"], fast.precision)


def calibration_windows(
    chips: Sequence[Chip], *, window_px: int, batch_size: int, windows: int, seed: int
) -> list[Tensor]:
    """Draw windows at random from all chips, with or without roads; they are not augmented.

    Args:
        chips: at least one.
        windows: largest number of windows to draw.

    Returns:
        Batches, uint8 (window, band, row, col); the last one is filled up with the first windows.
    """
    cover = ValidationWindows(chips, window_px=window_px)
    drawn = np.random.default_rng(seed).permutation(len(cover))[:windows]
    filled = np.resize(drawn, (-(-len(drawn) // batch_size), batch_size))
    return [torch.stack([cover[number][0] for number in batch]) for batch in filled.tolist()]
