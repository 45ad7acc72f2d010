"""Quantisation: an INT8 engine of a checkpoint's network, calibrated on windows of chips."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from roadseg.errors import OutputError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import int8, openvino
from roadseg.learn.inference.bench import Rate, rates
from roadseg.learn.inference.compilers import compiler_of
from roadseg.learn.inference.engine_store import engine_folder, remove_facts
from roadseg.learn.inference.engines import (
    Engine,
    ProbabilityNetwork,
    open_engine,
    open_prebuilt,
)
from roadseg.learn.inference.programs import Network
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.training.samples import Chip, ValidationWindows

_SEED = 0  # Seed of the choice of windows for calibration.
_ROUNDS = 5  # Rounds in which speeds are measured.


@dataclass(frozen=True)
class Quantised:
    """An INT8 engine that was just made, to compare with the float32 network.

    Attributes:
        engine: INT8.
        exact: float32, eager, on the CPU as well.
        opening_s: seconds that it took to open the INT8 engine.
        rate: windows per second: "roadseg" of the INT8 engine, in turns with "bare", eager.
        eager: how eager computed there: "fp32", or "bf16" on a CPU that is fast at it.
    """

    engine: Engine
    exact: Engine
    opening_s: float
    rate: Rate
    eager: str


def quantise(
    checkpoint: Checkpoint,
    folder: Path,
    chips: Sequence[Chip],
    *,
    name: str,
    window_px: int,
    batch_size: int,
    windows: int,
) -> Quantised:
    """Make an INT8 engine in the folder of a checkpoint. It has no facts yet: it is not ready.

    Args:
        chips: of its training, to calibrate on.
        name: "int8" or "openvino".
        window_px: side of the windows that the engine takes, a multiple of 32.
        windows: windows to calibrate on, fewer if the chips have no more.

    Raises:
        ConfigError: if the network cannot work on such windows.
        DeviceError: if a package or the compiler is missing.
        RoadsegError: if the network cannot be quantised.
        OutputError: if the engine cannot be written.
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
    if name == "int8":
        compiler_of(cpu)  # If there is no compiler, it stops here, before the work.
    calibration = calibration_windows(
        chips, window_px=window_px, batch_size=batch_size, windows=windows, seed=_SEED
    )
    shape = (batch_size, len(checkpoint.scaling.mean), window_px, window_px)
    _build(checkpoint, folder, name, shape, calibration)
    begun = time.perf_counter()
    run = open_prebuilt(checkpoint, folder, name, device=cpu, window_shape=shape)
    opening_s = time.perf_counter() - begun
    engine = Engine(name, f"engine {name} (just made)", batch_size, window_px, run)
    fast = pick_device("cpu", "auto")
    eager = open_eager(device=fast)
    turns = {"roadseg": _once(run, calibration[0]), "bare": _once(eager.run, calibration[0])}
    rate = rates(turns, windows=batch_size, rounds=_ROUNDS, device=cpu)
    return Quantised(engine, exact, opening_s, rate, fast.precision)


def calibration_windows(
    chips: Sequence[Chip], *, window_px: int, batch_size: int, windows: int, seed: int
) -> list[Tensor]:
    """Draw windows at random from all chips, with or without roads; they are not augmented.

    Args:
        chips: at least one.
        windows: how many to draw, fewer if the chips have no more.

    Returns:
        Batches, uint8 (window, band, row, col); the last one is filled up with the first windows.
    """
    cover = ValidationWindows(chips, window_px=window_px)
    drawn = np.random.default_rng(seed).permutation(len(cover))[:windows]
    filled = np.resize(drawn, (-(-len(drawn) // batch_size), batch_size))
    return [torch.stack([cover[number][0] for number in batch]) for batch in filled.tolist()]


def _build(
    checkpoint: Checkpoint,
    folder: Path,
    name: str,
    window_shape: tuple[int, int, int, int],
    calibration: Sequence[Tensor],
) -> None:
    network = ProbabilityNetwork(checkpoint.model, checkpoint.scaling).eval()
    where = engine_folder(folder, name)
    build = int8.build if name == "int8" else openvino.build
    try:
        remove_facts(folder, name)
        where.mkdir(parents=True, exist_ok=True)
        build(network, where, window_shape=window_shape, calibration=calibration)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"{where}: cannot be written: {error.strerror or error}") from error


def _once(run: Network, windows: Tensor) -> Callable[[], None]:
    def work() -> None:
        run(windows)

    return work
