"""Parallel training: processes that share one training, their sums, and batch norm over all."""

import importlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from roadseg.errors import ConfigError, DeviceError, PartnerError, first_line
from roadseg.learn.hardware.devices import Device

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
JOINING = timedelta(minutes=10)  # Time that processes wait until all have started.
PATIENCE = timedelta(minutes=30)  # Time to wait for one that writes or has stopped.
_GROUPS = itertools.count()  # Numbers of the groups that this process joins, one for each training.
_HCCL = "habana_frameworks.torch.distributed.hccl"
_aten = torch.ops.aten


@dataclass(frozen=True)
class Parallel:
    """One of the processes that train a network together; all methods are collective.

    That means that every process calls them, in the same order. In a single process, `Parallel()`,
    they return their arguments, and torch.distributed is not used.

    Attributes:
        rank: number of this process, from 0.
        local_rank: number of this process on its machine.
        control: group for data on the CPU: flags, barriers, and sums of CPU tensors.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    control: "dist.ProcessGroup | None" = field(default=None, repr=False, compare=False)

    @property
    def first(self) -> bool:
        """Whether this process is the first, which logs and writes for all."""
        return self.rank == 0

    def wrap(self, network: nn.Module, *, device: Device) -> nn.Module:
        """Return the network with gradients that are averaged over the processes.

        All processes begin with the weights and buffers of the first one; its buffers are also
        copied at every forward pass that follows an exchange of gradients. Freeze weights before.
        Evaluate and save the original network, because forward passes of the wrapped one
        communicate.
        """
        if self.size == 1:
            return network
        return DistributedDataParallel(
            network,
            device_ids=[torch.cuda.current_device()] if device.type == "cuda" else None,
            gradient_as_bucket_view=True,
        )

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the total over all processes, without gradient."""
        total = tensor.detach()
        if self.size > 1:
            total = total.clone()
            dist.all_reduce(total, group=self.group_of(total))
        return total

    def sum_with_gradient(self, tensor: Tensor) -> Tensor:
        """Return the total over all processes, for a loss that is computed from it.

        Its gradient is multiplied by the number of processes. Because they average their gradients,
        the result is the gradient of the total, as if one process had seen all batches.
        """
        if self.size == 1:
            return tensor
        total: Tensor = _Total.apply(tensor, self)
        return total

    def normalising(self) -> AbstractContextManager[object]:
        """Return a context in which batch norm uses the windows of all processes.

        Otherwise each process would normalise by its own windows, so that the network would depend
        on the number of processes.
        """
        return nullcontext() if self.size == 1 else SharedBatchNorm(self)

    def any(self, flag: bool) -> bool:  # noqa: FBT001 - like the builtin
        """Return whether the flag is set in any process, without waiting for the device."""
        return bool(self.largest(flag)[0])

    def largest(self, *numbers: float) -> list[float]:
        """Return the maximum of each number over all processes, without waiting for the device."""
        if self.size == 1:
            return list(numbers)
        largest = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.control)
        return largest.tolist()

    def wait(self) -> None:
        """Wait until all processes have called this, without waiting for the device."""
        if self.size > 1:
            dist.barrier(group=self.control)

    def group_of(self, tensor: Tensor) -> "dist.ProcessGroup | None":
        """Return the group over all processes that carries a tensor."""
        return self.control if tensor.device.type == "cpu" else None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, parallel: Parallel) -> Tensor:  # noqa: ANN401 - torch's
        ctx.size = parallel.size
        return parallel.sum(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's
        return gradients[0] * ctx.size, None


class SharedBatchNorm(TorchFunctionMode):
    """Context in which batch norm that trains normalises by the windows of all processes.

    Processes with parts of one batch then compute what one process would with the whole of it, up
    to rounding, and keep the same running statistics. torch's SyncBatchNorm does the same, but not
    on CPUs, and not for the subclasses of batch norm that encoders have.
    """

    def __init__(self, parallel: Parallel) -> None:
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
    parallel: Parallel,
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


def _statistics(images: Tensor, parallel: Parallel) -> tuple[Tensor, Tensor, Tensor]:
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
        parallel: Parallel,
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


def freeze_unused(network: nn.Module, images: Tensor) -> None:
    """Freeze the weights on which the output does not depend; some encoders have such weights.

    They get no gradient, and the exchange of gradients would wait for it. Call it before
    `Parallel.wrap`.

    Args:
        network: network that is not wrapped; only `requires_grad` of its weights changes.
        images: an input of the network, with any values.
    """
    training = network.training
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    total = network.eval()(images).sum()
    for weight, slope in zip(
        weights, torch.autograd.grad(total, weights, allow_unused=True), strict=True
    ):
        weight.requires_grad_(slope is not None)
    network.train(training)


@contextmanager
def parallel(device: Device, *, patience: timedelta = PATIENCE) -> Iterator[Parallel]:
    """Join the group of processes that torchrun has started, and leave it after the block.

    Without torchrun's environment variables, or with a single process, there is no group. Each
    process uses the accelerator with the number of its local rank. After an error the group is not
    destroyed, because that would wait for the other processes; torchrun ends them as soon as this
    process has ended. Gloo was tested, and nccl in a group of one process; xccl and hccl follow
    the documentation of torch and Intel, and were never tested on hardware.

    Args:
        patience: longest wait for other processes, once all have joined.

    Raises:
        ConfigError: if the environment is incomplete.
        DeviceError: if torch lacks the device's way to communicate, or there are fewer devices
            than processes.
        PartnerError: if other processes cannot be reached, or one ends or does not answer.
    """
    place = _place(os.environ)
    if place.size == 1:
        yield place
        return
    _check_backend(device)
    index = _take_device(device, place)
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=JOINING))  # type: ignore[attr-defined]
    except dist.DistError as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise PartnerError(
            f"process {place.rank} of {place.size} cannot join the others at {address}; expected "
            "MASTER_ADDR and MASTER_PORT of a machine that all processes can reach "
            f"({first_line(error)})"
        ) from error
    try:
        dist.init_process_group(
            device.dist_backend,
            timeout=patience,
            device_id=index,
            # What an earlier group of these processes left in the store is not read again.
            store=dist.PrefixStore(f"group {next(_GROUPS)}", store),  # type: ignore[attr-defined]
            rank=rank,
            world_size=size,
        )
        control = None
        if device.dist_backend != "gloo":
            control = cast("dist.ProcessGroup", dist.new_group(backend="gloo", timeout=patience))
        yield replace(place, control=control)
    except RuntimeError as error:
        if lost := _lost(error, size, patience):
            raise PartnerError(lost) from error
        raise
    dist.destroy_process_group()


def _place(environment: Mapping[str, str]) -> Parallel:
    """Return the number of this process, and how many there are, from torchrun's variables."""
    if "RANK" not in environment and "WORLD_SIZE" not in environment:
        return Parallel()
    missing = [name for name in _VARIABLES if not environment.get(name)]
    if missing:
        raise ConfigError(
            f"{', '.join(missing)}: not set, although RANK or WORLD_SIZE is; start the processes "
            "with torchrun, which sets them all, or unset RANK and WORLD_SIZE to train in one "
            "process"
        )
    rank, size, local_rank, local_size = (int(environment[name]) for name in _VARIABLES[:4])
    return Parallel(rank, size, local_rank, local_size)


def _check_backend(device: Device) -> None:
    backend = device.dist_backend
    if backend == "hccl":
        try:
            importlib.import_module(_HCCL)  # It registers the backend.
        except ImportError as error:
            raise DeviceError(
                f"device hpu: {_HCCL} cannot be imported ({error}); install Intel Gaudi's "
                "PyTorch, or train in one process"
            ) from error
    if not (dist.is_available() and dist.is_backend_available(backend)):
        raise DeviceError(
            f"device {device.name}: torch {torch.__version__} is built without {backend}, which "
            "its processes need to communicate; install a build that has it, or train in one "
            "process"
        )


def _take_device(device: Device, place: Parallel) -> torch.device | None:
    """Select the accelerator of the local rank; return it if the group has to know it."""
    if device.type not in {"cuda", "xpu"}:  # Gaudi's import has taken LOCAL_RANK's
        return None
    count = torch.accelerator.device_count()
    if place.local_size > count:
        raise DeviceError(
            f"device {device.name}: {place.local_size} processes on this machine, expected at "
            f"most {count}, the number of devices that torch finds; start fewer (--processes of "
            "roadseg, --nproc-per-node of torchrun)"
        )
    torch.accelerator.set_device_index(place.local_rank)
    return torch.device("cuda", place.local_rank) if device.type == "cuda" else None


def _lost(error: RuntimeError, size: int, patience: timedelta) -> str:
    """Return what an error says about the other processes; empty if it is about something else."""
    message = str(error)
    if not (isinstance(error, dist.DistError) or "gloo" in message):
        return ""
    if "imed out" in message or "imeout" in message:
        minutes = patience.total_seconds() / 60
        return (
            f"one of {size} processes has not answered for {minutes:g} minutes: it has stopped, "
            "or its machine has; run the same command to resume"
        )
    return f"one of {size} processes that train together has ended; run the same command to resume"
