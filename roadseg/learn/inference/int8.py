"""INT8: a network quantised after training by torchao's PT2E, which Inductor compiles.

Only the scales of the activations are kept in a file. Weights come from the checkpoint, whose
network is traced and quantised again when it is opened, so that nothing is ever unpickled;
`torch.export.load` would unpickle what a file tells it to.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from roadseg.errors import CheckpointError, DeviceError, RoadsegError, first_line
from roadseg.learn.hardware import cpu
from roadseg.system.records import write_json
from roadseg.system.schemas import STRICT, read_strict

_FILE = "activations.json"
_INSTALL = 'the package torchao is not installed; run `pip install "roadseg[int8]"`'
_PT2E = "torchao.quantization.pt2e"
_REMARKS = "torch.utils._pytree"  # Logger with remarks on torchao's code.

Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Scale:
    """Scale of an activation, and the byte that stands for 0."""

    __pydantic_config__ = STRICT

    scale: Annotated[float, Field(gt=0, le=1e30)]
    zero_point: Annotated[int, Field(ge=-128, le=255)]


@dataclass(frozen=True)
class _Activations:
    """Contents of the file of scales, see `build`."""

    __pydantic_config__ = STRICT

    seven_bits: bool
    window_shape: Shape
    activations: dict[str, _Scale]


def available() -> str | None:
    """Return None if torchao is installed, else how to install it."""
    return None if find_spec("torchao") else _INSTALL


def build(
    network: nn.Module, folder: Path, *, window_shape: Shape, calibration: Sequence[Tensor]
) -> None:
    """Find the scales of a network's activations, and write them.

    Activations are bytes with one scale per tensor, weights signed bytes with one per channel. On
    CPUs without VNNI, where sums of products of whole bytes overflow, the scales are doubled:
    activations like those of the calibration then keep to 7 bits.
    Source: PyTorch 2 Export post-training quantisation with the X86 Inductor quantizer.

    Args:
        network: from scaled uint8 windows to probabilities, on the CPU, in evaluation mode.
        window_shape: of the windows (window, band, row, col), fixed.
        calibration: batches of windows of this shape, like those to be predicted.

    Raises:
        DeviceError: if torchao is missing.
        RoadsegError: if the network cannot be quantised.
        OutputError: if the file cannot be written.
    """
    seven_bits = not cpu.features()["avx512_vnni"]
    prepared = _prepare(network, window_shape)
    with torch.no_grad():
        for windows in calibration:
            prepared(windows.contiguous(memory_format=torch.channels_last))
    scales = {
        name: _scale(observer, seven_bits=seven_bits) for name, observer in _observers(prepared)
    }
    record = {"seven_bits": seven_bits, "window_shape": window_shape, "activations": scales}
    write_json(folder / _FILE, record)


def load(network: nn.Module, folder: Path, *, window_shape: Shape) -> nn.Module:
    """Quantise a network by the scales that `build` has written.

    What is returned is exact but slow until it is compiled.

    Args:
        network: the one that the scales are of, on the CPU, in evaluation mode.
        window_shape: of the windows (window, band, row, col), as it was for `build`.

    Raises:
        CheckpointError: if the scales are missing, damaged, or of another network.
        DeviceError: if torchao is missing, or the CPU lacks VNNI that the scales count on.
        RoadsegError: if the network cannot be quantised.
    """
    path = folder / _FILE
    if not path.is_file():
        raise CheckpointError(f"{path} does not exist; run `roadseg quantize --force`")
    scales = read_strict(path, _Activations, advice="run `roadseg quantize --force`")
    if scales.window_shape != tuple(window_shape):
        raise CheckpointError(
            f"{path}: made for windows {scales.window_shape}, not for {tuple(window_shape)}; run "
            "`roadseg quantize --force`"
        )
    if not scales.seven_bits and not cpu.features()["avx512_vnni"]:
        raise DeviceError(
            f"{path}: made on a CPU with VNNI, which this CPU lacks; run `roadseg quantize --force`"
        )
    prepared = _prepare(network, window_shape)
    _fix(prepared, scales.activations, path)
    with torch.no_grad():
        prepared(_example(window_shape))  # It shows the weights to their observers.
        quantised: nn.Module = _load("quantize_pt2e").convert_pt2e(prepared)
    return quantised


def _prepare(network: nn.Module, window_shape: Shape) -> nn.Module:
    """Follow a network, and put observers where values are going to be quantised."""
    x86 = _load("quantizer.x86_inductor_quantizer")
    settings = x86.get_default_x86_inductor_quantization_config()
    quantizer = x86.X86InductorQuantizer().set_global(settings)
    try:
        with torch.no_grad():
            example = (_example(window_shape),)
            # Without strict, a ReLU that is used twice, as in ResNets, cannot be quantised.
            program = torch.export.export(network, example, strict=True).module()
            prepared: nn.Module = _load("quantize_pt2e").prepare_pt2e(program, quantizer)
    except (RuntimeError, ValueError, TypeError) as error:
        raise RoadsegError(
            f"this network cannot be quantised to int8: {first_line(error)}; choose engine openvino"
        ) from error
    return prepared


def _observers(prepared: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the observers of activations by name; one that is used twice has two names."""
    histograms = _load("observer").HistogramObserver
    for name, module in prepared.named_modules(remove_duplicate=False):
        if isinstance(module, histograms):
            yield name, module


def _scale(observer: Any, *, seven_bits: bool) -> dict[str, float]:  # noqa: ANN401 - no types
    """Return the scale of an activation, and the byte that stands for 0.

    torchao's own way to 7 bits, a quantizer of reduced range, is one that Inductor does not know
    as INT8: it would compute in float32.
    """
    scale, zero_point = (value.item() for value in observer.calculate_qparams())
    if seven_bits:
        scale, zero_point = 2 * scale, (zero_point + 1) // 2
    return {"scale": scale, "zero_point": zero_point}


def _fix(prepared: nn.Module, scales: Mapping[str, _Scale], path: Path) -> None:
    """Replace the observers of activations by known scales."""
    observers = dict(_observers(prepared))
    if set(observers) != set(scales):
        raise CheckpointError(
            f"{path}: contains scales of {len(scales)} activations, but the network has "
            f"{len(observers)}; run `roadseg quantize --force`"
        )
    fixed = _load("observer").FixedQParamsObserver
    for name, old in observers.items():
        new = fixed(
            scale=scales[name].scale,
            zero_point=scales[name].zero_point,
            dtype=old.dtype,
            qscheme=old.qscheme,
            quant_min=old.quant_min,
            quant_max=old.quant_max,
        )
        prepared.set_submodule(name, new)


def _example(window_shape: Shape) -> Tensor:
    zeros = torch.zeros(window_shape, dtype=torch.uint8)
    return zeros.contiguous(memory_format=torch.channels_last)


def _load(module: str) -> ModuleType:
    try:
        with _quiet():
            return import_module(f"{_PT2E}.{module}")
    except ImportError as error:
        raise DeviceError(f"engine int8: {_INSTALL} ({error})") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress remarks of torch on torchao's code."""
    logger = logging.getLogger(_REMARKS)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
