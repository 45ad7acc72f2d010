"""Devices: where a network runs, in which precision, and the peculiarities of each device."""

import importlib
import logging
import os
import shlex
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from roadseg.errors import ConfigError, DeviceError
from roadseg.learn.hardware import cpu, ipex
from roadseg.learn.hardware.depthwise import FastDepthwise
from roadseg.learn.options import ComputeOptions

_log = logging.getLogger(__name__)
_IMAGE_BATCH_DIMENSIONS = 4  # Window, band, row, col: what channels_last is about.
_Movable = TypeVar("_Movable", Tensor, nn.Module)
# AMD's GPUs that are fast in channels_last and BF16: MI200, MI300 and MI350. Source:
# pytorch/pytorch#170947, "Only enable NHWC by default for MI series GPUs", as channels_last made
# Radeon slow (#170764).
_INSTINCT = ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")
_TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Device:
    """An available device, and how to use it. The same training step works on all devices.

    Only cpu and cuda were tested on hardware; the other devices against recorded calls.

    Attributes:
        name: name of the device in options, by which all special cases are chosen.
        type: torch's name of the device, such as "cuda" for rocm.
        amp_dtype: type of autocast; None for float32 throughout.
        reason: the choice of device and precision, and why, in one line.
        backend: "native", or "ipex" on a CPU.
        channels_last: whether images lie in memory pixel by pixel, if training is faster so.
        pin_memory: whether batches are put into page-locked memory before they are copied.
        dist_backend: backend of torch.distributed.
        compiler: backend of torch.compile; None if networks are not compiled.
        lazy: whether the device collects operations until `mark` (an HPU in lazy mode).
    """

    name: str
    type: str
    amp_dtype: torch.dtype | None = None
    reason: str = ""
    backend: str = "native"
    channels_last: bool = True
    pin_memory: bool = False
    dist_backend: str = "gloo"
    compiler: str | None = None
    lazy: bool = False

    @property
    def in_inference(self) -> "Device":
        """The same device, with its fastest memory format for inference."""
        return replace(self, channels_last=self.channels_last or self.type == "cpu")

    @property
    def precision(self) -> str:
        """Name of the precision: "fp32", "bf16" or "fp16"."""
        return next(name for name, dtype in _TYPES.items() if dtype is self.amp_dtype)

    def autocast(self) -> torch.autocast:
        """Return the context for the forward pass; loss and gradients stay in float32."""
        dtype = self.amp_dtype or torch.bfloat16
        return torch.autocast(self.type, dtype=dtype, enabled=self.amp_dtype is not None)

    def fast_gradients(self) -> AbstractContextManager[Any]:
        """Return a context, beside `autocast`, for forward passes that need gradients."""
        is_plain = self.backend == "native" and self.compiler is None
        if self.type == "cpu" and self.amp_dtype is torch.bfloat16 and is_plain:
            return FastDepthwise()
        return nullcontext()

    def scaler(self) -> torch.amp.GradScaler:
        """Return a scaler of the loss for fp16; for other precisions it changes nothing."""
        return torch.amp.GradScaler(self.type, enabled=self.amp_dtype is torch.float16)

    def to(self, thing: _Movable) -> _Movable:
        """Move a network or tensor to the device, 4-D tensors in its memory format.

        A network that IPEX has taken over is already laid out, and its weights may be packed.
        """
        moved = thing.to(self.type, non_blocking=self.pin_memory)
        packed = self.backend == "ipex" and isinstance(moved, nn.Module)
        other = isinstance(moved, Tensor) and moved.ndim != _IMAGE_BATCH_DIMENSIONS
        if packed or other or not self.channels_last:
            return moved
        return moved.to(memory_format=torch.channels_last)

    def mark(self) -> None:
        """Let a lazy device compute what it has collected; call after backward and after step."""
        if self.lazy:
            importlib.import_module("habana_frameworks.torch.core").mark_step()

    def synchronize(self) -> None:
        """Wait until the device has finished its work."""
        getattr(torch, self.type).synchronize()

    def compile(self, network: nn.Module) -> nn.Module:
        """Return the same network, compiled at its first call where the device compiles."""
        if self.compiler is not None:
            network.compile(backend=self.compiler)
        return network

    def for_training(
        self, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Let IPEX optimise a model on this device and its optimizer, with their loaded state.

        Compile, wrap for several processes and step what is returned.
        """
        if self.backend == "ipex":
            return ipex.optimize_training(model, optimizer, dtype=self.amp_dtype)
        return model, optimizer

    def for_inference(self, model: nn.Module) -> nn.Module:
        """Return a faster model with the same predictions on this device, which cannot be saved."""
        if self.backend == "ipex":
            return ipex.optimize_inference(model, dtype=self.amp_dtype)
        if self.lazy:
            graphs = importlib.import_module("habana_frameworks.torch.hpu")
            wrapped: nn.Module = graphs.wrap_in_hpu_graph(model.eval())
            return wrapped
        return model


_DEVICES = {
    device.name: device
    for device in (
        Device("cuda", "cuda", pin_memory=True, dist_backend="nccl"),
        Device("rocm", "cuda", pin_memory=True, dist_backend="nccl"),
        Device("xpu", "xpu", pin_memory=True, dist_backend="xccl"),
        Device("hpu", "hpu", channels_last=False, dist_backend="hccl"),
        Device("mps", "mps", channels_last=False),
        Device("cpu", "cpu"),
    )
}


def pick_device(
    name: str = "auto", precision: str = "auto", *, backend: str = "native", compiled: bool = False
) -> Device:
    """Choose a device by name, or the fastest available one.

    Args:
        name: "cpu", "cuda", "rocm", "xpu", "hpu", "mps", or "auto": the first available one of
            cuda, rocm, xpu, hpu and mps, else the CPU.
        precision: "fp32", "bf16" or "fp16" (mixed precision), or "auto": bf16 where it is fast;
            fp16 on a GPU without it.
        backend: "native" or, on a CPU, "ipex".

    Raises:
        ConfigError: if the choices cannot be combined.
        DeviceError: if the machine lacks the device, the precision, a package or a compiler.
            Nothing is replaced silently; a precision that is slow on a CPU is used, with a warning.
    """
    if backend == "ipex":
        if name not in ("auto", "cpu"):
            raise ConfigError(f"backend ipex is for device cpu, not {name}; choose backend native")
        if precision == "fp16":
            raise ConfigError("backend ipex trains in fp32 or bf16, not fp16")
        name = "cpu"
    name, why = _find(name)
    device = replace(_DEVICES[name], backend=backend)
    if name == "hpu":  # Of its modes, PT_HPU_LAZY_MODE, each release has its own default.
        bridge = importlib.import_module("habana_frameworks.torch.utils.internal")
        pins = torch.accelerator.is_available()
        device = replace(device, lazy=bool(bridge.is_lazy()), pin_memory=pins)
    is_slower = name == "cpu" and cpu.trains_slower_channels_last()
    if is_slower or (name == "rocm" and _amd_architecture() not in _INSTINCT):
        device = replace(device, channels_last=False)
    if precision == "auto":
        precision, why_precision = _fast_precision(name)
    else:
        _check_precision(name, precision)
        why_precision = "requested"
    compiler = compiler_of(device) if compiled else None
    if backend == "ipex":
        ipex.load()
    extras = [f"backend {backend}"] * (backend != "native")
    extras += [f"compiled by {compiler}"] * compiled
    return replace(
        device,
        amp_dtype=_TYPES[precision],
        reason=", ".join([f"{name} ({why})", f"{precision} ({why_precision})", *extras]),
        compiler=compiler,
    )


def missing(name: str) -> str:
    """Return why a device cannot be used, with the missing driver or package.

    Args:
        name: as for `pick_device`, without "auto".

    Returns:
        One line; empty if the device can be used.
    """
    if name == "cpu":
        return ""
    if name == "hpu":
        return _missing_hpu()
    made_for = _made_for()
    if not made_for[name]:
        others = " and ".join(other for other, is_made in made_for.items() if is_made)
        return f"torch {torch.__version__} is not built for {name}{others and f' but for {others}'}"
    backend = torch.backends.mps if name == "mps" else getattr(torch, _DEVICES[name].type)
    found = backend.is_available()
    return "" if found else f"torch {torch.__version__} finds no {name} device or driver"


def _made_for() -> dict[str, bool]:
    """Return the devices that torch, or another package, is built for; the fastest first."""
    return {
        "cuda": torch.version.cuda is not None,
        "rocm": torch.version.hip is not None,
        "xpu": torch.xpu._is_compiled(),  # noqa: SLF001
        "hpu": find_spec("habana_frameworks") is not None,
        "mps": torch.backends.mps.is_built(),
    }


def _find(name: str) -> tuple[str, str]:
    """Return the name of the device to use, and the reason."""
    if name == "cpu":
        return name, "requested"
    if name != "auto":
        if problem := missing(name):
            raise DeviceError(f"device {name}: {problem}; fix this, or choose auto or cpu")
        return name, f"{_model(name)}requested"
    problems = []
    for candidate in (each for each, is_made in _made_for().items() if is_made):
        problem = missing(candidate)
        if not problem:
            return candidate, f"{_model(candidate)}found"
        problems.append(problem)
    return "cpu", "; ".join(problems) or f"torch {torch.__version__} supports no other device"


def _model(name: str) -> str:
    """Return the model of a device and a comma, if torch knows it."""
    if name in ("cuda", "rocm"):
        return f"{torch.cuda.get_device_name()}, "
    return f"{torch.xpu.get_device_name()}, " if name == "xpu" else ""


def _missing_hpu() -> str:
    try:
        importlib.import_module("habana_frameworks.torch.core")  # It adds the device to torch.
        is_available = importlib.import_module("habana_frameworks.torch.hpu").is_available()
    except ModuleNotFoundError as error:
        return f"the package {error.name} is missing (it comes with Intel Gaudi's PyTorch)"
    except (ImportError, OSError, RuntimeError, AssertionError) as error:
        return f"habana_frameworks cannot be loaded ({' '.join(str(error).split())})"
    return "" if is_available else "habana_frameworks finds no Gaudi device or driver"


def _amd_architecture() -> str:
    """Return the architecture of the AMD GPU in use, such as "gfx942"."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(properties.gcnArchName).partition(":")[0]


def _fast_precision(name: str) -> tuple[str, str]:
    if name == "cpu":
        if cpu.is_fast_at_bf16():
            return "bf16", "fast on this CPU"
        return "fp32", "this CPU has neither AMX nor AVX512_BF16"
    if name == "mps":
        return "fp32", "mixed precision has not been measured on mps"
    if name == "rocm" and (architecture := _amd_architecture()) not in _INSTINCT:
        return "fp16", f"{architecture} is not an AMD Instinct MI200 or later"
    if _has_bf16(name):
        return "bf16", "native"
    return "fp16", "no native bf16"


def _check_precision(name: str, precision: str) -> None:
    """Refuse a mixed precision that a device lacks; warn of one that a CPU is slow at."""
    if precision == "bf16" and not _has_bf16(name):
        raise DeviceError(
            f"precision bf16: not supported by this {name} device; choose auto or fp32"
        )
    if precision == "fp16" and name == "hpu":
        raise DeviceError("precision fp16: hpu has no loss scaling; choose bf16 or fp32")
    if name != "cpu" or precision == "fp32":
        return
    fast = cpu.is_fast_at_bf16 if precision == "bf16" else cpu.is_fast_at_fp16
    if not fast():
        _log.warning(
            "precision %s is emulated on this CPU, and slower than fp32; choose auto or fp32",
            precision,
        )


def _has_bf16(name: str) -> bool:
    """Return whether a device computes in bfloat16, without emulation unless it is a CPU."""
    if name in ("cuda", "rocm"):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if name == "xpu":
        return bool(torch.xpu.is_bf16_supported(including_emulation=False))
    if name == "mps":
        return bool(torch.backends.mps.is_macos_or_newer(14, 0))
    return True


def compiler_of(device: Device) -> str:
    """Return the backend of torch.compile for a device, whether or not it is set to compile.

    Raises:
        ConfigError: if there is none for this device.
        DeviceError: if the machine lacks a compiler.
    """
    if device.backend == "ipex":
        raise ConfigError("backend ipex cannot be compiled; omit compile, or choose native")
    if device.name == "mps":
        raise ConfigError("compile: there is no compiler for mps; omit it")
    if device.lazy:
        raise ConfigError("compile: an hpu in lazy mode has no compiler; set PT_HPU_LAZY_MODE=0")
    if device.name == "hpu":
        return "hpu_backend"
    if problem := _missing_compiler(device.name):
        raise DeviceError(f"compile: {problem}; install it, or omit compile")
    return "inductor"


def lacks_compiler(device: Device) -> str:
    """Return why torch.compile cannot be used on a device; empty if it can."""
    try:
        compiler_of(device)
    except (ConfigError, DeviceError) as error:
        return str(error)
    return ""


def _missing_compiler(name: str) -> str:
    """Return the compilers that are missing: C++ for a CPU, Triton and C for a GPU; else ""."""
    if name == "cpu":
        default = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
        commands = [os.environ.get("CXX", default)]
    else:
        commands = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang", "cc"]
    if not any(shutil.which(shlex.split(command)[0]) for command in commands):
        return f"no compiler found ({' or '.join(commands)})"
    has_triton = name == "cpu" or find_spec("triton") is not None
    return "" if has_triton else "the package triton is not installed"


def chosen_device(compute: ComputeOptions) -> Device:
    """Choose and set the device of a config, and log the choice with its reason in one line.

    Raises:
        ConfigError: if its settings cannot be combined.
        DeviceError: if the machine lacks the device, the precision, a package or a compiler.
    """
    device = pick_device(
        compute.device, compute.precision, backend=compute.backend, compiled=compute.compile
    )
    if device.type == "cuda":
        # Products of float32 may be rounded to TF32 (10 bits of mantissa).
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    _log.info(device.reason)
    return device
