"""ONNX: a network as a file that many programs run, written by PyTorch, run by ONNX Runtime."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from roadseg.errors import CheckpointError, RoadsegError, first_line
from roadseg.learn.inference.programs import INPUT, OUTPUT, Network, WindowShape, trace

_FILE = "model.onnx"
_INSTALL = "run `pip install 'roadseg[onnx]'`"
_ERRORS = (
    "InvalidProtobuf",
    "InvalidGraph",
    "Fail",
    "InvalidArgument",
    "NotImplemented",
    "NoModel",
)
_ERRORS_ONLY = 3  # Severity of errors in ONNX Runtime's log.


def build(network: nn.Module, folder: Path, *, window_shape: WindowShape) -> None:
    """Write a network as model.onnx, weights included.

    Args:
        network: from scaled uint8 windows to probabilities, on the CPU, in evaluation mode.
        folder: where the file goes; it exists.

    Raises:
        RoadsegError: if a package is missing, or the network has a part that ONNX lacks.
        OSError: if the file cannot be written (a full disk).
    """
    _load("onnxscript")
    program = trace(network, window_shape=window_shape)
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
        raise RoadsegError(
            f"this network cannot be written as ONNX: {_reason(error)}; choose another format"
        ) from error
    model.save(folder / _FILE, external_data=False)  # type: ignore[union-attr]


def open(folder: Path) -> Network:  # noqa: A001 - onnx.open
    """Open what `build` has written, to be run by ONNX Runtime on the CPU.

    It computes with as many threads as PyTorch. That a number is given keeps ONNX Runtime from
    binding each thread to a core, which several processes would then share.

    Raises:
        CheckpointError: if the file is missing or damaged.
        RoadsegError: if ONNX Runtime is missing.
    """
    runtime = _load("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = _ERRORS_ONLY
    path, native = folder / _FILE, runtime.capi.onnxruntime_pybind11_state
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; export it again")
    try:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except tuple(getattr(native, name) for name in _ERRORS) as error:
        raise CheckpointError(
            f"{path}: damaged, or not a model that ONNX Runtime can run; export it again"
        ) from error

    def run(windows: Tensor) -> Tensor:
        (probabilities,) = session.run([OUTPUT], {INPUT: windows.numpy()})
        return torch.from_numpy(probabilities)

    return run


def _reason(error: BaseException) -> str:
    """Return the first line of the innermost cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)


def _load(package: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError as error:
        raise RoadsegError(
            f"the format ONNX needs the package {package} ({error}); {_INSTALL}"
        ) from error
