"""IPEX: the Intel Extension for PyTorch, an archived backend of the CPU that comes with torch 2.8.

Native PyTorch has taken over what it was for. It stays for those who have to compare or repeat
older runs. Its packages are matched by their metadata before anything is imported, because the
extension ends the whole process where torch is not the one that it was built for.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from roadseg.errors import DeviceError
from roadseg.learn.hardware.cpu import features
from roadseg.system.text import one_line

_PACKAGE = "intel-extension-for-pytorch"
_INSTALL = "create a separate environment and run `pip install 'roadseg[ipex]'` in it"
_STDERR = 2


def load() -> ModuleType:
    """Import the extension without its output, its changes of logging, and further processes.

    Raises:
        DeviceError: if it is missing, made for another torch, or cannot run on this CPU.
    """
    if problem := mismatch():
        raise DeviceError(f"backend ipex: {problem}; {_INSTALL}")
    if not features()["avx2"]:
        raise DeviceError("backend ipex needs a CPU with AVX2; choose backend native")
    # Otherwise its import starts Inductor's processes, which compile for GPUs.
    os.environ.setdefault("TORCH_WARM_POOL", "0")
    try:
        with _quiet():
            extension = import_module("intel_extension_for_pytorch")
    except (ImportError, OSError, RuntimeError) as error:
        why = one_line(error)
        raise DeviceError(
            f"backend ipex: {_PACKAGE} cannot be loaded ({why}); choose backend native"
        ) from error
    logging.getLogger("IPEX").setLevel(logging.ERROR)  # It warns of its next release.
    return extension


def mismatch() -> str:
    """Return why the installed packages cannot work together; empty if they can.

    Imports nothing.
    """
    try:
        extension = version(_PACKAGE)
    except PackageNotFoundError:
        return f"{_PACKAGE} is not installed"
    installed, needed = version("torch"), ".".join(extension.split(".")[:2])
    if installed.split(".")[:2] == needed.split("."):
        return ""
    return f"{_PACKAGE} {extension} needs torch {needed}, but torch {installed} is installed"


def optimize_training(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, dtype: torch.dtype | None
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Give a model and its optimizer the extension's layers and updates.

    Call it after the weights and the optimizer's state are loaded, and before the model is wrapped
    for several processes. Both are changed where they are: `model.state_dict()` and
    `optimizer.state_dict()` still contain plain float32 tensors, which any PyTorch reads, while
    `model.parameters()` may be packed, and bfloat16.

    Args:
        model: on the CPU; it is put into training mode.
        dtype: torch.bfloat16 for mixed precision, None for float32.

    Returns:
        The same model and optimizer.
    """
    model.train().to(memory_format=torch.channels_last)
    _follow_layout(optimizer)
    pair: tuple[nn.Module, torch.optim.Optimizer] = load().optimize(
        model, optimizer=optimizer, inplace=True, **_types(dtype)
    )
    return pair


def optimize_inference(model: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    """Return a copy of a model that only predicts, with batch norms folded into convolutions.

    Its `state_dict()` has fewer keys than the model's: never save it.

    Args:
        model: on the CPU; it is put into evaluation mode.
        dtype: torch.bfloat16, to be run inside autocast; None for float32.
    """
    copy: nn.Module = load().optimize(model.eval(), **_types(dtype))
    return copy


def _follow_layout(optimizer: torch.optim.Optimizer) -> None:
    """Give an optimizer's moments the memory layout of its weights.

    The extension changes the layout of weights only, and fused updates walk through both in the
    order of memory.
    """
    for weight, moments in optimizer.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.shape == weight.shape:
                moments[name] = torch.empty_like(weight).copy_(value)


def _types(dtype: torch.dtype | None) -> dict[str, object]:
    return {"dtype": dtype or torch.float32, "weights_prepack": _can_pack()}


def _can_pack() -> bool:
    """Return whether packed weights pay: with AVX512, as oneDNN's test for bfloat16 also tells.

    Without it the extension refuses to pack bfloat16, and packed float32 trains at a quarter of
    the speed.
    """
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress output, and restore logging and warnings at the end.

    The extension's libraries write to the file descriptor of stderr, past Python.
    """
    handlers, logger_class = logging.root.handlers[:], logging.getLoggerClass()
    sys.stderr.flush()
    stderr = os.dup(_STDERR)
    with Path(os.devnull).open("wb") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.dup2(nowhere.fileno(), _STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, _STDERR)
            os.close(stderr)
            logging.root.handlers[:] = handlers
            logging.setLoggerClass(logger_class)
