"""Checkpoint facts: the description of a network in its file of weights, read without torch."""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
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

_FARTHEST = 4  # Times as small or large that pixels may be seen.
_ADVICE = "restore the file that `roadseg train` wrote, or retrain"

_Name = Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\z")]
_Text = Annotated[str, Field(max_length=1000)]
_Version = Annotated[str, Field(pattern=r"\A[ -~]{1,100}\z")]  # It is written into tags of rasters.
_Seconds = Annotated[float, Field(ge=0, le=1e12)]
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
        """Refuse facts that contradict each other."""
        count, bins = self.in_channels, SpeedBins(self.bin_edges, self.bin_unit)
        least_m, most_m = self.gsd_range_m
        lengths = {"bands": len(self.bands), "scaling": len(self.scaling.mean)}
        lengths |= {"band_names": len(self.band_names) or count}
        for key, number in lengths.items():
            if number != count:
                raise ValueError(f"{key}: expected {count}, as in_channels says, got {number}")
        if self.classes != bins.count + 1:
            raise ValueError(
                f"classes: expected {bins.count + 1}, for {bins.count} speed bins and any road, "
                f"got {self.classes}"
            )
        if not self.scaling.ranges:
            raise ValueError("scaling.ranges: expected at least one pixel type, got none")
        if not least_m <= self.gsd_m <= most_m:
            raise ValueError(
                f"gsd_range_m: expected a range that contains gsd_m {self.gsd_m:g}, got "
                f"{least_m:g} to {most_m:g}"
            )
        if not all(most_m / _FARTHEST <= m <= least_m * _FARTHEST for m in self.pixel_sizes_m):
            raise ValueError(
                f"pixel_sizes_m: expected sizes near gsd_range_m, got {self.pixel_sizes_m}"
            )
        if not {"roadseg", "torch"} <= self.versions.keys():
            raise ValueError(f"versions: expected roadseg and torch, got {self.versions!r:.60}")
        return self

    @model_validator(mode="after")
    def _names_its_folds(self) -> Self:
        """Refuse a network of all folds without the facts of the folds."""
        if (self.fold == "all") != (self.from_folds is not None):
            state = "it is missing" if self.from_folds is None else "it is present"
            raise ValueError(f'from_folds: expected if and only if fold is "all", but {state}')
        return self

    @model_validator(mode="after")
    def _has_each_band_once(self) -> Self:
        """Refuse a band that occurs twice with different scalings or names."""
        known: dict[str, object] = {}
        names = self.band_names or [""] * len(self.bands)
        scaling = self.scaling
        columns = zip(names, scaling.mean, scaling.std, *scaling.ranges.values(), strict=True)
        for band, values in zip(self.bands, columns, strict=True):
            if known.setdefault(str(band).strip().lower(), values) != values:
                raise ValueError(
                    f"bands: expected one scaling and name for each band, got two for {band!r:.60}"
                )
        return self


class _Best(_Known):
    """Further facts of the checkpoint of the best epoch."""

    score: dict[str, _Measured]


class _Row(BaseModel):
    """An epoch, as in metrics.csv; other columns are numbers as well."""

    model_config = TOLERANT | ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _Measured]

    epoch: Count
    train_loss: _Measured
    seconds: _Seconds


class _OptimizerState(BaseModel):
    model_config = TOLERANT

    values: dict[str, _Measured | None]


class _Last(_Known):
    """Further facts that a training needs to resume."""

    history: tuple[_Row, ...]
    began_with: _Text
    steps_before: Count
    step: Count
    seconds: _Seconds
    check_s: _Seconds
    step_s: _Seconds
    optimizer_state: _OptimizerState
    scaler_state: dict[str, _Measured]


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
        check(facts, _Last if which == "last" else _Best)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; {_ADVICE}") from error
    return facts
