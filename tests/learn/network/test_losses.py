"""Losses: their values against plain formulas, their gradients, and what they ignore."""

import math

import numpy as np
import pytest
import torch

from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.options import LossOptions

TERMS = ("focal", "dice", "bce")
NONE = dict.fromkeys(TERMS, 0.0)
ALL = LossOptions(focal=0.3, dice=0.2, bce=0.1)


def only(term):
    return LossOptions(**NONE | {term: 1.0})


def loss(logits, masks, weights):
    return loss_of(loss_sums(logits, masks, weights=weights), weights=weights)


def mask_of(*values):
    return torch.tensor(values, dtype=torch.uint8).view(1, 1, -1)


def random_batch(n=2, *, bins=3, size_px=12, dtype=torch.float32):
    """Draw logits, and masks with all values."""
    generator = torch.Generator().manual_seed(0)
    shape = (n, size_px, size_px)
    logits = torch.randn(n, bins + 1, size_px, size_px, generator=generator, dtype=dtype) * 2
    masks = torch.randint(-1, bins + 1, shape, generator=generator).to(torch.uint8)
    return logits, masks


def certain(masks, bins, size=50.0):
    """Return the logits of a network that is right and sure of it."""
    planes = [masks == number for number in range(1, bins + 1)]
    planes.append((masks > 0) & (masks < 255))
    return (torch.stack(planes, dim=1).float() * 2 - 1) * size


def plain(logits, masks):
    """Return probability, what is wanted, and the entropy, of valid pixels, shape (channel, k)."""
    valid = masks.numpy() != 255
    channels = logits.double().numpy().transpose(1, 0, 2, 3)[:, valid]
    values = masks.numpy()[valid]
    wanted = np.stack([values == i for i in range(1, len(channels))] + [values > 0])
    probability = 1 / (1 + np.exp(-channels))
    return probability, wanted, -np.log(np.where(wanted, probability, 1 - probability))


def test_the_focal_loss_is_the_entropy_times_the_square_of_what_is_wrong():
    logits, masks = random_batch()
    _, _, entropy = plain(logits, masks)
    expected = (entropy * (1 - np.exp(-entropy)) ** 2).mean()
    assert loss(logits, masks, only("focal")).item() == pytest.approx(expected, rel=1e-6)


def test_bce_is_the_mean_entropy():
    logits, masks = random_batch()
    expected = plain(logits, masks)[2].mean()
    assert loss(logits, masks, only("bce")).item() == pytest.approx(expected, rel=1e-6)


def test_dice_counts_the_whole_batch_and_all_channels():
    logits, masks = random_batch()
    probability, wanted, _ = plain(logits, masks)
    expected = 1 - 2 * probability[wanted].sum() / (probability.sum() + wanted.sum())
    assert loss(logits, masks, only("dice")).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("bins", [1, 3, 31])
@pytest.mark.parametrize("term", TERMS)
def test_a_perfect_prediction_costs_nothing(term, bins):
    masks = torch.zeros(1, 32, 32, dtype=torch.uint8)
    masks[:, 10:15], masks[:, :4] = bins, 255
    assert loss(certain(masks, bins), masks, only(term)).item() < 1e-5


@pytest.mark.parametrize("term", [*TERMS, "all"])
def test_the_gradient_is_that_of_the_loss(term):
    weights = ALL if term == "all" else only(term)
    logits, masks = random_batch(n=2, bins=2, size_px=5, dtype=torch.float64)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, masks, weights), logits)


def test_the_gradient_lies_in_memory_as_the_logits_do():
    logits, masks = random_batch()
    logits = logits.contiguous(memory_format=torch.channels_last).requires_grad_()
    found = torch.autograd.grad(loss(logits, masks, LossOptions()), logits)[0]
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_the_weights_add_up():
    batch = logits, masks = random_batch()
    parts = [getattr(ALL, t) * loss(logits, masks, only(t)).item() for t in TERMS]
    assert loss(*batch, ALL).item() == pytest.approx(sum(parts), rel=1e-5)


def test_sums_of_parts_of_a_batch_add_up_to_those_of_the_batch():
    batch = random_batch(n=4)
    whole = loss_sums(*batch, weights=ALL)
    parts = [loss_sums(*(b[i : i + 2] for b in batch), weights=ALL) for i in (0, 2)]
    assert torch.allclose(parts[0] + parts[1], whole, rtol=1e-5)


@pytest.mark.parametrize("term", [*TERMS, "all"])
def test_ignored_pixels_change_neither_loss_nor_gradient(term):
    weights = ALL if term == "all" else only(term)
    logits, masks = random_batch()
    other = torch.where((masks == 255).unsqueeze(1), 30.0, logits).requires_grad_()
    found = loss(other, masks, weights)
    found.backward()
    assert found.item() == pytest.approx(loss(logits, masks, weights).item(), rel=1e-6)
    assert other.grad.masked_select((masks == 255).unsqueeze(1)).abs().max() == 0
    assert other.grad.abs().max() > 0


@pytest.mark.parametrize("term", TERMS)
def test_a_batch_without_a_valid_pixel_costs_nothing(term):
    logits = torch.randn(1, 8, 1, 2, requires_grad=True)
    found = loss(logits, mask_of(255, 255), only(term))
    found.backward()
    assert found.item() == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_loss_is_float32_and_stays_finite_for_extreme_logits(dtype):
    masks = torch.tensor([[[3, 0], [0, 255]]], dtype=torch.uint8)
    logits = (-certain(masks, 7, 3e4)).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(logits, masks, ALL)
    found.backward()
    assert found.dtype is torch.float32
    assert torch.isfinite(found)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize(("weights", "sums"), [(LossOptions(), 4), (ALL, 6)])
def test_how_many_sums_there_are_depends_on_the_weights_alone(weights, sums):
    for size_px in (4, 12):
        found = loss_sums(*random_batch(size_px=size_px), weights=weights)
        assert (found.shape, found.dtype) == ((sums,), torch.float32)


@pytest.mark.parametrize(
    "wrong",
    [{}, {"focal": -1.0, "dice": 1.0}, {"bce": math.nan}],
)
def test_weights_that_teach_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=r"above 0|or equal to 0|finite number"):
        LossOptions(**NONE | wrong)
