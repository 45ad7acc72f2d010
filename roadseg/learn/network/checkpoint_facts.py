"""Checkpoint facts: the description of a network in its file of weights, read without torch."""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator
from safetensors import SafetensorError, safe_open

from roadseg.errors import CheckpointError
from roadseg.raster.scaling import Scaling
from roadseg.roads.speeds import BinUnit, SpeedBins
from roadseg.system.records import parse_json
from roadseg.system.schemas import TOLERANT, Band, Count, Metres, check
from roadseg.system.text import one_line

FORMAT = 3
MODEL = "model."  # The names of the network's weights begin with it.
METADATA = "roadseg"  # Key of the facts in the file.
STORED_AS = "stored_as"  # Fact of files whose numbers have another type than in use.

Facts = dict[str, Any]

_ADVICE = "restore the file that `roadseg train` wrote, or retrain"

_Name = Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\z")]
_Text = Annotated[str, Field(max_length=1000)]
_Version = Annotated[str, Field(pattern=r"\A[ -~]{1,100}\z")]  # It is written into tags of rasters.
_Measured = Annotated[float, Field(allow_inf_nan=True)]
_Channels = Annotated[
    tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=4, max_length=5)
]
_Versions = dict[str, _Version]
_Threshold = Annotated[float, Field(gt=0, lt=1)]


class _FromFolds(BaseModel):
    """Facts that a training on all chips takes from the trainings of single folds."""

    model_config = TOLERANT

    epochs: Annotated[int, Field(ge=1, le=10**6)]
    scores: Annotated[dict[_Name, dict[str, _Measured]], Field(min_length=1)]


class _Known(BaseModel):
    """Facts of every checkpoint on which code relies."""

    model_config = TOLERANT

    architecture: _Name
    encoder: _Name
    decoder_channels: _Channels | None = None  # None: those of segmentation-models.
    in_channels: Annotated[int, Field(ge=1, le=2**16)]
    classes: Annotated[int, Field(ge=1, le=255)]
    bands: Annotated[tuple[Band | _Text, ...], Field(min_length=1)]
    band_names: tuple[_Text, ...] = ()
    scaling: Scaling
    gsd_m: Metres
    gsd_range_m: tuple[Metres, Metres] = (0, math.inf)  # Missing in early checkpoints.
    # At which it sees every window, one after the other; (): as the window is.
    pixel_sizes_m: Annotated[tuple[Metres, ...], Field(max_length=4)] = ()
    resample_m: Metres | None
    nodata: Annotated[float, Field(ge=-1e308, le=1e308)] | None
    bin_edges: tuple[float, ...]
    bin_unit: BinUnit
    labels_have_speeds: bool = True  # Missing in early checkpoints.
    epoch: Count
    fold: Count | Literal["all"] | None = None
    from_folds: _FromFolds | None = None  # Only for fold "all".
    threshold: _Threshold | None = None  # None before the first epoch, and in early checkpoints.
    thresholds: dict[_Text, _Threshold] = {}  # By the name of the set.
    stored_as: Literal["float16"] | None = None
    versions: _Versions

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        """Refuse numbers of bands or classes that contradict each other."""
        bands = {len(self.bands), len(self.scaling.mean), len(self.band_names) or self.in_channels}
        bins = SpeedBins(self.bin_edges, self.bin_unit).count
        if bands != {self.in_channels} or self.classes != bins + 1 or not self.scaling.ranges:
            raise ValueError("numbers of bands or of classes contradict each other")
        return self


class _Best(_Known):
    """Further facts of the checkpoint of the best epoch."""

    score: dict[str, _Measured]


def speed_bins_of(facts: Facts) -> SpeedBins:
    """Return the speed bins of the first logits of a network."""
    known = facts.get("labels_have_speeds", True)
    return SpeedBins(tuple(facts["bin_edges"]), facts["bin_unit"], are_known=known)


def threshold_of(checkpoints: Sequence[Facts], of_set: str = "") -> float | None:
    """Return the threshold for the mean prediction of networks: the mean of their thresholds.

    Args:
        of_set: name of the set of the scenes to predict. Without a set, or for a set that was not
            in the training, the threshold of all held-out scenes counts.

    Returns:
        The mean; None if the threshold of a network was not measured.
    """
    return mean_threshold(
        facts.get("thresholds", {}).get(of_set, facts.get("threshold")) for facts in checkpoints
    )


def mean_threshold(thresholds: Iterable[float | None]) -> float | None:
    """Return the mean of thresholds to four decimals; None if one of them is not known."""
    measured = list(thresholds)
    known = [threshold for threshold in measured if threshold is not None]
    return round(statistics.fmean(known), 4) if known == measured else None


def checkpoint_path(folder: Path, which: str) -> Path:
    """Return the file of a checkpoint, "best" or "last"."""
    return folder / f"{which}.safetensors"


def read_checkpoint_facts(folder: Path, which: str) -> Facts:
    """Read the facts of a checkpoint, "best" or "last", without its tensors.

    Unknown keys are kept unchecked, because a newer version may have added them. A version that
    changes the meaning of a key writes another format.

    Raises:
        CheckpointError: if the file is missing, damaged, not written by roadseg, or its facts are
            impossible.
    """
    path = checkpoint_path(folder, which)
    if not path.is_file():
        # A run folder holds those of its folds.
        of_folds = sorted(folder.glob(f"checkpoints/*/{path.name}"))
        advice = "run `roadseg train` first, or use another folder"
        if of_folds:
            advice = f"did you mean {of_folds[0].parent}?"
        raise CheckpointError(f"{path} does not exist; {advice}")
    try:
        with safe_open(path, "numpy") as file:
            facts = parse_json((file.metadata() or {}).get(METADATA, "{}"))
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"{path}: damaged, or not a safetensors file ({one_line(error):.200}); restore it, "
            "or retrain"
        ) from error
    version = facts.get("format") if isinstance(facts, dict) else None
    if not isinstance(facts, dict) or type(version) is not int or version != FORMAT:
        what = "no metadata of roadseg" if version is None else f"format {version!r:.60}"
        raise CheckpointError(
            f"{path}: found {what}, expected format {FORMAT}; use a file that `roadseg train` wrote"
        )
    try:
        check(facts, _Best if which == "best" else _Known)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; {_ADVICE}") from error
    return facts
