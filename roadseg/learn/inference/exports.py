"""Exports: a checkpoint as ONNX for other programs, checked against PyTorch."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roadseg.errors import RoadsegError, first_line, root_cause
from roadseg.learn.inference.engines import ProbabilityNetwork
from roadseg.learn.inference.programs import (
    INPUT,
    MAX_DIFFERENCE,
    OUTPUT,
    Network,
    WindowShape,
    as_program,
    largest_difference,
    load_package,
)
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.models import check_batch
from roadseg.system.files import atomic_write_folder
from roadseg.system.records import versions, write_json

MODEL, FACTS = "model.onnx", "model.json"

_ERRORS_ONLY = 3  # Severity of errors in ONNX Runtime's log.
_SOME = (1, 3)  # Numbers of windows with which a model for any number is checked.

_load = partial(load_package, needed_by="an export", extra="onnx")


def write_export(
    checkpoint: Checkpoint, folder: Path, *, window_px: int, batch_size: int | None
) -> float:
    """Write a checkpoint as model.onnx, and beside it the facts that other programs need.

    The model turns scaled uint8 windows into probabilities. `model.json` has the scaling of the
    bands, the meaning of the probabilities, and all facts of the checkpoint. An existing folder is
    replaced.

    Returns:
        The largest difference of a probability from PyTorch's, on windows of noise and roads.

    Args:
        folder: folder to write, completely or not at all.
        window_px: side of the windows, a multiple of 32.
        batch_size: number of windows at once; None for any number, which some networks do not
            support.

    Raises:
        ConfigError: if the network cannot work on such windows.
        RoadsegError: if a package is missing, the network has a part that ONNX lacks, or its
            probabilities differ from those of PyTorch.
        OutputError: if the folder cannot be written.
    """
    bands = len(checkpoint.scaling.mean)
    model = checkpoint.model.eval()
    check_batch(model, in_channels=bands, window_px=window_px, batch_size=batch_size or 1)
    network = ProbabilityNetwork(model, checkpoint.scaling).eval()
    window_shape = (batch_size, bands, window_px, window_px)
    checked = (batch_size, batch_size) if batch_size else _SOME
    with atomic_write_folder(folder) as draft:
        write_onnx(network, draft / MODEL, window_shape=window_shape)
        shapes = [(number, bands, window_px, window_px) for number in checked]
        difference = largest_difference(network, open_onnx(draft / MODEL), *shapes)
        if not difference <= MAX_DIFFERENCE:
            raise RoadsegError(
                "the probabilities of the ONNX model differ from those of PyTorch by "
                f"{difference:.2g}, expected at most {MAX_DIFFERENCE:g}; try other versions of "
                "onnxscript and onnxruntime"
            )
        write_json(draft / FACTS, _facts(checkpoint, window_shape, difference))
    return difference


def write_onnx(network: nn.Module, path: Path, *, window_shape: WindowShape) -> None:
    """Write a network as a file of ONNX, weights included.

    Args:
        network: from scaled uint8 windows to probabilities, on the CPU, in evaluation mode.

    Raises:
        RoadsegError: if a package is missing, or the network has a part that ONNX lacks.
        OSError: if the file cannot be written (a full disk).
    """
    _load("onnxscript")
    program = as_program(network, window_shape=window_shape)
    try:
        model = torch.onnx.export(
            program,
            dynamo=True,
            external_data=False,
            input_names=[INPUT],
            output_names=[OUTPUT],
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        reason = first_line(root_cause(error))
        raise RoadsegError(f"this network cannot be written as ONNX: {reason}") from error
    model.save(path, external_data=False)  # type: ignore[union-attr]


def open_onnx(path: Path) -> Network:
    """Open a file of `write_onnx` with ONNX Runtime on the CPU.

    It uses as many threads as PyTorch. Because their number is given, ONNX Runtime does not bind
    threads to cores, which several processes would otherwise share.

    Raises:
        RoadsegError: if ONNX Runtime is missing.
    """
    runtime = _load("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = _ERRORS_ONLY
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(windows: Tensor) -> Tensor:
        (probabilities,) = session.run([OUTPUT], {INPUT: windows.numpy()})
        return torch.from_numpy(probabilities)

    return run


def _facts(checkpoint: Checkpoint, window_shape: WindowShape, difference: float) -> dict[str, Any]:
    """Return the facts that a program needs to use an export."""
    count, bands, rows, cols = window_shape
    number, bins = count or "any", checkpoint.bins
    return {
        "format": "onnx",
        "files": [MODEL],
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
