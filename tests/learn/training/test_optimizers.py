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


@pytest.mark.parametrize(("max_norm", "left"), [(1.99, 1.99), (2.01, 2.0)])
def test_only_a_gradient_above_the_norm_is_shrunk(cpu, max_norm, left):
    weights = ones()
    weights.grad = torch.ones(2, 2)  # its norm is 2
    clip_gradients([weights], max_norm=max_norm, device=cpu)
    assert float(weights.grad.norm()) == pytest.approx(left, rel=1e-5)
