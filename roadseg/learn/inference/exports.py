"""Exports: a checkpoint for other programs, checked against PyTorch."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from roadseg.errors import ConfigError, RoadsegError
from roadseg.learn.inference import int8, onnx, openvino, programs
from roadseg.learn.inference.engines import ProbabilityNetwork
from roadseg.learn.inference.programs import (
    INPUT,
    MAX_DIFFERENCE,
    OUTPUT,
    WindowShape,
    largest_difference,
)
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.models import check_batch, check_window
from roadseg.system.files import atomic_write_folder
from roadseg.system.records import versions, write_json

FACTS = "model.json"
FILES: Mapping[str, tuple[str, ...]] = {  # Files of each format.
    "onnx": ("model.onnx",),
    "openvino": int8.FILES,
    "torch": ("model.pt2",),
}

_MODULES: Mapping[str, ModuleType] = {"onnx": onnx, "openvino": openvino, "torch": programs}
_ANY = "any"  # In the facts: the model takes any number of windows.
_SOME = (1, 3)  # Numbers of windows with which such a model is checked.


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
    if form not in FILES:
        raise ConfigError(f"format: expected one of {', '.join(FILES)}, got {form!r}")
    window_shape = _window_shape(checkpoint, window_px, batch_size)
    with atomic_write_folder(folder) as partial:
        difference = _build_checked(checkpoint, partial, form=form, window_shape=window_shape)
        write_json(partial / FACTS, _facts(checkpoint, window_shape, difference, form=form))
    return difference


def _window_shape(checkpoint: Checkpoint, window_px: int, batch_size: int | None) -> WindowShape:
    """Return the shape of windows, once the network is known to take them."""
    check_window(window_px)
    bands = len(checkpoint.scaling.mean)
    model, number = checkpoint.model.eval(), batch_size or 1
    check_batch(model, in_channels=bands, window_px=window_px, batch_size=number)
    return (batch_size, bands, window_px, window_px)


def _build_checked(
    checkpoint: Checkpoint, folder: Path, *, form: str, window_shape: WindowShape
) -> float:
    """Write the model to a folder; return the largest difference of probabilities to PyTorch's."""
    network = ProbabilityNetwork(checkpoint.model, checkpoint.scaling).eval()
    _MODULES[form].build(network, folder, window_shape=window_shape)
    count, bands, rows, cols = window_shape
    shapes = [(number, bands, rows, cols) for number in ((count, count) if count else _SOME)]
    difference = largest_difference(network, _MODULES[form].open(folder), *shapes)
    if not difference <= MAX_DIFFERENCE:
        raise RoadsegError(
            f"the probabilities of the {form} model differ from those of PyTorch by "
            f"{difference:.2g}, expected at most {MAX_DIFFERENCE:g}; choose another format, or "
            "other versions of its packages"
        )
    return difference


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
