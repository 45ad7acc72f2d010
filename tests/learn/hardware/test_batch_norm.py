"""Batch norm that processes share, here in a group of one, beside that of torch."""

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from roadseg.learn.hardware.batch_norm import SharedBatchNorm
from roadseg.learn.hardware.distributed import Parallel

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
LAYOUTS = [torch.contiguous_format, torch.channels_last]


@pytest.fixture
def alone():
    """Join a group of this process alone."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    yield Parallel()
    dist.destroy_process_group()


class AsCuda(TorchDispatchMode):
    """Kernels that refuse what those of CUDA do: gradients without saved statistics."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.native_batch_norm_backward.default:
            saved_mean, saved_inverse = args[5:7]
            assert saved_mean is not None
            assert saved_inverse is not None
        return func(*args, **(kwargs or {}))


def normalised(*, place="cpu", dtype=torch.float32, layout=torch.contiguous_format):
    """Return values, gradients and running statistics of batch norm in training."""
    torch.manual_seed(0)
    images = (3 * torch.randn(4, 6, 8, 8) + 1).to(place, dtype, memory_format=layout)
    images.requires_grad_()
    weight, bias = (torch.rand(6).to(place).requires_grad_() for _ in range(2))
    mean, var = torch.zeros(6, device=place), torch.ones(6, device=place)
    slopes = torch.randn(4, 6, 8, 8).to(place, dtype, memory_format=layout)
    values = functional.batch_norm(images, mean, var, weight, bias, training=True)
    values.backward(slopes)
    return [values.detach(), images.grad, weight.grad, bias.grad, mean, var]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("place", ["cpu", pytest.param("cuda", marks=GPU)])
def test_a_process_alone_normalises_as_torch_does(alone, place, dtype, layout):
    expected = normalised(place=place, dtype=dtype, layout=layout)
    with SharedBatchNorm(alone):
        found = normalised(place=place, dtype=dtype, layout=layout)
    within = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 0.02, "atol": 0.1}
    for mine, torchs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, torchs, **within)


def test_the_kernels_of_cuda_are_given_what_they_ask_for(alone):
    with SharedBatchNorm(alone), AsCuda():
        assert all(value.isfinite().all() for value in normalised())
