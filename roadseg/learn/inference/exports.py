"""Exports: a checkpoint for other programs, or as an engine, checked against PyTorch."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roadseg.errors import ConfigError, RoadsegError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import engine_store, onnx, openvino, programs
from roadseg.learn.inference.bench import Rate, rates
from roadseg.learn.inference.engine_store import (
    EngineFacts,
    engine_folder,
    write_facts,
)
from roadseg.learn.inference.engines import ProbabilityNetwork
from roadseg.learn.inference.programs import INPUT, OUTPUT, Network, WindowShape
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.models import check_batch, check_window
from roadseg.system.files import atomic_write_folder
from roadseg.system.records import versions, write_json

MAX_DIFFERENCE = 1e-3  # Largest difference of a probability from PyTorch's.
FACTS = "model.json"
FILES: Mapping[str, tuple[str, ...]] = {  # Files of each format.
    "onnx": engine_store.FILES["onnx"],
    "openvino": engine_store.FILES["openvino"],
    "torch": ("model.pt2",),
}

_BUILD: Mapping[str, Callable[..., None]] = {
    "onnx": onnx.build,
    "openvino": openvino.build,
    "torch": programs.build,
}
_OPEN: Mapping[str, Callable[[Path], Network]] = {
    "onnx": onnx.open,
    "openvino": openvino.open,
    "torch": programs.open,
}
_ANY = "any"  # In the facts: the model takes any number of windows.
_SOME = (1, 3)  # Numbers of windows with which such a model is checked.
_VALUES = 256  # Values that a byte can have.
_ROAD_PX = 8
_ROUNDS = 3  # Rounds in which the speed of each engine is measured.


def write_export(
    checkpoint: Checkpoint, folder: Path, *, form: str, window_px: int, batch_size: int | None
) -> float:
    """Write a checkpoint in a format of other programs, with the facts that they need beside it.

    The model takes scaled uint8 windows and gives probabilities. `model.json` says how bands are
    scaled, what the probabilities stand for, and all that the checkpoint says. A folder that is
    there is replaced.

    Returns:
        The largest difference of a probability from PyTorch's, on windows of noise and roads.

    Args:
        folder: to write, whole or not at all.
        form: "onnx", "openvino" or "torch" (a file of torch.export).
        window_px: side of the windows, a multiple of 32.
        batch_size: windows at once; None for any number, which not every network can be given.

    Raises:
        ConfigError: if there is no such format, or the network cannot work on such windows.
        RoadsegError: if a package is missing, the network cannot be written in this format, or
            computes something else in it.
        OutputError: if the folder cannot be written.
    """
    _require_choice("format", form, tuple(FILES))
    window_shape = _window_shape(checkpoint, window_px, batch_size)
    with atomic_write_folder(folder) as partial:
        difference = _build_checked(checkpoint, partial, form=form, window_shape=window_shape)
        write_json(partial / FACTS, _facts(checkpoint, window_shape, difference, form=form))
    return difference


def build_engine(
    checkpoint: Checkpoint, folder: Path, *, name: str, window_px: int, batch_size: int
) -> EngineFacts:
    """Make a float32 engine of a checkpoint, for `open_engine`, and measure its speed.

    Args:
        folder: its folder, in which the engine goes to engines/<name>.
        name: "onnx" or "openvino".
        window_px: side of the windows, a multiple of 32.

    Raises:
        ConfigError: if there is no such engine, or the network cannot work on such windows.
        RoadsegError: if a package is missing, the network cannot be written in this format, or
            computes something else in it.
        OutputError: if the folder cannot be written.
    """
    _require_choice("engine", name, ("onnx", "openvino"))
    window_shape = _window_shape(checkpoint, window_px, batch_size)
    with atomic_write_folder(engine_folder(folder, name)) as partial:
        difference = _build_checked(checkpoint, partial, form=name, window_shape=window_shape)
    begun = time.perf_counter()
    run = _OPEN[name](engine_folder(folder, name))
    opening_s = time.perf_counter() - begun
    speed = _speed(run, _network(checkpoint), _roads((batch_size, *window_shape[1:])))
    return write_facts(
        folder,
        name,
        window_px=window_px,
        batch_size=batch_size,
        gate={"passed": True, "max_difference": difference, "limit": MAX_DIFFERENCE},
        windows_per_s=speed.roadseg,
        eager_windows_per_s=speed.bare,
        opening_s=opening_s,
    )


def _require_choice(what: str, name: str, choices: tuple[str, ...]) -> None:
    if name not in choices:
        raise ConfigError(f"{what}: expected one of {', '.join(choices)}, got {name!r}")


def _window_shape(checkpoint: Checkpoint, window_px: int, batch_size: int | None) -> WindowShape:
    """Return the shape of windows, once the network is known to take them."""
    check_window(window_px)
    bands = len(checkpoint.scaling.mean)
    model, number = checkpoint.model.eval(), batch_size or 1
    check_batch(model, in_channels=bands, window_px=window_px, batch_size=number)
    return (batch_size, bands, window_px, window_px)


def _network(checkpoint: Checkpoint) -> nn.Module:
    return ProbabilityNetwork(checkpoint.model, checkpoint.scaling).eval()


def _build_checked(
    checkpoint: Checkpoint, folder: Path, *, form: str, window_shape: WindowShape
) -> float:
    """Write the model to a folder; return the largest difference of probabilities to PyTorch's."""
    network = _network(checkpoint)
    _BUILD[form](network, folder, window_shape=window_shape)
    difference = _difference(network, _OPEN[form](folder), window_shape)
    if not difference <= MAX_DIFFERENCE:
        raise RoadsegError(
            f"the probabilities of the {form} model differ from those of PyTorch by "
            f"{difference:.2g}, expected at most {MAX_DIFFERENCE:g}; choose another format, or "
            "other versions of its packages"
        )
    return difference


@torch.inference_mode()
def _difference(network: nn.Module, model: Network, window_shape: WindowShape) -> float:
    """Return the largest difference of probabilities; NaN if any of them is NaN."""
    count, *sides = window_shape
    numbers = (count, count) if count else _SOME
    batches = [_noise((numbers[0], *sides)), _roads((numbers[1], *sides))]
    differences = [(model(windows) - network(windows)).abs().max() for windows in batches]
    return float(torch.stack(differences).max())


def _noise(shape: tuple[int, ...]) -> Tensor:
    """Return windows of noise that contains every value."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, _VALUES, shape, np.uint8))


def _roads(shape: tuple[int, ...]) -> Tensor:
    """Return windows of bright roads on dark ground, at another place in each window."""
    rng, (rows, cols) = np.random.default_rng(1), np.indices(shape[-2:])
    ground = rng.normal(80, 15, shape)
    for window, shift in zip(ground, rng.integers(0, shape[-1], shape[0]), strict=True):
        across = (rows + 2 * cols + shift) % shape[-1] < _ROAD_PX
        along = (3 * rows - cols + shift) % shape[-1] < _ROAD_PX
        window[:, across | along] += 90
    return torch.from_numpy(ground.clip(0, _VALUES - 1).astype(np.uint8))


def _speed(run: Network, eager: nn.Module, windows: Tensor) -> Rate:
    """Measure an engine in turns with PyTorch, on the CPU in the precision that it is fast at."""
    cpu = pick_device("cpu", "auto")
    eager.to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def engine() -> None:
        run(windows)

    @torch.inference_mode()
    def bare() -> None:
        with cpu.autocast():
            eager(windows)

    turns = {"roadseg": engine, "bare": bare}
    return rates(turns, windows=len(windows), rounds=_ROUNDS, device=cpu)


def _facts(
    checkpoint: Checkpoint, window_shape: WindowShape, difference: float, *, form: str
) -> dict[str, Any]:
    """Return the facts that a program needs to use an export."""
    count, bands, rows, cols = window_shape
    number, bins = count or _ANY, checkpoint.bins
    return {
        "format": form,
        "files": list(FILES[form]),
        "input": {
            "name": INPUT,
            "dtype": "uint8",
            "axes": ["window", "band", "row", "col"],
            "shape": [number, bands, rows, cols],
            "bands": checkpoint.facts["bands"],
            "gsd_m": checkpoint.facts["gsd_m"],
            "scaling": {name: list(each) for name, each in checkpoint.scaling.ranges.items()},
            "how": "For pixels of each type, scaling names the two values of each band that "
            "become 0 and 255; between them round((value - low) / (high - low) * 255), clipped "
            "to 0..255. Mean and standard deviation are inside the model.",
        },
        "output": {
            "name": OUTPUT,
            "dtype": "float32",
            "axes": ["window", "class", "row", "col"],
            "shape": [number, len(bins.band_names), rows, cols],
            "classes": list(bins.band_names),
            "bin_edges": list(bins.edges),
            "bin_unit": bins.unit,
            "threshold": checkpoint.facts.get("threshold"),
            "how": "Probabilities 0..1, each class by itself: road of that speed, and last any "
            "road, which is road from threshold on, if that was measured.",
        },
        "max_difference": difference,
        "checkpoint": checkpoint.facts,
        "versions": versions(),
    }
