"""Focal and dice loss: their values at hand-computed points, and what they ignore."""

import math

import pytest
import torch

from roadseg.learn.losses import road_loss, targets


def mask_of(*values):
    return torch.tensor(values, dtype=torch.uint8).view(1, 1, -1)


def certain(mask, size=50.0):
    """Logits of a network that is right and sure of it."""
    return (targets(mask, bins=7) * 2 - 1) * size


def test_targets_are_one_plane_a_bin_and_one_for_any_road():
    planes = targets(mask_of(0, 1, 7, 255), bins=7)[0, :, 0]
    wanted = torch.zeros(8, 4)
    wanted[0, 1] = wanted[6, 2] = wanted[7, 1] = wanted[7, 2] = 1
    assert torch.equal(planes, wanted)


@pytest.mark.parametrize("bins", [2, 31])
def test_there_may_be_any_number_of_bins(bins):
    planes = targets(mask_of(0, bins, 255), bins=bins)[0, :, 0]
    assert planes.shape == (bins + 1, 3)
    assert planes.nonzero().tolist() == [[bins - 1, 1], [bins, 1]]


def test_the_logits_say_how_many_bins_there_are():
    loss = road_loss(torch.zeros(1, 3, 1, 2), mask_of(0, 2), focal=0, dice=1)
    assert loss.item() == pytest.approx(1 - 2 * (2 * 0.5) / (6 * 0.5 + 2), abs=1e-5)


def test_a_perfect_prediction_costs_nothing():
    mask = mask_of(0, 1, 7, 0)
    assert road_loss(certain(mask), mask).item() == pytest.approx(0, abs=1e-6)


def test_focal_loss_of_a_coin_toss_is_a_quarter_of_its_entropy():
    loss = road_loss(torch.zeros(1, 8, 1, 2), mask_of(0, 3), focal=1, dice=0)
    assert loss.item() == pytest.approx(0.25 * math.log(2))


def test_gamma_zero_is_cross_entropy():
    loss = road_loss(torch.zeros(1, 8, 1, 2), mask_of(0, 3), focal=1, dice=0, gamma=0)
    assert loss.item() == pytest.approx(math.log(2))


def test_dice_loss_counts_the_whole_batch_and_all_channels():
    mask = mask_of(0, 3)  # 2 of 16 targets are 1, and half of everything is predicted
    loss = road_loss(torch.zeros(1, 8, 1, 2), mask, focal=0, dice=1)
    assert loss.item() == pytest.approx(1 - 2 * (2 * 0.5) / (16 * 0.5 + 2), abs=1e-5)


def test_the_weights_add_up():
    logits, mask = torch.randn(2, 8, 3, 3), torch.randint(0, 8, (2, 3, 3), dtype=torch.uint8)
    parts = [road_loss(logits, mask, focal=f, dice=d) for f, d in ((0.75, 0), (0, 0.25))]
    assert road_loss(logits, mask).item() == pytest.approx(sum(parts).item())


@pytest.mark.parametrize("weights", [{"focal": 1, "dice": 0}, {"focal": 0, "dice": 1}])
def test_ignored_pixels_change_neither_loss_nor_gradient(weights):
    logits = torch.randn(1, 8, 1, 3, requires_grad=True)
    road_loss(logits, mask_of(3, 0, 255), **weights).backward()
    assert logits.grad[..., 2].abs().max() == 0
    assert logits.grad[..., :2].abs().min() > 0
    alone = road_loss(logits[..., :2], mask_of(3, 0), **weights)
    assert road_loss(logits, mask_of(3, 0, 255), **weights).item() == pytest.approx(alone.item())


def test_a_batch_without_a_valid_pixel_costs_nothing():
    logits = torch.randn(1, 8, 1, 2, requires_grad=True)
    loss = road_loss(logits, mask_of(255, 255))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(logits.grad, torch.zeros_like(logits))


def test_the_loss_is_float32_and_stays_finite_for_extreme_bf16_logits():
    mask = mask_of(3, 0)
    loss = road_loss(-certain(mask, 1e4).bfloat16(), mask)
    assert loss.dtype is torch.float32
    assert torch.isfinite(loss)
