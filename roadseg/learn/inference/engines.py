"""Engines: ways to run a trained network on windows, from plain PyTorch to quantised graphs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from roadseg.errors import CheckpointError, ConfigError, DeviceError
from roadseg.learn.hardware.devices import Device
from roadseg.learn.inference import int8, onnx, openvino
from roadseg.learn.inference.compilers import compile_now, compiler_of, lacks_compiler
from roadseg.learn.inference.engine_store import (
    PACKAGES,
    EngineFacts,
    engine_folder,
    making_command,
    misfit,
    read_engine_facts,
)
from roadseg.learn.inference.programs import Network, signature_of
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.models import Normalise, check_batch, check_window
from roadseg.raster.scaling import Scaling
from roadseg.system.text import count

Shape = tuple[int, int, int, int]  # Of a batch: window, band, row, col.

# Windows of 512 pixels for each thread from which compiling first is the shorter way: a
# ResNet34-UNet took 13.8 s of one core, and then 0.77 s instead of 0.95 s a window.
_COMPILING_PAYS = 80
_USUAL_PX = 512
_MODULES = {"openvino": openvino, "int8": int8, "onnx": onnx}


@dataclass(frozen=True)
class Engine:
    """A network, ready to run.

    Attributes:
        name: "eager", "inductor", "int8", "openvino" or "onnx".
        reason: what was picked and why, one line.
        batch_size: windows that it takes at once; never fewer or more.
        window_px: their side.
        run: from windows on the CPU to probabilities, on any device; see `programs.Network`.
    """

    name: str
    reason: str
    batch_size: int
    window_px: int
    run: Network


class ProbabilityNetwork(nn.Module):
    """Network that engines compute: from scaled uint8 windows to float32 probabilities 0..1."""

    def __init__(self, model: nn.Module, scaling: Scaling) -> None:
        """Put the normalisation before a model and the sigmoid behind it."""
        super().__init__()
        self.normalise = Normalise(scaling)
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Return the probabilities (window, class, row, col)."""
        logits: Tensor = self.model(self.normalise(images))
        return logits.float().sigmoid()


def open_engine(
    checkpoint: Checkpoint,
    folder: Path,
    *,
    name: str,
    device: Device,
    window_px: int,
    batch_size: int,
    windows: int,
) -> Engine:
    """Open an engine for a checkpoint.

    A device that compiles (`compute.compile`) makes "auto" mean "inductor"; an engine that is
    requested by its name is taken as it is.

    Args:
        checkpoint: the network; it may be moved to the device.
        folder: its folder, in which engines that were made beforehand lie.
        name: "eager", "inductor", "int8", "openvino" or "onnx"; "auto" takes the fastest for so
            many windows of those that are ready and were accurate enough.
        device: where eager and inductor run; the others are for a CPU.
        window_px: side of the windows, a multiple of 32.
        windows: how many there are in all; for few of them nothing is compiled.

    Raises:
        ConfigError: if the networks cannot work on windows of this size, or the engine cannot
            work on this device.
        CheckpointError: if the engine was not made, not from this checkpoint, for windows of
            another size, or is not accurate enough.
        DeviceError: if the machine lacks what the engine needs.
    """
    check_window(window_px)
    shape = (batch_size, len(checkpoint.scaling.mean), window_px, window_px)
    check_batch(
        checkpoint.model.eval(), in_channels=shape[1], window_px=window_px, batch_size=batch_size
    )
    chosen, why = name, "requested"
    if name == "auto":
        chosen, why = _fastest(folder, device, shape, windows)
    run = _open(checkpoint, folder, chosen, device.in_inference, shape)
    return Engine(chosen, f"engine {chosen} ({why})", batch_size, window_px, run)


def open_prebuilt(
    checkpoint: Checkpoint, folder: Path, name: str, *, device: Device, window_shape: Shape
) -> Network:
    """Open a prebuilt engine without checking its facts; see `open_engine`.

    Args:
        checkpoint: the network that it was made from.
        name: "openvino", "int8" or "onnx".
        window_shape: of the windows (window, band, row, col).

    Raises:
        CheckpointError: if its files are missing or damaged.
        DeviceError: if the machine lacks what it needs.
    """
    where = engine_folder(folder, name)
    if name != "int8":
        expected = signature_of(window_shape, len(checkpoint.bins.band_names))
        opened: Network = _MODULES[name].open(where, expected=expected)
        return opened
    exact = replace(device.in_inference, amp_dtype=None, compiler=compiler_of(device))
    network = exact.to(ProbabilityNetwork(checkpoint.model, checkpoint.scaling)).eval()
    return _running(int8.load(network, where, window_shape=window_shape), exact, window_shape)


def ensemble(engines: Sequence[Engine]) -> Engine:
    """Return an engine that averages the probabilities of several, such as those of all folds."""
    first = engines[0]
    if len(engines) == 1:
        return first

    @torch.inference_mode()
    def run(windows: Tensor) -> Tensor:
        return _mean(engine.run(windows) for engine in engines)

    names = ", ".join(dict.fromkeys(engine.name for engine in engines))
    reasons = "; ".join(dict.fromkeys(engine.reason for engine in engines))
    return replace(first, name=names, reason=f"mean of {len(engines)}: {reasons}", run=run)


def with_tta(engine: Engine) -> Engine:
    """Return an engine that averages over the eight rotations and flips of its windows.

    Every prediction is turned back before the mean (the symmetries of a square, D4).
    """

    @torch.inference_mode()
    def run(windows: Tensor) -> Tensor:
        return _mean(
            _turn(
                engine.run(_turn(windows, turns, flip=flip).contiguous()),
                turns,
                flip=flip,
                back=True,
            )
            for flip in (False, True)
            for turns in range(4)
        )

    return replace(engine, reason=f"{engine.reason}, mean of eight rotations and flips", run=run)


def _mean(values: Iterator[Tensor]) -> Tensor:
    """Return the mean of tensors of an iterator, which need not fit in memory together."""
    number, total = 1, next(values).clone()
    for number, value in enumerate(values, start=2):  # noqa: B007
        total += value
    return total / number


def _turn(windows: Tensor, turns: int, *, flip: bool, back: bool = False) -> Tensor:
    """Flip windows left to right, then turn them by right angles; or undo it."""
    if back:
        turned_back = windows.rot90(-turns, (2, 3))
        return turned_back.flip(3) if flip else turned_back
    return (windows.flip(3) if flip else windows).rot90(turns, (2, 3))


def _fastest(folder: Path, device: Device, shape: Shape, windows: int) -> tuple[str, str]:
    """Return the engine that finishes a number of windows first, and the reason."""
    if device.compiler is not None:
        return "inductor", "compile is on"
    if (device.type, device.backend) != ("cpu", "native"):
        return "eager", f"always used on {device.name} with backend {device.backend}"
    ready, notes = _ready(folder, device, shape, windows)
    if ready:
        best = _best(ready)
        speed = f"{best.speedup:.1f} times as fast as eager, " if best.speedup else ""
        return best.engine, f"{speed}accuracy verified when it was made"
    name, why = _without_artefacts(device, shape, windows)
    return name, "; ".join([why, *notes])


def _without_artefacts(device: Device, shape: Shape, windows: int) -> tuple[str, str]:
    pixels = (_USUAL_PX / shape[-1]) ** 2
    needed = math.ceil(_COMPILING_PAYS * torch.get_num_threads() * pixels)
    if windows < needed:
        return "eager", f"not compiled: {count(windows, 'window')}, worth it from {needed}"
    if problem := lacks_compiler(device):
        return "eager", problem
    return "inductor", f"compiled: {count(windows, 'window')}, worth it from {needed}"


def _ready(
    folder: Path, device: Device, shape: Shape, windows: int
) -> tuple[list[EngineFacts], list[str]]:
    """Return the prebuilt engines that can be used, and why others cannot."""
    ready, notes = [], []
    for name in PACKAGES:
        facts = read_engine_facts(folder, name)
        if facts is None:
            continue
        problem = _misfit(facts, folder, shape) or _missing(name, device)
        if not problem and not facts.pays(windows):
            problem = f"not worth opening for {windows} windows"
        if problem:
            notes.append(f"not {name}: {problem}")
        else:
            ready.append(facts)
    return ready, notes


def _best(ready: Sequence[EngineFacts]) -> EngineFacts:
    """Return the fastest as measured on this kind of CPU, else the usually fastest."""
    measured = [facts for facts in ready if facts.speedup is not None]
    return max(measured, key=lambda facts: facts.speedup or 0, default=ready[0])


def _misfit(facts: EngineFacts, folder: Path, shape: Shape) -> str:
    return misfit(facts, folder, window_px=shape[-1], batch_size=shape[0])


def _missing(name: str, device: Device) -> str:
    """Return what a prebuilt engine lacks on this machine; empty if nothing."""
    problem: str | None = _MODULES[name].available()
    return problem or (lacks_compiler(device) if name == "int8" else "")


def _open(checkpoint: Checkpoint, folder: Path, name: str, device: Device, shape: Shape) -> Network:
    if name in ("eager", "inductor"):
        compiler = compiler_of(device) if name == "inductor" else None
        return _open_torch(checkpoint, replace(device, compiler=compiler), shape)
    if name not in PACKAGES:
        known = ", ".join(("auto", "eager", "inductor", *PACKAGES))
        raise ConfigError(f"engine: expected one of {known}, got {name!r}")
    if device.type != "cpu":
        raise ConfigError(
            f"engine {name} is for device cpu, not {device.name}; choose engine eager"
        )
    if problem := _missing(name, device):
        raise DeviceError(f"engine {name}: {problem}")
    facts = read_engine_facts(folder, name)
    if problem := _misfit(facts, folder, shape) if facts else "not made yet":
        raise CheckpointError(
            f"engine {name}: {engine_folder(folder, name)}: {problem}; run "
            f"`{making_command(folder, name)}`, or choose engine auto"
        )
    return open_prebuilt(checkpoint, folder, name, device=device, window_shape=shape)


def _open_torch(checkpoint: Checkpoint, device: Device, shape: Shape) -> Network:
    fast = device.for_inference(device.to(checkpoint.model).eval())
    network = device.to(ProbabilityNetwork(fast, checkpoint.scaling)).eval()
    return _running(network, device, shape)


def _running(network: nn.Module, device: Device, shape: Shape) -> Network:
    """Return a function that runs a network on a device, compiled if the device compiles."""
    device.compile(network)

    @torch.inference_mode()
    def run(windows: Tensor) -> Tensor:
        with device.autocast():
            probabilities: Tensor = network(device.to(windows))
        device.mark()
        return probabilities

    if device.compiler is not None:
        compile_now(run, device, shape)
    return run
