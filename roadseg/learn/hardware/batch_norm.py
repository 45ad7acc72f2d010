"""Batch norm of a batch that several processes share: mean and variance over all its windows."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from roadseg.learn.hardware.distributed import Parallel

_aten = torch.ops.aten


class SharedBatchNorm(TorchFunctionMode):
    """Context in which batch norm that trains normalises by the windows of all processes.

    Processes with parts of one batch then compute what one process would with the whole of it, up
    to rounding, and keep the same running statistics. torch's SyncBatchNorm does the same, but not
    on CPUs, and not for the subclasses of batch norm that encoders have.
    """

    def __init__(self, parallel: "Parallel") -> None:
        """Share over these processes."""
        super().__init__()
        self._parallel = parallel

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function returns
        """Replace batch norm that trains; call all else as it is."""
        if func is functional.batch_norm:
            return _batch_norm(self._parallel, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _batch_norm(  # noqa: PLR0917 - as torch's
    parallel: "Parallel",
    images: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,  # noqa: FBT001, FBT002
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise as torch.nn.functional.batch_norm, in training by the windows of all processes."""
    if not training:
        return functional.batch_norm(
            images, running_mean, running_var, weight, bias, training, momentum, eps
        )
    mean, var, count = _statistics(images.detach(), parallel)
    if running_mean is not None and running_var is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        unbiased = var * (count / (count - 1).clamp(min=1))
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    normalised: Tensor = _Normalise.apply(images, weight, bias, mean, var, count, eps, parallel)
    return normalised


def _statistics(images: Tensor, parallel: "Parallel") -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance of each channel, and the number of values, over all processes."""
    # Running statistics in float32 make the kernel return its own in float32 as well.
    unused = torch.zeros(2, images.shape[1], device=images.device)
    mean, var = _aten.batch_norm_update_stats(images, *unused, 0.0)
    values = images.numel() / images.shape[1]
    mine = torch.cat([mean, var, mean.new_tensor([values])])
    parts = [torch.empty_like(mine) for _ in range(parallel.size)]
    dist.all_gather(parts, mine, group=parallel.group_of(mine))
    table = torch.stack(parts)
    counts, channels = table[:, -1:], len(mean)
    total = counts.sum()
    means, variances = table[:, :channels], table[:, channels:-1]
    mean = (counts * means).sum(0) / total
    return mean, (counts * (variances + (means - mean) ** 2)).sum(0) / total, total


class _Normalise(torch.autograd.Function):
    """Normalisation by given statistics, with the gradients of shared batch norm."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes them by position
        ctx: Any,  # noqa: ANN401
        images: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        count: Tensor,
        eps: float,
        parallel: "Parallel",
    ) -> Tensor:
        """Normalise images, shape (n, channel, ...)."""
        ctx.save_for_backward(images, weight, mean, var, count)
        ctx.eps, ctx.parallel = eps, parallel
        return functional.batch_norm(images, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the gradients by images, weight and bias.

        The kernel of batch norm in evaluation gives those with fixed statistics: a CPU takes them
        as running statistics, CUDA in some memory layouts as saved ones. What the statistics add
        needs the sums over all processes.
        """
        images, weight, mean, var, count = ctx.saved_tensors
        inverse = (var + ctx.eps).rsqrt()
        of_statistics, in_training = (mean, var, mean, inverse), False
        by_images, by_weight, by_bias = _aten.native_batch_norm_backward(
            slopes, images, weight, *of_statistics, in_training, ctx.eps, [True, True, True]
        )
        total = ctx.parallel.sum(torch.stack([by_bias, by_weight])) / count
        scale = inverse if weight is None else inverse * weight
        slope = scale * inverse * total[1]
        offset = scale * total[0] - slope * mean
        shape = [1, -1] + [1] * (images.dim() - 2)
        by_images -= torch.addcmul(offset.view(shape), images, slope.view(shape)).to(images.dtype)
        by_weight = by_weight if ctx.needs_input_grad[1] else None
        by_bias = by_bias if ctx.needs_input_grad[2] else None
        return by_images, by_weight, by_bias, None, None, None, None, None
