"""Losses: weighted terms over speed bins and any road, blind where the mask says ignore.

Every term is a ratio of sums over valid pixels. `loss_sums` takes the sums of a batch, which may
be added to those of other batches and processes; `loss_of` makes the loss of them.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from roadseg.learn.options import LossOptions
from roadseg.roads.masks.burning import BACKGROUND, IGNORE

_EPSILON = 1e-5  # Keeps the ratios of an empty batch defined.
_SURELY_RIGHT = -1e4  # Logit of the wrong answer at an ignored pixel: nothing is wrong there.

# The sums that each term is made of, in the order in which `loss_sums` returns them.
_SUMS = {
    "focal": ("focal", "focal_pixels"),
    "bce": ("entropy", "entropy_pixels"),
    "dice": ("shared", "predicted_and_road"),
}


def loss_sums(logits: Tensor, masks: Tensor, *, weights: LossOptions) -> Tensor:
    """Return the sums over valid pixels that the loss is made of.

    Args:
        logits: shape (n, bins + 1, row, col), any float type; the last channel is any road.
        masks: uint8, shape (n, row, col): 0 background, 1..bins speed bin, 255 ignore.
        weights: which terms there are; how many sums are returned depends on them alone.

    Returns:
        Shape (k,), float32; float64 if the logits are.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    with torch.autocast(logits.device.type, enabled=False):
        focal, entropy, predicted, shared = _PointSums.apply(logits, masks, weights).unbind()
        valid = (masks != IGNORE).sum().to(logits.dtype)
        sums = {
            "focal": focal,
            "focal_pixels": valid,
            "entropy": entropy,
            "entropy_pixels": valid,
            "shared": shared,
            "predicted_and_road": predicted + 2 * _is_road(masks).sum(),
        }
        return torch.stack([sums[name] for name in _sum_names(weights)])


def loss_of(sums: Tensor, *, weights: LossOptions) -> Tensor:
    """Return the loss, a differentiable scalar; its terms are 0 where no pixel was valid.

    Args:
        sums: of `loss_sums` with the same weights, or several of them added up.
    """
    each = dict(zip(_sum_names(weights), sums.unbind(), strict=True))
    loss = sums.new_zeros(())
    if weights.focal:
        loss = loss + weights.focal * each["focal"] / each["focal_pixels"].clamp(min=1)
    if weights.bce:
        loss = loss + weights.bce * each["entropy"] / each["entropy_pixels"].clamp(min=1)
    if weights.dice:
        shared, whole = 2 * each["shared"] + _EPSILON, each["predicted_and_road"] + _EPSILON
        loss = loss + weights.dice * (1 - shared / whole)
    return loss


def _sum_names(weights: LossOptions) -> list[str]:
    return [name for term, names in _SUMS.items() if getattr(weights, term) for name in names]


class _PointSums(torch.autograd.Function):
    """Sums over pixels and channels: focal loss, entropy, probability, probability on roads.

    The first two are divided by the number of channels. The gradient is written by hand, from
    the logits alone: autograd would keep seven planes of their size, and the time goes into
    memory, not into arithmetic.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, masks: Tensor, weights: LossOptions) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(logits, masks)
        ctx.weights = weights
        return torch.stack([_sums_of(*piece, weights) for piece in _pieces(logits, masks)]).sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401
        logits, masks = ctx.saved_tensors
        parts = [_gradient_of(*piece, slopes, ctx.weights) for piece in _pieces(logits, masks)]
        return torch.cat(parts), None, None


def _pieces(logits: Tensor, masks: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut a batch into windows, which fit into a CPU's cache; other devices take it whole."""
    size = 1 if logits.device.type == "cpu" else len(logits)
    return zip(torch.split(logits, size), torch.split(masks, size), strict=True)


def _sums_of(logits: Tensor, masks: Tensor, weights: LossOptions) -> Tensor:
    """Return the sums of `_PointSums`; those that no term needs are 0."""
    sign, wrong = _wrong_answers(logits, masks)
    focal = entropy = predicted = shared = wrong.new_zeros(())
    surprise = functional.softplus(wrong) if weights.focal or weights.bce else wrong
    if weights.bce:
        entropy = surprise.sum() / logits.shape[1]
    wrongness = wrong.sigmoid()
    if weights.focal:
        focal = surprise.mul_(wrongness).mul_(wrongness).sum() / logits.shape[1]
    if weights.dice:
        wanted = 2 * _is_road(masks).sum()
        beside, balance = wrongness.sum(), sign.mul_(wrongness).sum()
        predicted, shared = wanted + balance, wanted - (beside - balance) / 2
    return torch.stack([focal, entropy, predicted, shared])


def _gradient_of(logits: Tensor, masks: Tensor, slopes: Tensor, weights: LossOptions) -> Tensor:
    """Return the gradient of the sums of `_PointSums`, each times its slope.

    With w the probability of the wrong answer and e = -log(1 - w), the derivatives by the logit
    of the wrong answer are w (1 - w), w for e, and w^2 (w + 2 e (1 - w)) for the focal e w^2.
    """
    focal, entropy, predicted, shared = slopes.unbind()
    sign, wrong = _wrong_answers(logits, masks)
    wrongness = wrong.sigmoid()
    rightness = 1 - wrongness
    if weights.focal:
        surprise = functional.softplus(wrong)
        slope = torch.addcmul(wrongness, rightness, surprise, value=2, out=surprise)
        slope.mul_(wrongness).mul_(focal / logits.shape[1])
    else:
        slope = torch.zeros_like(wrong)
    if weights.bce:
        slope.add_(entropy / logits.shape[1])
    slope.mul_(sign)
    if weights.dice:
        slope.addcmul_(rightness, sign.mul_(-shared / 2).add_(predicted + shared / 2))
    return slope.mul_(wrongness)


def _wrong_answers(logits: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
    """Return -1 where a channel is true, else 1; and the logits of the wrong answers.

    Returns:
        Two tensors of the shape of `logits`; ignored pixels are background that is surely right.
    """
    numbers = torch.arange(1, logits.shape[1], device=logits.device)
    table = logits.new_ones(IGNORE + 1, logits.shape[1])
    table[numbers, numbers - 1] = table[numbers, -1] = -1
    sign = functional.embedding(masks.int(), table).permute(0, 3, 1, 2)
    wrong = logits * sign
    return sign, wrong.masked_fill_((masks == IGNORE).unsqueeze(1), _SURELY_RIGHT)


def _is_road(masks: Tensor) -> Tensor:
    return (masks != BACKGROUND) & (masks != IGNORE)
