"""Devices: where a network runs, and with which precision."""

import logging
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from roadseg.errors import ConfigError, DeviceError

_log = logging.getLogger(__name__)
_IMAGE_BATCH_DIMENSIONS = 4  # window, band, row, col: what channels_last means
_Movable = TypeVar("_Movable", Tensor, nn.Module)


@dataclass(frozen=True)
class Device:
    """A device that is there, and the precision to use on it.

    Attributes:
        name: what the user calls it.
        type: what torch calls it.
        amp_dtype: type of autocast, None for float32 throughout.
        reason: what was picked and why, one line.
    """

    name: str
    type: str
    amp_dtype: torch.dtype | None
    reason: str

    @property
    def pin_memory(self) -> bool:
        """Whether batches should wait in page-locked memory for their way to the device."""
        return self.type != "cpu"

    def autocast(self) -> torch.autocast:
        """Return the context for the forward pass; loss and gradients stay in float32."""
        dtype = self.amp_dtype or torch.bfloat16
        return torch.autocast(self.type, dtype=dtype, enabled=self.amp_dtype is not None)

    def to(self, thing: _Movable) -> _Movable:
        """Move a network or tensor to the device; 4-D tensors become channels_last."""
        moved = thing.to(self.type, non_blocking=True)
        if isinstance(moved, Tensor) and moved.ndim != _IMAGE_BATCH_DIMENSIONS:
            return moved
        return moved.to(memory_format=torch.channels_last)


def pick_device(name: str = "auto", precision: str = "auto") -> Device:
    """Pick a device by name, or the fastest that is there.

    Args:
        name: "auto" (CUDA if there is one, else the CPU), "cpu" or "cuda" (ROCm too).
        precision: "fp32", "bf16" (mixed precision), or "auto": bf16 where it is fast.

    Raises:
        ConfigError: if there is no such name or precision.
        DeviceError: if the machine lacks the device or the precision. Nothing is replaced
            silently; bf16 on a CPU that is slow at it runs, with a warning.
    """
    _check_choice("device", name, ("auto", "cpu", "cuda"))
    _check_choice("precision", precision, ("auto", "fp32", "bf16"))
    missing = _missing_cuda()
    if name == "cuda" and missing:
        raise DeviceError(f"device cuda: {missing}; choose cpu or auto, or mend it")
    if name == "cpu" or missing:
        why = "asked for" if name == "cpu" else missing
        return _with_precision("cpu", why, precision, fast=_cpu_is_fast_at_bf16())
    why = f"{torch.cuda.get_device_name()}, {'asked for' if name == 'cuda' else 'found'}"
    return _with_precision("cuda", why, precision, fast=_cuda_is_fast_at_bf16())


def _with_precision(type_: str, why: str, precision: str, *, fast: bool) -> Device:
    if precision == "bf16" and not fast:
        if type_ == "cuda":
            raise DeviceError(f"precision bf16: {why} does not have it; choose fp32 or auto")
        _log.warning("precision bf16 on a CPU without AMX or AVX512_BF16: expect a third the speed")
    bf16 = precision == "bf16" or (precision == "auto" and fast)
    chosen = "asked for" if precision != "auto" else f"{'fast' if fast else 'not fast'} at bf16"
    reason = f"{type_} ({why}), {'bf16' if bf16 else 'fp32'} ({chosen})"
    return Device(type_, type_, torch.bfloat16 if bf16 else None, reason)


def _missing_cuda() -> str:
    """Say why CUDA cannot be used; empty if it can."""
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is built without CUDA and ROCm"
    return f"torch {torch.__version__} finds no CUDA or ROCm device or driver"


def _cpu_is_fast_at_bf16() -> bool:
    # get_capabilities came after torch 2.8; oneDNN's own test also says yes to slow emulation
    if hasattr(torch.cpu, "get_capabilities"):
        found = torch.cpu.get_capabilities()
        return bool(found.get("amx_bf16") or found.get("avx512_bf16"))
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001


def _cuda_is_fast_at_bf16() -> bool:
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{what}: expected one of {', '.join(choices)}, got {value!r}")
