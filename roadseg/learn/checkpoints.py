"""Checkpoints: weights with the facts needed to use them, in one safetensors file. No pickle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from roadseg.core.scaling import Scaling
from roadseg.core.speeds import SpeedBins
from roadseg.core.wording import one_line
from roadseg.errors import CheckpointError
from roadseg.io.files import whole
from roadseg.io.records import parse_json, write_json
from roadseg.learn.models import build_model

_FORMAT = 3
_METADATA = "roadseg"  # key under which the facts stand in the file
MODEL = "model."  # begins the names of the weights

Facts = dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A trained network, ready to predict on the CPU, and what is known about it.

    Attributes:
        model: from normalised windows to logits, in evaluation mode.
        facts: architecture, encoder, in_channels, classes, bin_edges, bin_unit, scaling, epoch,
            score, and what the caller of `train` adds: bands, gsd_m, resample_m, nodata, ...
    """

    model: nn.Module
    facts: Facts

    @property
    def scaling(self) -> Scaling:
        """How bands become the bytes that this network knows."""
        return Scaling.from_json(self.facts["scaling"])

    @property
    def bins(self) -> SpeedBins:
        """Speed bins that its first logits stand for; one more logit is any road."""
        return SpeedBins(tuple(self.facts["bin_edges"]), self.facts["bin_unit"])


def checkpoint_path(folder: Path, which: str) -> Path:
    """Return the file of a checkpoint, "best" or "last"."""
    return folder / f"{which}.safetensors"


def save_checkpoint(
    folder: Path, which: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> None:
    """Write a checkpoint so that a reader finds the old one or the new one, never a half.

    The facts also go to `<which>.json`, for people; nothing reads them from there.

    Args:
        folder: folder of the checkpoint.
        which: "best" or "last".
        tensors: by name, the weights under "model."; copies on the CPU are written.
        facts: JSON values.

    Raises:
        OutputError: if it cannot be written (a full disk).
    """
    facts = {"format": _FORMAT, **facts}
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_json(folder / f"{which}.json", facts)
    with whole(checkpoint_path(folder, which)) as partial:
        try:
            save_file(on_cpu, partial, metadata={_METADATA: json.dumps(facts)})
        except SafetensorError as error:
            raise OSError(str(error)) from error  # which `whole` reports with the final name


def write_facts_beside(folder: Path, which: str) -> None:
    """Write `<which>.json` again, from the file of the weights, if it is missing.

    Raises:
        CheckpointError: if that cannot be read.
        OutputError: if it cannot be written.
    """
    path = folder / f"{which}.json"
    if not path.exists():
        write_json(path, read_facts(folder, which))


def named(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put a prefix before the names of tensors."""
    return {prefix + name: tensor for name, tensor in tensors.items()}


def load_checkpoint(folder: Path, which: str = "best") -> Checkpoint:
    """Load a checkpoint; its folder alone is enough.

    Raises:
        CheckpointError: if it is missing, damaged, or not written by roadseg.
    """
    facts = read_facts(folder, which)
    model = build_model(
        architecture=facts["architecture"],
        encoder=facts["encoder"],
        encoder_weights=None,
        in_channels=facts["in_channels"],
        classes=facts["classes"],
    )
    load_weights(folder, which, model)
    return Checkpoint(model.eval(), facts)


def read_facts(folder: Path, which: str) -> Facts:
    """Read the facts of a checkpoint without its tensors.

    Raises:
        CheckpointError: if it is missing, damaged, or not written by roadseg.
    """
    path = checkpoint_path(folder, which)
    if not path.is_file():
        raise CheckpointError(
            f"{path} does not exist; run `roadseg train` first, or name another folder"
        )
    try:
        with safe_open(path, "pt") as file:
            facts: Facts = dict(parse_json((file.metadata() or {}).get(_METADATA, "{}")))
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path}: damaged or not a safetensors file ({error}); train again or restore it"
        ) from error
    if facts.get("format") != _FORMAT:
        found = f"format {facts['format']}" if "format" in facts else "no facts of roadseg"
        raise CheckpointError(
            f"{path}: found {found}, expected format {_FORMAT}; use a file of `roadseg train`"
        )
    return facts


def load_weights(folder: Path, which: str, model: nn.Module) -> None:
    """Load the weights of a checkpoint into a network.

    Raises:
        CheckpointError: if they do not fit.
    """
    try:
        model.load_state_dict(read_tensors(folder, which, MODEL))
    except RuntimeError as error:
        path = checkpoint_path(folder, which)
        first = one_line(error)[:200]
        raise CheckpointError(
            f"{path}: its weights do not fit its facts ({first}); train again or restore it"
        ) from error


def read_tensors(folder: Path, which: str, prefix: str = "") -> dict[str, Tensor]:
    """Read the tensors whose names begin with a prefix, without it."""
    with safe_open(checkpoint_path(folder, which), "pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
        return {name.removeprefix(prefix): file.get_tensor(name) for name in names}
