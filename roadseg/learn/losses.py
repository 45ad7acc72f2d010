"""Losses: focal and soft dice over speed bins and any road, blind where the mask says ignore."""

import torch
from torch import Tensor
from torch.nn import functional

from roadseg.core.masks import IGNORE

_EPSILON = 1e-5  # keeps the dice of an empty batch defined


def road_loss(
    logits: Tensor, mask: Tensor, *, focal: float = 0.75, dice: float = 0.25, gamma: float = 2.0
) -> Tensor:
    """Return the weighted sum of focal and dice loss, in float32.

    Source: CRESI (SpaceNet 5), whose mask knows no ignored pixels.

    Args:
        logits: shape (n, bins + 1, row, col), any float type.
        mask: uint8, shape (n, row, col): 0 background, 1..bins speed bin, 255 ignore.
        focal: weight of the focal loss.
        dice: weight of the dice loss.
        gamma: how strongly the focal loss looks away from pixels that are already right.
    """
    logits, wanted = logits.float(), targets(mask, bins=logits.shape[1] - 1)
    valid = (mask != IGNORE).unsqueeze(1).float()
    of_focal = focal_loss(logits, wanted, valid, gamma=gamma)
    return focal * of_focal + dice * dice_loss(logits, wanted, valid)


def targets(mask: Tensor, *, bins: int) -> Tensor:
    """Return what the network should say: a 0/1 float plane for each speed bin and any road.

    Args:
        mask: uint8, shape (n, row, col): 0 background, 1..bins speed bin, 255 ignore.
        bins: number of speed bins.

    Returns:
        Shape (n, bins + 1, row, col), channels_last; all 0 at ignored pixels.
    """
    numbers = torch.arange(1, bins + 1, dtype=mask.dtype, device=mask.device)
    each = mask.unsqueeze(-1) == numbers
    return torch.cat([each, each.any(-1, keepdim=True)], dim=-1).permute(0, 3, 1, 2).float()


def focal_loss(logits: Tensor, wanted: Tensor, valid: Tensor, *, gamma: float) -> Tensor:
    """Return the mean focal loss over valid pixels and channels; 0 if no pixel is valid.

    Source: Lin et al., Focal Loss for Dense Object Detection, 2017 (without its alpha).
    """
    entropy = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    wrongness = -torch.expm1(-entropy)  # 1 - probability given to the truth
    total = (entropy * wrongness**gamma * valid).sum()
    return total / (valid.sum() * logits.shape[1]).clamp(min=1)


def dice_loss(logits: Tensor, wanted: Tensor, valid: Tensor) -> Tensor:
    """Return 1 - soft dice, summed over the whole batch and all channels."""
    probability = logits.sigmoid() * valid
    shared = 2 * (probability * wanted).sum()
    return 1 - (shared + _EPSILON) / (probability.sum() + wanted.sum() + _EPSILON)
