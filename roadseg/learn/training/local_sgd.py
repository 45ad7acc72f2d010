"""Local and hierarchical SGD: processes that step on their own and average their weights."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise

import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from roadseg.errors import ConfigError
from roadseg.learn.hardware.batch_norm import SharedBatchNorm
from roadseg.learn.hardware.distributed import Parallel, unwrapped

_KEY = "train.distributed.hierarchy"
_SMALLEST_GROUP = 2
_STATISTICS = ("running_mean", "running_var")  # Buffers of batch norm.


class HierarchicalAverager:
    """Decides at which steps processes exchange gradients or average weights, and averages.

    During the warm-up, gradients are averaged over all processes at every step. Then every process
    steps on its own, and at every multiple of a period, counted from the end of the warm-up, the
    weights of a group of neighbouring ranks are replaced by their mean. So a slow process delays
    its group only once a period, and all others once in the longest period. With a single period
    this is local SGD; without any, gradients are averaged at every step.

    Period 1 does not average weights: its group shares loss and gradients of every step, and so has
    the same weights and the same state of the optimizer at all times. It is meant for the processes
    of one machine, with longer periods between machines.

    Steps count from 1. Frozen weights stay unchanged. Batch norm's statistics and the optimizer's
    state are averaged together with the weights of all processes, but not of smaller groups; so the
    state that one process saves after such a step is enough to resume exactly.

    Source: Lin et al., Don't Use Large Mini-Batches, Use Local SGD, 2018 (post-local and
    hierarchical); averaged momentum: Yu et al., On the Linear Speedup Analysis of Communication
    Efficient Momentum SGD, 2019. Averaging gradients in a group at every step is
    post_local_gradient_allreduce of torch's post_localSGD_hook. Unlike torch's averagers, ours
    keeps weights channels_last.
    """

    def __init__(
        self,
        parallel: Parallel,
        network: nn.Module,
        *,
        hierarchy: Mapping[int, int],
        warmup_steps: int,
        optimizer: Optimizer | None = None,
    ) -> None:
        """Make the groups, in all processes at the same time.

        Args:
            network: network with the weights, wrapped or not.
            hierarchy: period in steps -> number of processes in a group; may be empty.
            warmup_steps: steps with averaged gradients before the first local step.
            optimizer: optimizer with the momentum or moments, which are averaged with the weights
                of all processes.

        Raises:
            ConfigError: as `check_hierarchy`.
        """
        check_hierarchy(hierarchy, size=parallel.size)
        self._parallel = parallel
        self._network = unwrapped(network)
        self._optimizer = optimizer
        self._warmup_steps = warmup_steps
        if hierarchy.get(1) == parallel.size:
            hierarchy = {}
        self._groups = {period: _group(parallel, hierarchy[period]) for period in sorted(hierarchy)}
        self._every_step_group = self._groups.pop(1, None)

    def synchronous(self, step: int) -> bool:
        """Return whether this step shares gradients and sums for the loss among all processes.

        Otherwise `Parallel.accumulating(network, last=False)` belongs around each of its passes.
        """
        return not self._groups or step <= self._warmup_steps

    def shared(self, sums: Tensor, step: int) -> Tensor:
        """Add up the sums of the loss over the processes that share the gradients of a step."""
        if self.synchronous(step):
            return self._parallel.sum_with_gradient(sums)
        return (
            sums
            if self._every_step_group is None
            else self._parallel.sum_with_gradient(sums, group=self._every_step_group)
        )

    def normalising(self, step: int) -> AbstractContextManager[object]:
        """Return the context in which a forward pass of a shared step also shares batch norm.

        Otherwise each process would normalise by its own windows, so that the network would depend
        on the number of processes.
        """
        if self._parallel.size == 1:
            return nullcontext()
        if self.synchronous(step):
            return SharedBatchNorm(self._parallel)
        return (
            nullcontext()
            if self._every_step_group is None
            else SharedBatchNorm(self._parallel, self._every_step_group)
        )

    def average_gradients(self, step: int) -> None:
        """Average the gradients of a step within the group of period 1, unless all share them."""
        if self._every_step_group is not None and not self.synchronous(step):
            gradients = [weight.grad for weight in self._weights() if weight.grad is not None]
            self._parallel.average(gradients, group=self._every_step_group)

    def average(self, step: int) -> None:
        """Average weights after the optimizer's step, in the largest group whose period ends."""
        turn = self._turn(step)
        if turn is None:
            return
        if turn == max(self._groups):
            self.average_all()
        else:
            self._parallel.average(self._weights(), group=self._groups[turn])

    def replicas_agree(self, step: int) -> bool:
        """Return whether all processes have the same weights after this step."""
        return self.synchronous(step) or self._turn(step) == max(self._groups)

    def average_all(self) -> None:
        """Average everything that differs between processes, before measuring and saving.

        Without a hierarchy, these are batch norm's statistics.
        """
        tensors = list(statistics(self._network))
        if self._groups:
            tensors += self._weights()
            tensors += _state(self._optimizer) if self._optimizer else ()
        self._parallel.average(tensors)

    def _turn(self, step: int) -> int | None:
        """Return the longest period that ends with this step, None during the warm-up."""
        since = step - self._warmup_steps
        ended = [period for period in self._groups if since > 0 and since % period == 0]
        return max(ended, default=None)

    def _weights(self) -> Iterator[Tensor]:
        return (weight for weight in self._network.parameters() if weight.requires_grad)


def statistics(network: nn.Module) -> Iterator[Tensor]:
    """Yield the running means and variances that batch norm keeps."""
    named = network.named_buffers()
    return (buffer for name, buffer in named if name.endswith(_STATISTICS))


def check_hierarchy(hierarchy: Mapping[int, int], *, size: int) -> None:
    """Check the periods and group sizes of hierarchical SGD.

    Args:
        hierarchy: period in steps -> number of processes in a group; may be empty.
        size: number of all processes.

    Raises:
        ConfigError: unless groups grow with the period, each consists of whole smaller groups, and
            the largest has all processes.
    """
    periods = sorted(hierarchy)
    sizes = [hierarchy[period] for period in periods]
    if not periods:
        return
    if periods[0] < 1 or sizes[0] < _SMALLEST_GROUP:
        raise ConfigError(
            f"{_KEY}: expected periods of at least 1 step and groups of at least "
            f"{_SMALLEST_GROUP} processes, got {_shown(hierarchy)}"
        )
    if any(large % small or large == small for small, large in pairwise(sizes)):
        raise ConfigError(
            f"{_KEY}: expected groups that grow with the period, each made of whole smaller "
            f"ones, got {_shown(hierarchy)}"
        )
    if sizes[-1] != size:
        raise ConfigError(
            f"{_KEY}: expected the longest period to average all {size} processes, got "
            f"{_shown(hierarchy)}; change it, or start {sizes[-1]} processes with torchrun"
        )


def _group(parallel: Parallel, size: int) -> "dist.ProcessGroup | None":
    """Return this process's group of `size` neighbouring ranks; None stands for all processes."""
    if size == parallel.size:
        return None
    mine, _ = dist.new_subgroups(size, timeout=parallel.patience)
    return mine


def _state(optimizer: Optimizer) -> Iterator[Tensor]:
    """Yield the tensors of the optimizer's state for each weight, without step counts."""
    for group in optimizer.param_groups:
        for weight in group["params"]:
            for value in optimizer.state.get(weight, {}).values():
                if isinstance(value, Tensor) and value.ndim and value.is_floating_point():
                    yield value


def _shown(hierarchy: Mapping[int, int]) -> str:
    return ", ".join(f"{period}: {hierarchy[period]}" for period in sorted(hierarchy))
