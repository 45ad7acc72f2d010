"""Engines: ways to run a trained network on windows, from plain PyTorch to quantised graphs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from roadseg.errors import CheckpointError, ConfigError, DeviceError, RoadsegError, first_line
from roadseg.learn.hardware import cpu
from roadseg.learn.hardware.devices import Device, compiler_of
from roadseg.learn.inference import openvino
from roadseg.learn.inference.int8 import MADE_BY, int8_folder, read_int8_facts, unusable
from roadseg.learn.inference.programs import MAX_DIFFERENCE, Network, Shape, largest_difference
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.learn.network.models import Normalise, check_batch, fold_batch_norms
from roadseg.raster.scaling import Scaling
from roadseg.system.text import count

# Windows of 512 pixels for each thread from which it pays to open a network that was quantised
# before: whole commands with the starter on one thread took as long as with eager at 4 to 9 such
# windows, beside other work.
_OPENING_PAYS = 6
# The same of converting for OpenVINO: with the default network, whole commands on one thread took
# as long as with eager at 65 windows, and were twice as fast without the time of converting.
_CONVERTING_PAYS = 120
ROTATIONS = 4  # Of a window by right angles, in test-time augmentation.
_SURE = 1e-3  # Probabilities closer to 0 or 1 have the log odds of this one.
_FARTHER = 2.0  # Times as far from float32 as PyTorch's bfloat16 that OpenVINO's may be.
_USUAL_PX = 512
_COMPILED = 100  # Networks that a process may compile, such as those of many folds.


@dataclass(frozen=True)
class Engine:
    """A network, ready to run.

    Attributes:
        name: "eager", "inductor" or "openvino".
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
    requested by its name is taken as it is. Otherwise "auto" never means "inductor": on a CPU,
    compiling at each start pays only from some hundred megapixels on.

    Args:
        checkpoint: the network; it may be moved to the device.
        folder: its folder, in which its quantised form lies.
        name: "eager" or "inductor"; "openvino" for the quantised network, or the same,
            converted, if that was not made; "auto" takes the fastest for `windows` windows of those
            that are ready and accurate enough.
        device: where eager and inductor run; OpenVINO is for a CPU.
        window_px: side of the windows, a multiple of 32.
        windows: how many there are in all; for few of them nothing is converted.

    Raises:
        ConfigError: if the networks cannot work on windows of this size, or the engine cannot
            work on this device.
        CheckpointError: if the quantised network was not made from this checkpoint, or is not
            accurate enough.
        DeviceError: if the machine lacks what the engine needs.
    """
    shape = (batch_size, len(checkpoint.scaling.mean), window_px, window_px)
    check_batch(
        checkpoint.model.eval(), in_channels=shape[1], window_px=window_px, batch_size=batch_size
    )
    device = device.in_inference
    if name == "auto":
        return _fastest(checkpoint, folder, device, shape, windows)
    if name == "openvino":
        return _by_openvino(checkpoint, folder, device, shape)
    return _by_torch(name, "requested", checkpoint, device, shape)


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
    """Return an engine that averages over the four rotations of its windows by right angles.

    Every prediction is turned back before the mean, which is that of the log odds: the threshold
    of the network keeps its meaning, which it would not with the mean of probabilities.
    """

    @torch.inference_mode()
    def run(windows: Tensor) -> Tensor:
        def turned(turns: int) -> Tensor:
            found = engine.run(windows.rot90(turns, (2, 3)).contiguous())
            return found.float().logit(_SURE).rot90(-turns, (2, 3))

        return _mean(map(turned, range(ROTATIONS))).sigmoid()

    return replace(engine, reason=f"{engine.reason}, mean of four rotations", run=run)


def at_sizes(engines: Sequence[Engine], window_px: int) -> Engine:
    """Return an engine that averages over windows that are resampled to the sides of several.

    Every prediction is resampled back before the mean, which is that of the log odds.

    Args:
        window_px: side of the windows that it takes.
    """
    first = engines[0]
    if [engine.window_px for engine in engines] == [window_px]:
        return first

    @torch.inference_mode()
    def run(windows: Tensor) -> Tensor:
        def at_size(engine: Engine) -> Tensor:
            found = engine.run(_resampled(windows, engine.window_px)).float()
            return _resampled(found.logit(_SURE), window_px)

        return _mean(map(at_size, engines)).sigmoid()

    sides = " and ".join(str(engine.window_px) for engine in engines)
    reasons: dict[str, str] = {}
    for engine in engines:
        reasons.setdefault(engine.name, engine.reason)
    reason = f"{'; '.join(reasons.values())}, windows of {window_px} px at {sides} px"
    return replace(first, reason=reason, window_px=window_px, run=run)


def _resampled(values: Tensor, side_px: int) -> Tensor:
    """Return values, shape (window, band, row, col), with other rows and columns.

    Bytes are images, which are filtered as they shrink. Log odds are smooth enough without, and the
    filter would take four times as long.
    """
    if values.shape[-1] == side_px:
        return values
    is_image = values.dtype == torch.uint8
    return interpolate(values, (side_px, side_px), mode="bilinear", antialias=is_image)


def _mean(values: Iterator[Tensor]) -> Tensor:
    """Return the mean of tensors of an iterator, which need not fit in memory together."""
    number, total = 1, next(values).clone()
    for number, value in enumerate(values, start=2):  # noqa: B007
        total += value
    return total / number


def _fastest(
    checkpoint: Checkpoint, folder: Path, device: Device, shape: Shape, windows: int
) -> Engine:
    """Return the engine that finishes a number of windows first, of those that are exact enough."""
    if device.compiler is not None:
        return _by_torch("inductor", "compile is on", checkpoint, device, shape)
    if (device.type, device.backend) != ("cpu", "native"):
        why = f"always used on {device.name} with backend {device.backend}"
        return _by_torch("eager", why, checkpoint, device, shape)
    pixels = (_USUAL_PX / shape[-1]) ** 2 * torch.get_num_threads()
    why, problem = _why_int8(folder, windows, math.ceil(_OPENING_PAYS * pixels))
    if why:
        return _by_int8(why, folder, shape)
    notes = [problem] if problem else []
    needed, precision = math.ceil(_CONVERTING_PAYS * pixels), openvino_precision(device)
    pays = f"pays from {count(needed, 'window')} on, here {windows}"
    if precision != device.precision:
        why = f"OpenVINO would compute in {precision} on this CPU"
    elif windows < needed:
        why = f"not converted for OpenVINO: {pays}"
    elif missing := openvino.why_missing():
        why = f"OpenVINO: {missing}"
    else:
        try:
            run = _converted(checkpoint, shape, device)
        except RoadsegError as error:
            why = error.args[0]
        else:
            why = "; ".join([f"{precision}, converted: {pays}", *notes])
            return _engine("openvino", why, shape, run)
    return _by_torch("eager", "; ".join([why, *notes]), checkpoint, device, shape)


def _why_int8(folder: Path, windows: int, needed: int) -> tuple[str, str]:
    """Return why the quantised network of a folder is the fastest, or why it is not used."""
    facts = read_int8_facts(folder)
    if facts is None:
        return "", ""
    problem = openvino.why_missing() or unusable(facts, folder)
    if not problem and windows < needed:
        problem = f"pays from {count(needed, 'window')} on, here {windows}"
    if problem:
        return "", f"not INT8: {problem}"
    return "INT8, accuracy verified when it was made", ""


def _by_openvino(checkpoint: Checkpoint, folder: Path, device: Device, shape: Shape) -> Engine:
    """Open the quantised network, or the one in float32 if there is none."""
    if device.type != "cpu":
        raise ConfigError(
            f"engine openvino is for device cpu, not {device.name}; choose engine eager"
        )
    if problem := openvino.why_missing():
        raise DeviceError(f"engine openvino: {problem}")
    facts = read_int8_facts(folder)
    if facts is None:
        run = _converted(checkpoint, shape, device)
        why = f"requested; {openvino_precision(device)}, as `{MADE_BY}` was not run"
        return _engine("openvino", why, shape, run)
    if problem := unusable(facts, folder):
        raise CheckpointError(
            f"engine openvino: {int8_folder(folder)}: {problem}; run `{MADE_BY}` again, or choose "
            "engine auto"
        )
    return _by_int8("requested; INT8", folder, shape)


def _by_int8(why: str, folder: Path, shape: Shape) -> Engine:
    """Open the quantised network of a checkpoint folder."""
    run = openvino.open(int8_folder(folder), window_shape=shape)
    return _engine("openvino", why, shape, run)


def _by_torch(name: str, why: str, checkpoint: Checkpoint, device: Device, shape: Shape) -> Engine:
    """Open a network on a device, compiled if the name is "inductor"."""
    device = replace(device, compiler=compiler_of(device) if name == "inductor" else None)
    model = checkpoint.model.eval()
    if device.amp_dtype is None:  # In bfloat16, the folded weights would be rounded.
        model = fold_batch_norms(model, in_channels=shape[1])
    fast = device.for_inference(device.to(model))
    network = device.to(ProbabilityNetwork(fast, checkpoint.scaling)).eval()
    device.compile(network)

    @torch.inference_mode()
    def run(windows: Tensor) -> Tensor:
        with device.autocast():
            probabilities: Tensor = network(device.to(windows))
        device.mark()
        return probabilities

    if device.compiler is not None:
        _compile_now(run, device, shape)
    return _engine(name, why, shape, run)


def _compile_now(run: Network, device: Device, shape: Shape) -> None:
    """Run a network, which was not run before, so that torch compiles it now.

    On a CPU its weights become constants of the program (Inductor's freezing). Torch does so
    only if the whole process is set to it while the network is followed.
    """
    inductor, dynamo = map(import_module, ("torch._inductor.config", "torch._dynamo.config"))
    freezing = inductor.patch(freezing=device.type == "cpu")
    try:
        with freezing, dynamo.patch(recompile_limit=_COMPILED, automatic_dynamic_shapes=False):
            run(torch.zeros(shape, dtype=torch.uint8))
    except RuntimeError as error:
        raise DeviceError(
            f"the network cannot be compiled: {first_line(error)}", "choose engine eager"
        ) from error


def _engine(name: str, why: str, shape: Shape, run: Network) -> Engine:
    batch_size, _, window_px, _ = shape
    return Engine(name, f"engine {name} ({why})", batch_size, window_px, run)


def openvino_precision(device: Device) -> str:
    """Return the precision in which OpenVINO is fastest: bfloat16 with AMX, where that may be.

    Without AMX, its float32 is faster than its bfloat16; PyTorch's bfloat16 may be faster still.
    """
    has_amx = cpu.features()["amx_bf16"]
    return "bf16" if device.amp_dtype is torch.bfloat16 and has_amx else "fp32"


def _converted(checkpoint: Checkpoint, shape: Shape, device: Device) -> Network:
    """Convert a network for OpenVINO; refuse one that computes something else than PyTorch's."""
    network = ProbabilityNetwork(checkpoint.model, checkpoint.scaling).eval()
    precision = openvino_precision(device)
    run = openvino.convert(network, window_shape=shape, precision=precision)
    allowed = MAX_DIFFERENCE
    if precision == "bf16":

        def rounded(windows: Tensor) -> Tensor:
            with device.autocast():
                probabilities: Tensor = network(windows)
            return probabilities

        allowed += _FARTHER * largest_difference(network, rounded, shape)
    if not (difference := largest_difference(network, run, shape)) <= allowed:
        raise RoadsegError(
            f"OpenVINO's probabilities differ from PyTorch's by {difference:.2g}, expected at most "
            f"{allowed:.2g}",
            "choose engine eager",
        )
    return run
