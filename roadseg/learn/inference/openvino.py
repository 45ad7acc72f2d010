"""OpenVINO: networks on Intel's CPUs, in float32, bfloat16, or INT8 (quantised by NNCF)."""

import io
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roadseg.errors import RoadsegError, first_line
from roadseg.learn.inference.programs import INPUT, OUTPUT, Network, Shape, as_program, load_package
from roadseg.system.files import write_error

_GRAPH = "model.xml"
_PRECISIONS = {"fp32": "f32", "bf16": "bf16"}  # What OpenVINO calls ours.
_INSTALL = "run `pip install 'roadseg[openvino]'`"
_STATISTICS = "openvino_telemetry"  # Package that sends statistics of use if OpenVINO finds it.

# NNCF and torch's compiler load it; it tells everyone that there is no CUDA.
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)


def why_missing() -> str | None:
    """Return None if OpenVINO is installed, else how to install it."""
    return None if find_spec("openvino") else f"the package openvino is not installed; {_INSTALL}"


def can_build() -> bool:
    """Return whether the packages that `build` needs are installed."""
    return why_missing() is None and find_spec("nncf") is not None


def build(
    network: nn.Module, folder: Path, *, window_shape: Shape, calibration: Sequence[Tensor]
) -> None:
    """Quantise a network to INT8, and write it as model.xml and model.bin.

    Args:
        network: from scaled uint8 windows to probabilities, on the CPU, in evaluation mode.
        folder: where the files go; it exists.
        calibration: batches of windows of this shape, like those to be predicted, whose ranges of
            values decide. Source: NNCF's post-training quantisation, preset MIXED.

    Raises:
        RoadsegError: if a package is missing, or the network has a part that OpenVINO lacks.
        OSError: if the files cannot be written (a full disk).
    """
    openvino = _load_openvino()
    model = _quantised(_converted(openvino, network, window_shape), calibration)
    path = folder / _GRAPH
    try:
        openvino.save_model(model, path, compress_to_fp16=False)
    except RuntimeError as error:
        raise write_error(
            path, "OpenVINO could not write the whole file; is the disk full?"
        ) from error


def open(folder: Path, *, window_shape: Shape) -> Network:  # noqa: A001 - openvino.open
    """Open a network of `build`, compiled for the CPU.

    Args:
        folder: folder with model.xml and model.bin, which must be unchanged (`int8.unusable`).
        window_shape: shape of the batches, with any side that the network supports.

    Raises:
        RoadsegError: if OpenVINO is missing.
    """
    openvino = _load_openvino()
    model = openvino.Core().read_model(folder / _GRAPH)
    model.reshape([*window_shape])
    return _compiled(openvino, model)


def convert(network: nn.Module, *, window_shape: Shape, precision: str = "fp32") -> Network:
    """Convert a network in memory, and compile it for the CPU.

    Args:
        network: from scaled uint8 windows to probabilities, on the CPU, in evaluation mode.
        precision: in which it computes, "fp32" or "bf16".
    """
    openvino = _load_openvino()
    return _compiled(openvino, _converted(openvino, network, window_shape), precision)


def _converted(openvino: ModuleType, network: nn.Module, window_shape: Shape) -> Any:  # noqa: ANN401 - openvino.Model
    """Convert a network to a model for windows of any side that the network supports."""
    program = as_program(network, window_shape=window_shape)
    try:
        model = openvino.convert_model(program)
    except (RuntimeError, openvino.frontend.OpConversionFailure) as error:
        reason = str(error).strip().splitlines()[-1].removeprefix("-- ")
        raise RoadsegError(
            f"this network cannot be converted for OpenVINO: {reason}", "choose another engine"
        ) from error
    model.inputs[0].tensor.set_names({INPUT})
    model.outputs[0].tensor.set_names({OUTPUT})
    model.reshape([*window_shape])
    _scale_instead_of_resizing(openvino, model)
    return model


def _compiled(openvino: ModuleType, model: Any, precision: str = "fp32") -> Network:  # noqa: ANN401 - openvino.Model
    """Compile a model for the CPU.

    Layers that are not INT8 are computed in `precision`. There are as many threads as in PyTorch,
    not bound to cores, which several processes would otherwise share.
    """
    options = {
        "INFERENCE_PRECISION_HINT": _PRECISIONS[precision],
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "ENABLE_CPU_PINNING": False,
    }
    compiled = openvino.Core().compile_model(_channels_last(openvino, model), "CPU", options)

    def run(windows: Tensor) -> Tensor:
        return torch.from_numpy(compiled(windows.numpy())[OUTPUT]).permute(0, 3, 1, 2)

    return run


def _channels_last(openvino: ModuleType, model: Any) -> Any:  # noqa: ANN401 - openvino.Model
    """Let a model return the probabilities of a pixel side by side, as it computes them.

    This takes no longer, and blending windows takes 0.6 of the time.
    """
    stages = openvino.preprocess.PrePostProcessor(model)
    stages.output().tensor().set_layout(openvino.Layout("NHWC"))
    stages.output().model().set_layout(openvino.Layout("NCHW"))
    return stages.build()


def _scale_instead_of_resizing(openvino: ModuleType, model: Any) -> None:  # noqa: ANN401
    """Let layers that resize an image do so by a factor, not to a size.

    The sizes in a program are valid for windows of one side only; factors are valid for any side.
    """
    layers = [each for each in model.get_ops() if each.get_type_name() == "Interpolate"]
    for layer in layers:
        settings = dict(layer.get_attributes())
        if settings.pop("shape_calculation_mode") != "sizes":
            continue
        pixels, _, axes = layer.input_values()
        before, after = pixels.get_partial_shape(), layer.output(0).get_partial_shape()
        factors = [
            after[axis].get_length() / before[axis].get_length()
            for axis in axes.get_node().get_data()
        ]
        scaled = openvino.opset11.interpolate(
            pixels,
            np.asarray(factors, dtype=np.float32),
            shape_calculation_mode="scales",
            axes=axes,
            **settings,
        )
        openvino.utils.replace_node(layer, scaled)


def _quantised(model: Any, calibration: Sequence[Tensor]) -> Any:  # noqa: ANN401 - openvino.Model
    with _quiet():
        nncf = load_package("nncf", needed_by="OpenVINO", extra="openvino")
        # Not by nncf.set_log_level, which also sets the level of handlers that others have added.
        logging.getLogger("nncf").setLevel(logging.ERROR)
        try:
            return nncf.quantize(
                model,
                nncf.Dataset([batch.numpy() for batch in calibration]),
                preset=nncf.QuantizationPreset.MIXED,
                subset_size=len(calibration),
            )
        except (RuntimeError, nncf.ValidationError, nncf.UnsupportedModelError) as error:
            raise RoadsegError(
                f"NNCF cannot quantise this network: {first_line(error)}; choose another engine"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress progress bars; restore the class of loggers at the end."""
    logger_class = logging.getLoggerClass()
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.setLoggerClass(logger_class)


def _load_openvino() -> ModuleType:
    """Import OpenVINO with its package of telemetry hidden, so that it sends no statistics."""
    sys.modules.setdefault(_STATISTICS, None)  # type: ignore[arg-type]
    return load_package("openvino", needed_by="OpenVINO", extra="openvino")
