"""The settings: every key of the config, its default, unit and limits."""

import itertools
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from roadseg.core.schemes import NO_ROADS, SchemeName, WidthRule
from roadseg.core.speeds import DEFAULT_BINS, BinUnit, SpeedUnit


def _setting(default: Any, unit: str, description: str, **limits: Any) -> Any:  # noqa: ANN401
    """Declare a setting: its default, its unit ("-" for none), what it does, its limits."""
    return Field(default, description=description, json_schema_extra={"unit": unit}, **limits)


class Section(BaseModel):
    """A section of the config."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ImageryConfig(Section):
    """The scenes, and how their pixels become the input of the network."""

    images: tuple[str, ...] = _setting(
        (), "paths", "Scenes: files, folders or globs of GeoTIFF/VRT, relative to the config file."
    )
    bands: tuple[int | str, ...] | None = _setting(
        None,
        "band numbers or names",
        "Bands to use, by number from 1 or by description; null takes all but alpha.",
        min_length=1,
    )
    crs: str | None = _setting(None, "CRS", "CRS of scenes that name none, such as EPSG:32611.")
    gsd_m: float | None = _setting(
        None,
        "metres",
        "Resample scenes to pixels of this size; null takes them as they are. "
        "For scenes without georeference it is the size of their pixels.",
        gt=0,
    )
    nodata: float | None = _setting(
        None, "pixel value", "Pixels that have this value in every band hold no data."
    )
    chip_px: int = _setting(
        1300, "pixels", "Scenes larger than this are cut into chips for training.", ge=32
    )
    percentiles: tuple[float, float] = _setting(
        (2.0, 98.0), "percent", "Percentiles over all scenes that become 0 and 255 (not of uint8)."
    )

    @model_validator(mode="after")
    def _percentiles_rise(self) -> "ImageryConfig":
        low, high = self.percentiles
        if not 0 <= low < high <= 100:  # noqa: PLR2004 - percent
            raise ValueError(
                f"percentiles: expected two numbers that rise from 0 to 100, got {[low, high]}"
            )
        return self


class LabelsConfig(Section):
    """The road labels, and how they become masks."""

    roads: tuple[str, ...] = _setting(
        (),
        "paths",
        "Road lines, polygons or raster masks: one file for all scenes, or one a scene by name.",
    )
    crs: str | None = _setting(None, "CRS", "CRS of label files that name none.")
    scheme: SchemeName = _setting(
        "auto",
        "-",
        "What the attributes mean: spacenet, osm, attribute (speed_key), constant "
        "(default_speed_mph); auto chooses by the keys of each file.",
    )
    speed_key: str | None = _setting(
        None, "attribute", "Attribute that holds the speed, for the scheme attribute."
    )
    speed_unit: SpeedUnit = _setting("mph", "-", "Unit of the values of speed_key.")
    default_speed_mph: float = _setting(
        25.0, "mph", "Speed of roads whose attributes say nothing of it.", gt=0
    )
    exclude: tuple[str, ...] = _setting(
        NO_ROADS, "highway classes", "OpenStreetMap classes that are left out."
    )
    tunnels: bool = _setting(
        default=False, unit="-", description="Whether roads in tunnels are kept, though unseen."
    )
    width: WidthRule = _setting(
        "constant",
        "-",
        "Width of a road in the mask: constant (buffer_m), attribute (width_key), or lanes.",
    )
    buffer_m: float = _setting(
        2.0,
        "metres",
        "Half the width of a road whose width is constant, or is not known otherwise.",
        gt=0,
    )
    width_key: str = _setting("width", "attribute", "Attribute that holds the width in metres.")
    lane_m: float = _setting(3.5, "metres", "Width of a lane, for the width by lanes.", gt=0)
    bin_edges: tuple[float, ...] = _setting(
        DEFAULT_BINS.edges,
        "bin_unit",
        "Upper limits of the speed bins, each in the bin below; one more bin lies above the last.",
        min_length=1,
        max_length=30,
    )
    bin_unit: BinUnit = _setting("mph", "-", "Unit of bin_edges.")
    mask_speeds_mph: dict[int, float] | None = _setting(
        None,
        "mph",
        "Speed of each value of raster masks; other values are background. "
        "null: every value but 0 and nodata is road with default_speed_mph.",
    )

    @model_validator(mode="after")
    def _edges_rise(self) -> "LabelsConfig":
        edges = self.bin_edges
        if edges[0] <= 0 or any(b <= a for a, b in itertools.pairwise(edges)):
            raise ValueError(f"bin_edges: expected numbers that rise from above 0, got {edges}")
        return self

    @model_validator(mode="after")
    def _attribute_has_key(self) -> "LabelsConfig":
        if self.scheme == "attribute" and not self.speed_key:
            raise ValueError("speed_key: expected the name of an attribute, as scheme needs it")
        if self.speed_key and self.scheme != "attribute":
            raise ValueError('speed_key: is read only if scheme is "attribute"; set that too')
        return self


class SplitConfig(Section):
    """How chips are dealt into folds."""

    folds: int = _setting(5, "folds", "Number of folds; 5 holds out 20 % of the chips.", ge=2)
    method: Literal["blocks", "random", "groups", "file"] = _setting(
        "blocks",
        "-",
        "What shares a fold: chips in one block of ground; nothing (random); scenes whose names "
        "agree in `group`; or as `file` says.",
    )
    block_m: float = _setting(
        500.0, "metres", "Side of the square of ground whose chips share a fold.", gt=0
    )
    group: str | None = _setting(
        None,
        "regular expression",
        "Searched in the names of scenes; the same match (or first group) makes one group.",
    )
    file: Path | None = _setting(
        None,
        "path",
        "CSV with the columns name (of a chip or scene) and fold, from 0; or a folds.json.",
        strict=False,
    )
    seed: int = _setting(0, "-", "Decides which block goes to which fold.", ge=0)

    @model_validator(mode="after")
    def _method_has_its_setting(self) -> "SplitConfig":
        if self.method == "groups" and self.group is None:
            raise ValueError("group: expected a regular expression, as the method groups needs it")
        if self.method == "file" and self.file is None:
            raise ValueError("file: expected a path, as the method file needs it")
        return self

    @model_validator(mode="after")
    def _group_compiles(self) -> "SplitConfig":
        try:
            re.compile(self.group or "")
        except re.error as error:
            raise ValueError(f"group: expected a regular expression ({error})") from error
        return self


class LossConfig(Section):
    """Weights of the terms of the loss; 0 leaves a term out."""

    focal: float = _setting(0.75, "weight", "Focal loss: every pixel, the hard ones most.", ge=0)
    dice: float = _setting(0.25, "weight", "Soft dice loss: the overlap with the roads.", ge=0)
    bce: float = _setting(0.0, "weight", "Binary cross entropy: every pixel alike.", ge=0)
    cldice: float = _setting(
        0.0, "weight", "clDice: centrelines of one side on the roads of the other; slow.", ge=0
    )
    skeleton_recall: float = _setting(
        0.0, "weight", "Skeleton recall: centrelines that are found; breaks fewer roads.", ge=0
    )

    @model_validator(mode="after")
    def _some_term(self) -> "LossConfig":
        if not any(self.model_dump().values()):
            raise ValueError("loss: expected a weight above 0 for one term at least")
        return self


class DistributedConfig(Section):
    """How processes that train together (torchrun) share what they learn."""

    bucket_mb: float = _setting(25.0, "MB", "Gradients are averaged in pieces of this size.", gt=0)
    gradient_as_bucket_view: bool = _setting(
        default=True, unit="-", description="Keep gradients in these pieces, which saves a copy."
    )
    hierarchy: dict[int, int] | None = _setting(
        None,
        "steps: processes",
        "Average weights instead of gradients: after every so many steps, among so many "
        "processes, such as {4: 8, 16: 64}; the last number is all of them. null averages "
        "gradients at every step.",
    )
    warmup_steps: int = _setting(
        0, "steps", "Steps with averaged gradients before the hierarchy sets in.", ge=0
    )


class TrainConfig(Section):
    """The network and its training."""

    architecture: str = _setting("unet", "-", "Architecture, by its segmentation-models name.")
    encoder: str = _setting("resnet34", "-", "Encoder, by its segmentation-models name.")
    encoder_weights: str | None = _setting(
        None,
        "name or path",
        '"imagenet" downloads pretrained weights once (better); a file of torchvision, timm or '
        "roadseg is read; null trains from scratch.",
    )
    init: Path | None = _setting(
        None,
        "path",
        "Checkpoint folder of another run, whose weights this training starts from.",
        strict=False,
    )
    window_px: int = _setting(
        512, "pixels", "Side of the random windows; a multiple of 32.", ge=32, multiple_of=32
    )
    windows_per_chip: int = _setting(8, "windows", "Windows drawn from each chip an epoch.", ge=1)
    road_share: float = _setting(
        0.75, "share", "Share of the windows that are placed on a road.", ge=0, le=1
    )
    batch_size: int = _setting(8, "windows", "Windows at once, in each process.", ge=1)
    accumulate: int = _setting(
        1, "batches", "Batches whose gradients are added up for one training step.", ge=1
    )
    epochs: int = _setting(30, "epochs", "Passes over the chips.", ge=1)
    patience: int = _setting(
        8, "epochs", "Stop when the validation loss has not improved for so long.", ge=1
    )
    optimizer: Literal["adam", "adamw", "sgd"] = _setting("adam", "-", "Optimizer.")
    learning_rate: float = _setting(3e-4, "-", "Highest learning rate.", gt=0)
    weight_decay: float = _setting(0.0, "-", "Weight decay of the optimizer.", ge=0)
    momentum: float = _setting(0.9, "-", "Momentum of sgd.", ge=0, lt=1)
    schedule: Literal["step", "cosine"] = _setting(
        "step", "-", "Learning rate: drops after milestones, or falls as a cosine to the end."
    )
    warmup_steps: int = _setting(0, "steps", "Steps over which the learning rate rises.", ge=0)
    lr_milestones: tuple[int, ...] = _setting(
        (20, 25), "epochs", "step: epochs after which the learning rate drops."
    )
    lr_gamma: float = _setting(0.2, "factor", "step: the learning rate drops by this.", gt=0, le=1)
    clip_norm: float = _setting(1.0, "norm", "Largest norm of the gradient.", gt=0)
    loss: LossConfig = LossConfig()
    ema: float | None = _setting(
        None,
        "decay",
        "Validate and keep a moving average of the weights with this decay, such as 0.999.",
        gt=0,
        lt=1,
    )
    tensorboard: bool = _setting(
        default=False,
        unit="-",
        description="Write scalars and pictures for TensorBoard (roadseg[tensorboard]).",
    )
    seed: int = _setting(0, "-", "Decides first weights, windows and augmentation.", ge=0)
    distributed: DistributedConfig = DistributedConfig()


class PredictConfig(Section):
    """Inference."""

    scenes: Literal["validation", "all"] = _setting(
        "validation", "-", "Scenes of the run to predict: those with validation chips, or all."
    )
    window_px: int = _setting(
        512, "pixels", "Side of the windows; a multiple of 32.", ge=64, multiple_of=32
    )
    overlap_px: int = _setting(
        128, "pixels", "Overlap of neighbouring windows, blended smoothly.", ge=0
    )
    batch_size: int = _setting(4, "windows", "Windows predicted at once.", ge=1)

    @model_validator(mode="after")
    def _overlap_fits(self) -> "PredictConfig":
        if self.overlap_px > self.window_px // 2:
            raise ValueError(
                f"overlap_px: expected at most half of window_px ({self.window_px // 2})"
            )
        return self


class GraphConfig(Section):
    """From probabilities to the road graph."""

    threshold: float = _setting(
        0.4, "probability", "Road where the probability is at least this.", gt=0, lt=1
    )
    min_blob_m2: float = _setting(30.0, "m2", "Smaller patches of road are removed.", ge=0)
    min_hole_m2: float = _setting(30.0, "m2", "Smaller holes in roads are filled.", ge=0)
    min_spur_m: float = _setting(10.0, "metres", "Shorter dead ends are pruned.", ge=0)
    max_gap_m: float = _setting(
        20.0, "metres", "Longest gap across which a dead end is linked to the road ahead.", ge=0
    )
    min_component_m: float = _setting(
        20.0, "metres", "Connected pieces with less road than this are dropped.", ge=0
    )
    simplify_m: float = _setting(1.0, "metres", "How far a line may move when simplified.", ge=0)
    default_speed_mph: float = _setting(
        25.0, "mph", "Speed of edges for which the probabilities show none.", gt=0
    )


class EvaluateConfig(Section):
    """Metrics on the validation fold."""

    spacing_m: float = _setting(50.0, "metres", "APLS: distance of control points.", gt=0)
    snap_m: float = _setting(4.0, "metres", "APLS: how far a control point may snap.", gt=0)
    pictures: int = _setting(12, "scenes", "Scenes of which a picture is drawn, at most.", ge=0)


class ComputeConfig(Section):
    """Where the work is done; no stage is repeated when this changes."""

    device: Literal["auto", "cpu", "cuda", "rocm", "xpu", "hpu", "mps"] = _setting(
        "auto", "-", "Where networks run."
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = _setting(
        "auto", "-", "bf16, fp16: mixed precision; auto takes it where the device is fast at it."
    )
    backend: Literal["native", "ipex"] = _setting(
        "native", "-", "On CPUs: PyTorch alone, or Intel's archived extension (roadseg[ipex])."
    )
    compile: bool = _setting(
        default=False, unit="-", description="Compile the network first; pays in long runs."
    )
    save_minutes: float = _setting(
        5.0, "minutes", "An epoch under way is kept so often, to go on from after a crash.", ge=0
    )
    workers: int = _setting(
        1, "processes", "Processes that prepare scenes, or load windows in training.", ge=0
    )
    scheduler: str | None = _setting(
        None, "address", "Dask scheduler, such as tcp://host:8786, that prepares scenes instead."
    )
    on_error: Literal["stop", "skip"] = _setting(
        "stop", "-", "What to do about a scene that cannot be used: stop, or skip and list it."
    )


class Config(Section):
    """Everything a run depends on, apart from the data."""

    run: Path = _setting(
        Path("run"),
        "path",
        "Run folder for all outputs, relative to the config file.",
        strict=False,
    )
    imagery: ImageryConfig = ImageryConfig()
    labels: LabelsConfig = LabelsConfig()
    split: SplitConfig = SplitConfig()
    train: TrainConfig = TrainConfig()
    predict: PredictConfig = PredictConfig()
    graph: GraphConfig = GraphConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    compute: ComputeConfig = ComputeConfig()
