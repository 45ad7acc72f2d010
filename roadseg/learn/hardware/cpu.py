"""The CPU of this machine: what it computes fast, memory that is kept, and shares of its cores."""

import ctypes
import sys
from pathlib import Path

import torch

from roadseg.learn.hardware.launchers import bind, shares_of_cores
from roadseg.system.machine import read_machine

# Features as torch names them, which are also their flags in /proc/cpuinfo, but for one.
_FEATURES = (
    *("avx2", "avx512_f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "amx_fp16"),
)
_FLAGS = {"avx512_f": "avx512f"}


def features() -> dict[str, bool]:
    """Return which of the instruction sets that speed up networks this CPU has.

    They are read from torch or, if it does not know them (2.8 does not), from Linux. If neither
    knows the CPU, all are False.

    Returns:
        Whether the CPU has "avx2", "avx512_f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
        "amx_tile", "amx_int8", "amx_bf16" and "amx_fp16", by name.
    """
    if hasattr(torch.cpu, "get_capabilities"):
        capabilities = torch.cpu.get_capabilities()
        return {name: bool(capabilities.get(name)) for name in _FEATURES}
    return read_flags(Path("/proc/cpuinfo"))


def read_flags(cpuinfo: Path) -> dict[str, bool]:
    """Read the features from the file in which Linux describes its CPUs.

    Args:
        cpuinfo: the file; if it does not exist, all features are False.

    Returns:
        The same names as `features`.
    """
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    lines = (line for line in text.splitlines() if line.startswith("flags"))
    flags = next(lines, "").partition(":")[2].split()
    return {name: _FLAGS.get(name, name) in flags for name in _FEATURES}


def is_fast_at_bf16() -> bool:
    """Return whether bfloat16 is faster than float32: with AMX or AVX512_BF16.

    oneDNN's own test is not used, because it also accepts slow emulation.
    """
    has = features()
    return has["amx_bf16"] or has["avx512_bf16"]


def is_fast_at_fp16() -> bool:
    """Return whether float16 is faster than float32: with AMX_FP16 or AVX512_FP16."""
    has = features()
    return has["amx_fp16"] or has["avx512_fp16"]


def trains_slower_channels_last() -> bool:
    """Return whether training is slower with channels_last: with AVX2 and no AVX512.

    oneDNN's gradients of weights are the reason: on an EPYC a ResNet34-UNet step took 1.1 (256 px)
    to 1.2 times (512 px) as long. Inference was 1.15 times as fast. With AVX512 both are faster.
    """
    has = features()
    return has["avx2"] and not has["avx512_f"]


# Parameters of mallopt, from glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_NEVER = 2**31 - 1
_GROWTH_BYTES = 256 * 2**20


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory in this process; return whether it does.

    By default, glibc returns every large block to the kernel at once, and gets it back a moment
    later, cleared page by page. On two cores this took 5 to 10 % of the time of a ResNet34-UNet
    step. Other allocators (tcmalloc) keep memory anyway; nothing is done on other systems.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _GROWTH_BYTES))
    granted = [mallopt(name, value) for name, value in settings]
    return all(granted)


def share_cores(number: int, processes: int) -> None:
    """Restrict this process to its share of the cores.

    The cores are shared out NUMA node by NUMA node, so that the memory of the process comes to lie
    on the nodes of its cores.

    Args:
        number: number of this process, from 0.
        processes: number of processes that share the cores.
    """
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))
    bind(shares_of_cores(read_machine(), processes)[number])
