"""The settings: every key of the config, its default, unit and limits."""

import re
import warnings
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from roadseg.data_settings import ImageryConfig, LabelsConfig
from roadseg.section import LARGEST_SEED, Section, Text, setting
from roadseg.train_settings import TrainConfig

GraphFormat = Literal["gpkg", "geojson", "graphml", "parquet", "osm", "csv"]


class SplitConfig(Section):
    """How chips are dealt into folds."""

    folds: int = setting(
        5, "folds", "Number of folds; 5 holds out 20 % of the chips.", ge=2, le=10_000
    )
    method: Literal["blocks", "random", "groups", "file"] = setting(
        "blocks",
        "-",
        "What shares a fold: chips in one block of ground; nothing (random); scenes whose names "
        "agree in `group`; or as `file` says.",
    )
    block_m: float = setting(
        500.0, "metres", "Side of the square of ground whose chips share a fold.", ge=1, le=1e7
    )
    group: Text | None = setting(
        None,
        "regular expression",
        "Searched in the names of scenes; the same match (or first group) makes one group.",
        max_length=1000,
    )
    file: Path | None = setting(
        None,
        "path",
        "CSV with the columns name (of a chip or scene) and fold, from 0; or a folds.json.",
        strict=False,
    )
    seed: int = setting(0, "-", "Decides which block goes to which fold.", ge=0, le=LARGEST_SEED)

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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a later Python may read it otherwise
                re.compile(self.group or "")
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"group: expected a regular expression ({error})") from error
        return self


class PredictConfig(Section):
    """Inference."""

    scenes: Literal["validation", "all"] = setting(
        "validation", "-", "Scenes of the run to predict: those with validation chips, or all."
    )
    window_px: int = setting(
        512, "pixels", "Side of the windows; a multiple of 32.", ge=64, multiple_of=32, le=16_384
    )
    overlap_px: int = setting(
        128, "pixels", "Overlap of neighbouring windows, blended smoothly.", ge=0, le=8192
    )
    batch_size: int = setting(
        4,
        "windows",
        "Windows predicted at once, at most; fewer where scenes are small.",
        ge=1,
        le=65_536,
    )
    engine: Literal["auto", "eager", "inductor", "int8", "openvino", "onnx"] = setting(
        "auto",
        "-",
        "What runs the network; auto takes the fastest that is ready and was found accurate.",
    )
    tta: bool = setting(
        default=False,
        unit="-",
        description="Average over the eight turns and flips; 8 times slower.",
    )
    gsd: Literal["strict", "auto"] = setting(
        "strict",
        "-",
        "Pixels more than 20 % off the size that the network was trained on: strict refuses them, "
        "auto resamples them as they are read.",
    )
    mask: bool = setting(default=False, unit="-", description="Also write road_masks/<scene>.tif.")

    @model_validator(mode="after")
    def _overlap_fits(self) -> "PredictConfig":
        if self.overlap_px > self.window_px // 2:
            raise ValueError(
                f"overlap_px: expected at most half of window_px ({self.window_px // 2})"
            )
        return self


class QuantizeConfig(Section):
    """Quantisation to INT8, and how accurate it has to be."""

    windows: int = setting(
        64, "windows", "Windows of training chips to calibrate on.", ge=1, le=1_000_000
    )
    min_mask_iou: float = setting(
        0.97, "IoU", "Least IoU of its masks with those of the network itself.", ge=0, le=1
    )
    max_f1_loss: float = setting(
        0.005, "F1", "Most that the pixel F1 on the fold held out may fall.", ge=0, le=1
    )
    max_apls_loss: float = setting(
        0.02, "APLS", "Most that the APLS on the fold held out may fall.", ge=0, le=1
    )


class GraphConfig(Section):
    """From probabilities to the road graph."""

    threshold: float = setting(
        0.4, "probability", "Road where the probability is at least this.", gt=0, lt=1
    )
    close_m: float = setting(
        0.0, "metres", "Cracks and notches in roads up to this wide are closed.", ge=0, le=1000
    )
    min_blob_m2: float = setting(30.0, "m2", "Smaller patches of road are removed.", ge=0, le=1e9)
    min_hole_m2: float = setting(30.0, "m2", "Smaller holes in roads are filled.", ge=0, le=1e9)
    min_spur_m: float = setting(12.0, "metres", "Shorter dead ends are pruned.", ge=0, le=100_000)
    merge_nodes_m: float = setting(
        4.0, "metres", "Junctions joined by an edge shorter than this become one.", ge=0, le=1000
    )
    max_gap_m: float = setting(
        25.0,
        "metres",
        "Longest gap across which a dead end is linked to the road ahead.",
        ge=0,
        le=1000,
    )
    max_turn_deg: float = setting(
        60.0, "degrees", "A link turns off the road by less than this at either end.", gt=0, le=180
    )
    min_link_probability: float = setting(
        0.0, "probability", "Lowest mean probability along a link; masks know none.", ge=0, le=1
    )
    min_component_m: float = setting(
        20.0, "metres", "Connected pieces with less road than this are dropped.", ge=0, le=1e7
    )
    neat: bool = setting(
        default=False,
        unit="-",
        description="Draw dual carriageways as one road and roundabouts as one junction "
        "(roadseg[neat]).",
    )
    simplify_m: float = setting(
        0.5, "metres", "How far a line may move when simplified.", ge=0, le=1000
    )
    default_speed_mph: float = setting(
        25.0, "mph", "Speed of edges for which the probabilities show none.", ge=0.1, le=1000
    )
    join_m: float = setting(
        5.0,
        "metres",
        "How far apart road ends of touching scenes may be to be joined into one network; "
        "0 joins no scenes.",
        ge=0,
        le=1000,
    )
    block_px: int = setting(
        4096,
        "pixels",
        "Side of the blocks in which scenes are read; decides memory.",
        ge=256,
        le=65_536,
    )
    formats: tuple[GraphFormat, ...] = setting(
        ("gpkg", "geojson", "graphml"),
        "-",
        "Files to write of each graph: gpkg, geojson, graphml, parquet, osm, csv (SpaceNet's).",
        min_length=1,
        max_length=100,
        fail_fast=True,
    )

    @model_validator(mode="after")
    def _gpkg_is_written(self) -> "GraphConfig":
        if "gpkg" not in self.formats:
            raise ValueError('formats: expected "gpkg" among them, as evaluate reads it')
        return self


class TuneConfig(Section):
    """The search for better settings of the graph."""

    trials: int = setting(
        40, "trials", "Settings to try, those given among them.", ge=1, le=100_000
    )
    seed: int = setting(0, "-", "Decides how the trials are spread.", ge=0, le=LARGEST_SEED)


class EvaluateConfig(Section):
    """Metrics on the validation fold."""

    spacing_m: float = setting(
        50.0, "metres", "APLS: distance of control points.", ge=0.1, le=100_000
    )
    snap_m: float = setting(
        4.0, "metres", "APLS: how far a control point may snap.", ge=0.001, le=1000
    )
    pictures: int = setting(
        12, "scenes", "Scenes of which a picture is drawn, at most.", ge=0, le=100_000
    )


class ReportConfig(Section):
    """The page that shows a run."""

    max_mb: float = setting(
        25.0,
        "MB",
        "Most that the file may have; pictures are made smaller until it fits.",
        ge=0.1,
        le=10_000,
    )


class ComputeConfig(Section):
    """Where the work is done; no stage is repeated when this changes."""

    device: Literal["auto", "cpu", "cuda", "rocm", "xpu", "hpu", "mps"] = setting(
        "auto", "-", "Where networks run."
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto", "-", "bf16, fp16: mixed precision; auto takes it where the device is fast at it."
    )
    backend: Literal["native", "ipex"] = setting(
        "native", "-", "On CPUs: PyTorch alone, or Intel's archived extension (roadseg[ipex])."
    )
    compile: bool = setting(
        default=False, unit="-", description="Compile the network first; pays in long runs."
    )
    compile_mode: Literal["default", "reduce-overhead", "max-autotune"] = setting(
        "default",
        "-",
        "With compile: reduce-overhead replays CUDA graphs, max-autotune tries more kernels.",
    )
    tf32: bool = setting(
        default=True,
        unit="-",
        description="On GPUs that have it: fp32 with products rounded to TF32.",
    )
    cudnn_benchmark: bool = setting(
        default=False,
        unit="-",
        description="On GPUs: try the algorithms for a new size of windows and take the fastest.",
    )
    save_minutes: float = setting(
        5.0,
        "minutes",
        "An epoch under way is kept so often, to go on from after a crash.",
        ge=0,
        le=1e6,
    )
    wait_minutes: float = setting(
        30.0,
        "minutes",
        "Processes that train together end if one does not answer so long.",
        gt=0,
        le=10_000,
    )
    workers: int = setting(
        1,
        "processes",
        "Processes that prepare or predict scenes, or read ahead in training.",
        ge=0,
        le=1024,
    )
    scheduler: Text | None = setting(
        None, "address", "Dask scheduler, such as tcp://host:8786, for preparing and predicting."
    )
    scheduler_timeout_s: float = setting(
        60.0,
        "seconds",
        "How long a scheduler may take to answer, and be without workers.",
        gt=0,
        le=100_000,
    )
    on_error: Literal["stop", "skip"] = setting(
        "stop", "-", "What to do about a scene that cannot be used: stop, or skip and list it."
    )

    @property
    def where(self) -> dict[str, Any]:
        """Return where work on many items is done, as the options of `cluster.each`."""
        return self.model_dump(include={"workers", "scheduler", "scheduler_timeout_s"})


class Config(Section):
    """Everything a run depends on, apart from the data."""

    run: Path = setting(
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
    quantize: QuantizeConfig = QuantizeConfig()
    graph: GraphConfig = GraphConfig()
    tune: TuneConfig = TuneConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    report: ReportConfig = ReportConfig()
    compute: ComputeConfig = ComputeConfig()
