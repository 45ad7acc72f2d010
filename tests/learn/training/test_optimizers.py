"""The optimizer and the norm of the gradient."""

import pytest
import torch
from torch import nn

from roadseg.learn.training.trainer import build_optimizer, clip_gradients


def ones():
    return nn.Parameter(torch.ones(2, 2))


def test_the_optimizer_is_torchs_fused_adam(cpu):
    optimizer = build_optimizer([ones()], rate=0.25, device=cpu)
    assert type(optimizer) is torch.optim.Adam
    assert (optimizer.defaults["fused"], optimizer.defaults["lr"]) == (True, 0.25)


@pytest.mark.parametrize(("norm", "left"), [(0.99, 0.99), (1.01, 1.0)])
def test_only_a_gradient_above_a_norm_of_1_is_shrunk(cpu, norm, left):
    weights = ones()
    weights.grad = torch.full((2, 2), norm / 2)
    clip_gradients([weights], device=cpu)
    assert float(weights.grad.norm()) == pytest.approx(left, rel=1e-5)
