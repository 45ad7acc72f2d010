"""Options of learning: of training, of inference and its INT8 engines, and of devices."""

from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, model_validator

from roadseg.options import LARGEST_SEED, Section, Text, setting
from roadseg.raster.windows import fitting_window
from roadseg.system.units import Units

Kind = Literal["turns", "warp", "colour"]  # Kinds of augmentation.

KINDS: tuple[Kind, ...] = ("turns", "warp", "colour")

MINUTE_S = 60.0
WINDOW_MULTIPLE = 32  # Sides of windows are multiples of it: encoders halve them five times.
_LARGEST_PX = 1024  # Side of the largest windows that are chosen for a scene.
_Channels = Annotated[int, Field(ge=1, le=4096)]


def round_side(side_px: float) -> int:
    """Return the possible side of a window that is nearest to a side."""
    return max(2, round(side_px / WINDOW_MULTIPLE)) * WINDOW_MULTIPLE


class LossOptions(Section):
    """Weights of the terms of the loss; 0 omits a term."""

    retired = MappingProxyType({"cldice": 0.0, "bootstrap": 0.0, "skeleton_recall": 0.0})
    focal: float = setting(
        0.0, "weight", "Focal loss: per pixel, with more weight on difficult ones.", ge=0, le=1e6
    )
    dice: float = setting(0.5, "weight", "Soft dice loss: overlap with the roads.", ge=0, le=1e6)
    bce: float = setting(
        0.5, "weight", "Binary cross entropy: per pixel, with equal weight.", ge=0, le=1e6
    )

    @model_validator(mode="after")
    def _some_term(self) -> "LossOptions":
        if not any(self.model_dump().values()):
            raise ValueError("loss: expected a weight above 0 for at least one term")
        return self


class TrainOptions(Section):
    """The network and its training."""

    retired = MappingProxyType(
        {
            "road_share": 0.75,
            "best_by": "loss",
            "optimizer": "adam",
            "weight_decay": 0.0,
            "momentum": 0.9,
            "clip_norm": 1.0,
            "lr_gamma": 0.2,
            "lr_milestones": [20, 25],
            "ema": None,
            "accumulate": 1,
            "tensorboard": False,
            "patience": 8,
            "distributed": {
                "hierarchy": None,
                "warmup_steps": 0,
                "bucket_mb": 25.0,
                "gradient_as_bucket_view": True,
            },
        }
    )
    architecture: Text = setting("unet", "-", "Architecture, by its segmentation-models name.")
    encoder: Text = setting(
        "tu-tf_efficientnet_lite0",
        "-",
        "Encoder, by its segmentation-models name.",
    )
    decoder_channels: tuple[_Channels, ...] | None = setting(
        (128, 64, 32, 16),
        "channels",
        "Channels of the five levels of the decoder, from coarse to fine, for the architectures "
        "unet, unetplusplus and manet; null: those of segmentation-models, from 256 to 16. With "
        "four levels, a unet ends at half the resolution and its logits are enlarged.",
        min_length=4,
        max_length=5,
    )
    encoder_weights: Text | None = setting(
        "auto",
        "name or path",
        'First weights. "starter": the whole network that comes with roadseg; "imagenet": of the '
        'encoder, from an installed package, the cache, or a download; "auto": the starter if the '
        "network has its architecture, encoder, decoder and bands, else imagenet, else random "
        "ones with a warning; a file of torchvision, timm or roadseg: of the encoder; null: "
        "random, which needs several times as many epochs.",
    )
    init: Path | None = setting(
        None,
        "path",
        "Checkpoint folder of another run, from whose weights this training starts.",
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
        "Windows per chip and epoch, multiplied by the weight of the set. Below 1, each epoch "
        "covers a part of the chips, and the next one continues with the rest.",
        gt=0,
        le=10**6,
    )
    augment: tuple[Kind, ...] = setting(
        KINDS,
        "-",
        "Random changes of the windows. turns: right angles and flips; warp: rotation and "
        "scale; colour: brightness and hue.",
        max_length=100,
        fail_fast=True,
    )
    batch_size: int = setting(
        8,
        "windows",
        "Windows per batch; processes that train together share them.",
        ge=1,
        le=65_536,
    )
    minutes: float | None = setting(
        None,
        "minutes",
        "Time limit for training one fold, by the clock: a busy machine takes fewer steps. A "
        "rehearsal at the start sets epochs, windows_per_chip, validation_windows and "
        "warmup_steps, and overrides the config. null: no limit.",
        ge=0.1,
        le=1e6,
    )
    epochs: int = setting(30, "epochs", "Passes over the chips.", ge=1, le=10**6)
    validation_windows: int | None = setting(
        None,
        "windows",
        "Windows to validate on after each epoch, spread over the held-out chips; null: all.",
        ge=1,
        le=10**9,
    )
    learning_rate: float = setting(1e-3, "-", "Highest learning rate.", gt=0, le=1000)
    schedule: Literal["step", "cosine"] = setting(
        "cosine",
        "-",
        "Learning rate. step: drops to a fifth after epochs 20 and 25, and ends after 8 epochs "
        "without a lower validation loss; cosine: falls as a cosine until the last epoch.",
    )
    warmup_steps: int = setting(
        20, "steps", "Steps over which the learning rate rises.", ge=0, le=10**9
    )
    loss: LossOptions = LossOptions()
    seed: int = setting(
        0,
        "-",
        "Random seed of the first weights, the windows and the augmentation.",
        ge=0,
        le=LARGEST_SEED,
    )

    @property
    def limit_s(self) -> float | None:
        """The time limit in seconds; None without one."""
        return None if self.minutes is None else self.minutes * MINUTE_S


class PredictOptions(Section):
    """Inference."""

    retired = MappingProxyType({"fuse": False})
    scenes: Literal["validation", "all"] = setting(
        "validation", "-", "Scenes of the run to predict: those with held-out chips, or all."
    )
    window_px: int | None = setting(
        None,
        "pixels",
        "Side of the windows; a multiple of 32. null: for each scene the side at which they "
        "cover it with the fewest pixels, at most 1024.",
        ge=64,
        multiple_of=32,
        le=16_384,
    )
    overlap_px: int = setting(
        64, "pixels", "Overlap of neighbouring windows, which are blended.", ge=0, le=8192
    )
    batch_size: int = setting(
        4,
        "windows",
        "Largest number of windows per batch; small scenes use fewer, and so do large windows "
        "where window_px is null.",
        ge=1,
        le=65_536,
    )
    engine: Literal["auto", "eager", "inductor", "openvino"] = setting(
        "auto",
        "-",
        "Software that runs the network; auto: the fastest one that is available and of verified "
        "accuracy.",
    )
    tta: bool = setting(
        default=False,
        unit="-",
        description="Test-time augmentation: average over 4 rotations by right angles; takes 4 "
        "times as long.",
    )
    gsd: Literal["strict", "auto"] = setting(
        "strict",
        "-",
        "Images whose pixel size differs by more than 20 % from that of the training. strict: "
        "refuse them; auto: resample them when they are read.",
    )
    scaling: Literal["strict", "auto"] = setting(
        "strict",
        "-",
        "Images with a pixel type, such as uint16, that the training did not have. strict: "
        "refuse them; auto: stretch each of them between its 2nd and 98th percentiles.",
    )
    mask: bool = setting(
        default=False, unit="-", description="Also write road masks, road_masks/<scene>.tif."
    )

    @model_validator(mode="after")
    def _overlap_fits(self) -> "PredictOptions":
        most = self.largest_px // 2
        if self.overlap_px > most:
            side = f"{self.largest_px} pixels"
            windows = f"window_px ({side})" if self.window_px else f"the largest windows ({side})"
            raise ValueError(
                f"overlap_px: expected at most {most}, half of {windows}, got {self.overlap_px}"
            )
        return self

    @property
    def largest_px(self) -> int:
        """Side of the largest windows."""
        return self.window_px or _LARGEST_PX

    def window_for(self, height: int, width: int, *, enlarged: float = 1) -> int:
        """Return the side of the windows for a scene of this many rows and columns.

        Args:
            enlarged: factor by which the network has them enlarged.
        """
        return self.window_px or fitting_window(
            height,
            width,
            overlap_px=self.overlap_px,
            multiple=WINDOW_MULTIPLE,
            most=round_side(_LARGEST_PX / max(enlarged, 1)),
        )

    def most_at_once(self, window_px: int) -> int:
        """Return the largest batch of windows: where their side is free, as many as fill one."""
        if self.window_px is not None:
            return max(1, int(self.batch_size * min(1, (self.window_px / window_px) ** 2)))
        return max(1, min(self.batch_size, (_LARGEST_PX // window_px) ** 2))


class ComputeOptions(Section):
    """Device, processes and units; changes here never repeat a stage."""

    retired = MappingProxyType(
        {
            "compile_mode": "default",
            "cudnn_benchmark": False,
            "tf32": True,
            "save_minutes": 5.0,
            "wait_minutes": 30.0,
            "scheduler": None,
            "scheduler_timeout_s": 45.0,
        }
    )
    units: Units = setting(
        "metric",
        "-",
        "Units in tables, plots and legends: metric (km, km/h) or miles (mi, mph). Columns of "
        "files and keys of JSON keep their own.",
    )

    device: Literal["auto", "cpu", "cuda", "rocm", "xpu", "hpu", "mps"] = setting(
        "auto", "-", "Device on which networks run."
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto",
        "-",
        "fp32, or mixed precision (bf16, fp16); auto: mixed if the device is fast at it.",
    )
    backend: Literal["native", "ipex"] = setting(
        "native",
        "-",
        "On CPUs. native: PyTorch alone; ipex: Intel's archived extension (roadseg[ipex]).",
    )
    compile: bool = setting(
        default=False,
        unit="-",
        description="Compile the network before use, which pays off in long runs.",
    )
    workers: int = setting(
        1,
        "processes",
        "Processes that work on scenes, or read ahead in training (for accelerators at least 4); "
        "0: none.",
        ge=0,
        le=1024,
    )
    on_error: Literal["stop", "skip"] = setting(
        "stop", "-", "What to do with an unusable scene: stop, or skip and list it."
    )
