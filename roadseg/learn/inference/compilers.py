"""Compilers: a network compiled by torch.compile before it is used."""

import logging
from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor

from roadseg.errors import ConfigError, DeviceError, first_line
from roadseg.learn.hardware.devices import Device, pick_device

_NETWORKS = 100  # Networks that a process may compile, such as those of many folds.

# It tells everyone who compiles for a CPU that there is no GPU.
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)


def compiler_of(device: Device) -> str | None:
    """Return the backend of torch.compile for a device, whether or not it is set to compile.

    Raises:
        ConfigError: if there is none for this device.
        DeviceError: if the machine lacks a compiler.
    """
    return pick_device(device.name, "fp32", backend=device.backend, compiled=True).compiler


def lacks_compiler(device: Device) -> str:
    """Return why torch.compile cannot serve a device; empty if it can."""
    try:
        compiler_of(device)
    except (ConfigError, DeviceError) as error:
        return str(error)
    return ""


def compile_now(
    run: Callable[[Tensor], Tensor], device: Device, window_shape: tuple[int, int, int, int]
) -> None:
    """Run a network once so that torch compiles it now.

    On a CPU its weights become constants of the program (Inductor's freezing). Torch does so
    only if the whole process is set to it while the network is followed.

    Args:
        run: from uint8 windows to probabilities, not run before.
        window_shape: of the windows (window, band, row, col).

    Raises:
        DeviceError: if it cannot be compiled.
    """
    inductor, dynamo = map(import_module, ("torch._inductor.config", "torch._dynamo.config"))
    freezing = inductor.patch(freezing=device.type == "cpu")
    try:
        with freezing, dynamo.patch(recompile_limit=_NETWORKS, automatic_dynamic_shapes=False):
            run(torch.zeros(window_shape, dtype=torch.uint8))
    except RuntimeError as error:
        raise DeviceError(
            f"the network cannot be compiled: {first_line(error)}; choose engine eager"
        ) from error
