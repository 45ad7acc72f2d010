"""Loaders: batches of windows, read and augmented ahead in processes of their own."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from roadseg.errors import ConfigError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.hardware.interrupts import ignore
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.augment import use_one_thread
from roadseg.learn.training.samples import (
    Chip,
    EpochBatches,
    TrainingWindows,
    ValidationBatches,
    ValidationWindows,
)
from roadseg.system.machine import check_workers

_AHEAD = 4  # batches that each process has ready


class TrainingBatches:
    """The batches of one epoch after another, for one of the processes that train together."""

    def __init__(
        self,
        chips: Sequence[Chip],
        recipe: TrainOptions,
        *,
        parallel: Parallel,
        workers: int,
        pin_memory: bool,
    ) -> None:
        """Get ready to draw windows of the chips.

        Raises:
            ConfigError: if an epoch has too few windows for a step.
        """
        windows = TrainingWindows(
            chips,
            window_px=recipe.window_px,
            windows_per_chip=recipe.windows_per_chip,
            road_share=recipe.road_share,
            seed=recipe.seed,
            augment=recipe.augment,
            skeletons=recipe.loss.needs_skeletons,
        )
        self._accumulate = recipe.accumulate
        self._order = EpochBatches(
            len(windows),
            seed=recipe.seed,
            batch_size=recipe.batch_size,
            rank=parallel.rank,
            ranks=parallel.size,
        )
        self.windows_per_step = recipe.batch_size * recipe.accumulate * parallel.size
        self.steps = len(windows) // self.windows_per_step
        if self.steps == 0:
            raise ConfigError(
                f"train.batch_size: expected at most {len(windows)} windows a step, all of an "
                f"epoch, got {self.windows_per_step} (batch_size x accumulate x processes)"
            )
        self._loader = _loader(windows, self._order, workers, pin_memory=pin_memory)

    def epoch(self, number: int, *, after: int) -> Iterable[tuple[Sequence[Tensor], ...]]:
        """Give the batches of each step of an epoch, counted from 1, after its first steps."""
        self._order.epoch, self._order.start_batch = number, after * self._accumulate
        return zip(*[iter(self._loader)] * self._accumulate, strict=False)


def validation_batches(
    chips: Sequence[Chip],
    recipe: TrainOptions,
    *,
    parallel: Parallel,
    workers: int,
    pin_memory: bool,
) -> DataLoader[Any]:
    """Return the windows that cover the chips, in batches of one size."""
    windows = ValidationWindows(
        chips, window_px=recipe.window_px, skeletons=recipe.loss.needs_skeletons
    )
    order = ValidationBatches(
        len(windows), batch_size=recipe.batch_size, rank=parallel.rank, ranks=parallel.size
    )
    return _loader(windows, order, workers, pin_memory=pin_memory)


def _loader(
    windows: Dataset[Any], order: Sampler[list[int]], workers: int, *, pin_memory: bool
) -> DataLoader[Any]:
    check_workers(workers)
    ahead: dict[str, Any] = {"prefetch_factor": _AHEAD} if workers else {}
    return DataLoader(
        windows,
        batch_sampler=order,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=pin_memory,
        worker_init_fn=_settle,
        **ahead,
    )


def _settle(worker: int) -> None:
    use_one_thread(worker)
    ignore()
