"""Checkpoints: weights with the facts that are needed to use them, in one safetensors file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.network.checkpoint_facts import (
    FORMAT,
    METADATA,
    MODEL,
    STORED_AS,
    Facts,
    checkpoint_path,
    read_checkpoint_facts,
    speed_bins_of,
)
from roadseg.learn.network.models import (
    WITH_CHANNELS,
    NetworkSpec,
    build_model,
    last_layer,
    model_to_fill,
)
from roadseg.raster.scaling import Scaling
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import atomic_write
from roadseg.system.records import parse_json, write_json
from roadseg.system.schemas import check
from roadseg.system.text import one_line

Tensors = Mapping[str, Tensor]

_LARGEST = 1e18  # Of a weight: float32 holds its square, and sums of some of these.


@dataclass(frozen=True)
class Checkpoint:
    """A trained network, ready to predict on the CPU, with its facts.

    Attributes:
        model: network from normalised windows to logits, in evaluation mode.
        facts: architecture, encoder, in_channels, classes, bin_edges, bin_unit, scaling, epoch,
            score, and the facts of the `TrainingJob`: bands, gsd_m, resample_m, nodata, ...
    """

    model: nn.Module
    facts: Facts

    @property
    def scaling(self) -> Scaling:
        """Scaling of the bands to bytes, as in the training."""
        return check(self.facts["scaling"], Scaling)

    @property
    def bins(self) -> SpeedBins:
        """Speed bins of the first logits; the last logit is any road."""
        return speed_bins_of(self.facts)


def save_checkpoint(folder: Path, which: str, tensors: Tensors, facts: Mapping[str, Any]) -> None:
    """Write a checkpoint so that a reader finds the old or the new one, never a part.

    The facts are also written to `<which>.json` for people; roadseg does not read that file.

    Args:
        which: "best" or "last".
        tensors: tensors by name, weights under "model."; they are copied to the CPU.

    Raises:
        OutputError: if it cannot be written (a full disk).
    """
    facts = {"format": FORMAT, **facts}
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_json(folder / f"{which}.json", facts)
    with atomic_write(checkpoint_path(folder, which)) as partial:
        try:
            save_file(on_cpu, partial, metadata={METADATA: json.dumps(facts)})
        except SafetensorError as error:
            raise OSError(str(error)) from error  # which `atomic_write` reports with the final name


def named(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    """Put a prefix before the names of tensors."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def load_checkpoint(folder: Path) -> Checkpoint:
    """Load the best weights of a training; no file outside of the folder is read.

    Raises:
        CheckpointError: if the checkpoint is missing, damaged, not written by roadseg, or its facts
            and weights do not fit together.
    """
    path, facts = checkpoint_path(folder, "best"), read_checkpoint_facts(folder, "best")
    try:
        model = model_to_fill(NetworkSpec.from_facts(facts))
    except ConfigError as error:
        raise CheckpointError(
            f"{path}: its network cannot be built ({error}); restore the file that `roadseg "
            "train` wrote, or install the version of timm that has its encoder"
        ) from error
    weights = read_tensors(folder, "best")
    _check_fits(path, weights, named(MODEL, model.state_dict()))
    unnamed = {name.removeprefix(MODEL): value for name, value in weights.items()}
    model.load_state_dict(unnamed, assign=True)
    return Checkpoint(model.eval(), facts)


def init_from(
    spec: NetworkSpec, folder: Path, *, bins: SpeedBins, setting: str = "train.init"
) -> tuple[nn.Module, str]:
    """Return a network with the weights of another run, and what was loaded, in words.

    If the speed bins differ, only the last logit, any road, is loaded; those of the bins stay new.

    Args:
        folder: checkpoint folder, whose best weights are loaded.
        setting: setting that names the run, for errors.

    Raises:
        ConfigError: if the folder is a file, or the other run has another architecture, encoder,
            decoder or number of bands.
        CheckpointError: if there is no checkpoint of roadseg, or if it is damaged.
    """
    if folder.is_file():
        raise ConfigError(
            f"{setting}: {folder} is a file, expected the folder of a checkpoint, such as "
            "run/checkpoints/fold-0; a file of encoder weights goes into train.encoder_weights"
        )
    facts = read_checkpoint_facts(folder, "best")
    _check_agrees(facts, folder, spec, setting=setting)
    saved = read_tensors(folder, "best", MODEL)
    same_bins = (facts["bin_edges"], facts["bin_unit"]) == (list(bins.edges), bins.unit)
    model = model_to_fill(spec) if same_bins else build_model(spec)
    ours = model.state_dict()
    own = {id(value) for value in last_layer(model).parameters()}
    last = {name for name, value in model.named_parameters() if id(value) in own}
    as_saved = {
        name: ours[name].new_empty((facts["classes"], *ours[name].shape[1:])) for name in last
    }
    _check_fits(folder, saved, ours | as_saved)
    if not same_bins:
        for name in last:  # Only their last logit, any road, is the same.
            mixed = ours[name].clone()
            mixed[-1] = saved[name][-1]
            saved[name] = mixed
    model.load_state_dict(saved, assign=True)
    taken = f"loaded {len(saved)} tensors"
    if not same_bins:
        taken += (
            "; the speed bins differ, so of the last layer only the channel of any road was "
            f"loaded, and the {spec.classes - 1} channels of speed bins start from random values"
        )
    return model, taken


def is_sound(tensor: Tensor) -> bool:
    """Return whether all values are numbers whose squares are finite in float32."""
    if not tensor.numel():
        return True
    least, most = (float(value) for value in tensor.detach().aminmax())
    return least >= -_LARGEST and most <= _LARGEST


def read_tensors(folder: Path, which: str, prefix: str = "") -> dict[str, Tensor]:
    """Read the tensors whose names begin with a prefix; the prefix is removed.

    Tensors that were stored as float16 to save space, according to the facts, become float32.

    Raises:
        CheckpointError: if they cannot be read.
    """
    path = checkpoint_path(folder, which)
    try:
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            # Copies: on Windows, a file that stays mapped cannot be replaced, and what lies
            # somewhere in a file makes kernels round differently.
            tensors = {name.removeprefix(prefix): file.get_tensor(name).clone() for name in names}
            facts = parse_json((file.metadata() or {}).get(METADATA, "{}"))
    except (SafetensorError, OSError, ValueError, LookupError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: its tensors cannot be read ({one_line(error):.200}); restore it, or retrain"
        ) from error
    if facts.get(STORED_AS) != "float16":
        return tensors
    return {name: t.float() if t.dtype == torch.float16 else t for name, t in tensors.items()}


def _check_fits(path: Path, weights: Tensors, wanted: Tensors) -> None:
    """Refuse weights that are not those of a network, or no sound numbers."""

    def fits(name: str) -> bool:
        if name not in weights or name not in wanted:
            return False
        ours, value = weights[name], wanted[name]
        return (ours.shape, ours.dtype) == (value.shape, value.dtype) and is_sound(ours)

    if odd := sorted(name for name in weights.keys() | wanted.keys() if not fits(name)):
        raise CheckpointError(
            f"{path}: its weights do not match its metadata, or are no finite numbers "
            f"({one_line(odd[0]):.100}); restore it, or retrain"
        )


def _check_agrees(facts: Facts, path: Path, wanted: NetworkSpec, *, setting: str) -> None:
    other = NetworkSpec.from_facts(facts)
    keys = ["architecture", "encoder", "in_channels"]
    if wanted.architecture.lower() in WITH_CHANNELS:
        keys.append("decoder_channels")
    for key in keys:
        if getattr(other, key) != getattr(wanted, key):
            hint = (
                "choose this many bands with imagery.bands, or use the checkpoint in "
                "train.encoder_weights, which spreads the weights of three bands over any number"
                if key == "in_channels"
                else f"set train.{key} to the same value, or use another run"
            )
            difference = f"{key} {getattr(other, key)}, expected {getattr(wanted, key)}"
            raise ConfigError(f"{setting}: {path} has {difference}; {hint}")
