"""Programs: a network as one graph with its weights, as torch.export makes it.

The formats of OpenVINO and ONNX are made from it.
"""

import copy
import itertools
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from roadseg.errors import RoadsegError, first_line

# From scaled uint8 windows (window, band, row, col) on the CPU to probabilities 0..1, float32
# (window, class, row, col), on any device.
Network = Callable[[Tensor], Tensor]
Shape = tuple[int, int, int, int]  # Of such windows.
WindowShape = tuple[int | None, int, int, int]  # None where it can be any number of windows.

MAX_DIFFERENCE = 1e-3  # Largest difference of a probability from PyTorch's.
INPUT = "windows"  # Name of the input, for other programs.
OUTPUT = "probabilities"  # Name of the output.

_VALUES = 256  # Values that a byte can have.
_ROAD_PX = 8
_SEVERAL = 2  # Windows of an example; torch.export takes 1 to mean always 1.


def as_program(network: nn.Module, *, window_shape: WindowShape) -> ExportedProgram:
    """Return a network from windows to probabilities as one graph with its weights.

    Args:
        network: on the CPU, in evaluation mode; it stays as it is.

    Raises:
        RoadsegError: if this is not possible; for some only with a fixed number of windows.
    """
    count, *sides = window_shape
    plain = copy.deepcopy(network).to(memory_format=torch.contiguous_format)
    example = torch.zeros(count or _SEVERAL, *sides, dtype=torch.uint8)
    shapes = ({0: Dim.DYNAMIC},) if count is None else None
    try:
        with torch.no_grad():
            program = torch.export.export(plain, (example,), dynamic_shapes=shapes)
    except (RuntimeError, ValueError, TypeError) as error:
        bands, rows, cols = sides
        number = "any number of" if count is None else count
        advice = "give a batch size" if count is None else "choose another architecture or encoder"
        raise RoadsegError(
            f"this network cannot be exported for {number} windows of {bands} bands, {rows} x "
            f"{cols} px: {first_line(error)}; {advice}"
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # It names files of this machine.
    return program


def load_package(package: str, *, needed_by: str, extra: str) -> ModuleType:
    """Import a package of an optional part of roadseg.

    Raises:
        RoadsegError: if it cannot be imported.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise RoadsegError(
            f"{needed_by} needs the package {package} ({error}); run `pip install "
            f"'roadseg[{extra}]'`"
        ) from error


@torch.inference_mode()
def largest_difference(network: nn.Module, model: Network, *shapes: Shape) -> float:
    """Return the largest difference from the probabilities of a network, on artificial windows.

    Args:
        shapes: shapes of the batches, which have noise and roads in turn.

    Returns:
        NaN if any probability is NaN.
    """
    batches = [
        draw(shape) for draw, shape in zip(itertools.cycle((_noise, _roads)), shapes, strict=False)
    ]
    differences = [(model(windows) - network(windows)).abs().max() for windows in batches]
    return float(torch.stack(differences).max())


def _noise(shape: tuple[int, ...]) -> Tensor:
    """Return windows of noise with every value."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, _VALUES, shape, np.uint8))


def _roads(shape: tuple[int, ...]) -> Tensor:
    """Return windows of bright roads on dark ground, at different places."""
    rng, (rows, cols) = np.random.default_rng(1), np.indices(shape[-2:])
    ground = rng.normal(80, 15, shape)
    for window, shift in zip(ground, rng.integers(0, shape[-1], shape[0]), strict=True):
        across = (rows + 2 * cols + shift) % shape[-1] < _ROAD_PX
        along = (3 * rows - cols + shift) % shape[-1] < _ROAD_PX
        window[:, across | along] += 90
    return torch.from_numpy(ground.clip(0, _VALUES - 1).astype(np.uint8))
