"""Recipe: all that decides which weights a training ends with, apart from the data."""

import logging
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from roadseg.learn.network.checkpoints import checkpoint_path
from roadseg.learn.network.losses import LossWeights
from roadseg.learn.network.pretrained import names_file
from roadseg.learn.options import TrainConfig
from roadseg.system.fingerprints import fingerprint

Kind = Literal["turns", "warp", "colour"]  # of augmentation

BestBy = Literal["loss", "cldice"]  # of an epoch, on the windows held out

KINDS: tuple[Kind, ...] = ("turns", "warp", "colour")

_MAY_CHANGE = ("epochs", "patience")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a network is made and trained.

    Attributes:
        architecture: name in segmentation-models.
        encoder: name in segmentation-models.
        encoder_weights: name of pretrained weights or a local file; None starts from scratch.
        init: checkpoint of another training to start from, None for none.
        window_px: side of the windows, a multiple of 32.
        windows_per_chip: training windows drawn from each chip an epoch.
        road_share: share of the windows that are placed on a road.
        augment: kinds of random changes of the windows: turns, warp, colour.
        batch_size: windows whose gradients a process computes at once.
        accumulate: batches whose gradients are added up for a step.
        epochs: passes over the chips.
        patience: stop when no epoch has been better for so many.
        best_by: which epoch is best: the one with the lowest loss, or with the highest clDice.
        optimizer: adam, adamw or sgd.
        learning_rate: the highest.
        weight_decay: of the optimizer.
        momentum: of sgd.
        schedule: step (drops after milestones) or cosine (down to 0 at the end).
        warmup_steps: first steps, over which the learning rate rises.
        lr_milestones: epochs after which the learning rate drops.
        lr_gamma: it drops by this factor.
        clip_norm: largest norm of the gradient.
        loss: weights of the terms of the loss.
        ema: decay of the moving average of the weights, which is then what is kept; or None.
        seed: decides first weights, windows and augmentation.
    """

    architecture: str = "unet"
    encoder: str = "resnet34"
    encoder_weights: str | None = None
    init: Path | None = None
    window_px: int = 512
    windows_per_chip: int = 8
    road_share: float = 0.75
    augment: tuple[Kind, ...] = KINDS
    batch_size: int = 8
    accumulate: int = 1
    epochs: int = 30
    patience: int = 8
    best_by: BestBy = "loss"
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 3e-4
    weight_decay: float = 0.0
    momentum: float = 0.9
    schedule: Literal["step", "cosine"] = "step"
    warmup_steps: int = 0
    lr_milestones: tuple[int, ...] = (20, 25)
    lr_gamma: float = 0.2
    clip_norm: float = 1.0
    loss: LossWeights = field(default_factory=LossWeights)
    ema: float | None = None
    seed: int = 0

    def first_weights(self) -> dict[str, str]:
        """Tell the weights that training starts from, by the settings that name them.

        Files count by what they hold, wherever they lie; see `fingerprint`.
        """
        weights = self.encoder_weights
        is_file = weights is not None and names_file(weights)
        return {
            "init": fingerprint(checkpoint_path(self.init, "best")) if self.init else "none",
            "encoder_weights": fingerprint(Path(weights)) if weights and is_file else str(weights),
        }

    def fixed(self) -> dict[str, Any]:
        """Return as JSON values what has to stay as it is while a training goes on.

        More epochs may be asked for later, unless the learning rate is planned to the end.
        """
        fields = asdict(self) | {"init": self.init and str(self.init)}
        if self.schedule == "step":
            return {key: value for key, value in fields.items() if key not in _MAY_CHANGE}
        return {key: value for key, value in fields.items() if key != "patience"}


_log = logging.getLogger(__name__)


def recipe_of(train: TrainConfig) -> Recipe:
    """Return what decides about the weights of a network."""
    settings = train.model_dump(exclude={"loss", "distributed", "tensorboard"})
    return Recipe(**settings, loss=LossWeights(**train.loss.model_dump()))
