"""Optimizers: the kinds, their fused form, and the norm of the gradient."""

import pytest
import torch
from torch import nn

from roadseg.learn.options import TrainOptions
from roadseg.learn.training.optimizers import build_optimizer, clip_gradients


def build(device, kind, weights, **options):
    defaults = {"learning_rate": 0.1, "weight_decay": 0.0, "momentum": 0.0}
    options = TrainOptions(optimizer=kind, **(defaults | options))
    return build_optimizer([weights], options, device=device)


def stepped(optimizer, weights, gradient):
    weights.grad = torch.full_like(weights, gradient)
    optimizer.step()
    return float(weights.detach().mean())


def ones():
    return nn.Parameter(torch.ones(2, 2))


@pytest.mark.parametrize(
    ("kind", "class_"),
    [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)],
)
def test_every_kind_is_torchs_own_fused(cpu, kind, class_):
    optimizer = build(cpu, kind, ones(), learning_rate=0.25)
    assert type(optimizer) is class_
    assert (optimizer.defaults["fused"], optimizer.defaults["lr"]) == (True, 0.25)


def test_sgd_keeps_going_with_its_momentum(cpu):
    weights = ones()
    optimizer = build(cpu, "sgd", weights, momentum=0.5)
    assert stepped(optimizer, weights, 1.0) == pytest.approx(1 - 0.1)
    assert stepped(optimizer, weights, 0.0) == pytest.approx(1 - 0.1 - 0.05)


def test_adamw_decays_weights_without_a_gradient(cpu):
    weights = ones()
    assert stepped(build(cpu, "adamw", weights, weight_decay=0.5), weights, 0.0) == pytest.approx(
        1 - 0.1 * 0.5
    )


def test_adam_counts_the_decay_as_gradient(cpu):
    weights = ones()
    assert stepped(build(cpu, "adam", weights, weight_decay=0.5), weights, 0.0) == pytest.approx(
        1 - 0.1
    )


@pytest.mark.parametrize(("max_norm", "left"), [(1.99, 1.99), (2.01, 2.0)])
def test_only_a_gradient_above_the_norm_is_shrunk(cpu, max_norm, left):
    weights = ones()
    weights.grad = torch.ones(2, 2)  # its norm is 2
    clip_gradients([weights], max_norm, device=cpu)
    assert float(weights.grad.norm()) == pytest.approx(left, rel=1e-5)
