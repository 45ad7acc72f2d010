"""GPUs: what they are told about their arithmetic, and what AMD's are fast at."""

import torch

# MI200, MI300 and MI350. Source: pytorch/pytorch#170947, "Only enable NHWC by default for MI
# series GPUs", as channels_last made Radeon slow (#170764).
_INSTINCT = ("gfx90a", "gfx940", "gfx941", "gfx942", "gfx950")


def set_math(*, tf32: bool, benchmark: bool) -> None:
    """Say how the GPUs of this process compute; never run on hardware.

    Args:
        tf32: whether products of float32 may be rounded to TF32 (10 bits of mantissa), in
            convolutions and matrix products alike.
        benchmark: whether cuDNN or MIOpen tries its algorithms first for every new shape. What
            it takes may differ from run to run, and with it the last bits of the weights.
    """
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = benchmark


def amd_architecture() -> str:
    """Return the architecture of the AMD GPU in use, such as "gfx942"."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(properties.gcnArchName).partition(":")[0]


def is_instinct(architecture: str) -> bool:
    """Whether an architecture is one of those that are fast in channels_last and BF16."""
    return architecture in _INSTINCT
