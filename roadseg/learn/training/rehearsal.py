"""Rehearsal: the speed of a training on this machine, measured on some of its steps."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import default_collate

from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.models import untrained_model
from roadseg.learn.network.pretrained import new_network
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.samples import (
    HeldOutBatches,
    RandomWindows,
    TrainingBatches,
    load_ahead,
    training_windows,
)
from roadseg.learn.training.train import TrainingJob, accelerators, new_trainer
from roadseg.learn.training.trainer import Batch, Trainer
from roadseg.raster.scaling import Scaling

START_S = 3.0  # Seconds before the first step: weights, and processes that read.
KEEPING_S = 1.5  # Seconds in which an epoch keeps its checkpoint, table and curves.
_LARGEST_PX = 2**19  # Pixels of a batch: the time of a window hardly depends on more of them.
_WARM, _WARM_S = 5, 3.0  # Batches before the clock starts, and seconds after which fewer do.
_MEASURED, _MEASURED_S = 8, 6.0  # Batches that are timed, and seconds after which fewer do.
_SHARE = 0.05  # Of the batches of a training, the share that is rehearsed at most, but for two.


@dataclass(frozen=True)
class Pace:
    """Times of a training by all its processes together.

    Attributes:
        window_s: seconds of a training step for each of its windows.
        held_out_s: seconds of validation for each window.
    """

    window_s: float
    held_out_s: float

    def epoch_seconds(self, windows: int, held_out: int) -> float:
        """Return the seconds of an epoch of a number of windows, with validation and checkpoint."""
        return windows * self.window_s + held_out * self.held_out_s + KEEPING_S


def measure_pace(job: TrainingJob, *, parallel: Parallel, workers: int) -> Pace:
    """Take some steps of a training with its first weights, and validate some batches.

    Its windows are read and augmented as in the training itself. Nothing that is random
    elsewhere changes, and nothing is written. Large windows are measured in smaller batches. Where
    its time is not limited, a twentieth of its steps is rehearsed at most, but for two.
    Compilers are left out, so that a compiled training is faster than this.

    Args:
        job: the training.
        parallel: the processes that train together; all of them call this.
        workers: processes that read windows.

    Raises:
        ConfigError: if the network cannot be built, or takes no such batches.
        CheckpointError, RoadsegError: if its first weights cannot be read or downloaded.
        DataError: if a chip cannot be read.
    """
    windows = training_windows(job.training, job.options)
    options = _small(job.options, len(windows), processes=parallel.size)
    pin = job.device.pin_memory
    batches = TrainingBatches(
        job.training, options, parallel=parallel, workers=workers, pin_memory=pin
    )
    checks: Iterable[Iterable[Batch]] = ()
    if job.validation:
        checks = itertools.repeat(
            HeldOutBatches(
                job.validation, options, parallel=parallel, workers=workers, pin_memory=pin
            )
        )
    scaling = job.training[0].scaling
    epochs = (batches.epoch(number, after=0) for number in itertools.count(1))

    def build() -> nn.Module:
        return new_network(job.options, bands=len(scaling.mean), bins=job.bins)[0]

    with _rehearsing(build, job.options, scaling, device=job.device, parallel=parallel) as trainer:
        steps = job.options.epochs * len(windows) / options.batch_size
        in_all = math.inf if job.options.minutes else steps
        return _pace(trainer, epochs, checks, options, parallel, in_all=in_all)


def guess_pace(
    options: TrainOptions, *, bands: int, bins: int, device: Device, workers: int
) -> Pace:
    """Take some steps of a training on random pixels, before there are chips to train on.

    Args:
        options: of the training.
        bands: of the images.
        bins: number of speed bins.
        device: where the network runs.
        workers: processes that augment windows, as in the training itself.

    Raises:
        ConfigError: if the network cannot be built, or takes no such batches.
    """
    scaling = Scaling({}, (127.0,) * bands, (64.0,) * bands)
    small = _small(options, options.batch_size)
    windows, numbers = RandomWindows(small, bands=bands), list(range(small.batch_size))
    most = itertools.repeat(numbers, 1 + _WARM + _MEASURED)
    batches = load_ahead(windows, list(most), workers, pin_memory=device.pin_memory)
    first = default_collate([windows[number] for number in numbers])
    alone, build = Parallel(), partial(untrained_model, options, bands=bands, bins=bins)
    with _rehearsing(build, options, scaling, device=device, parallel=alone) as trainer:
        steps, checks = [([batch] for batch in batches)], itertools.repeat([first])
        return _pace(trainer, steps, checks, small, alone)


def _small(options: TrainOptions, windows: int, *, processes: int = 1) -> TrainOptions:
    """Return the options with batches of few pixels, of two windows at least if there are two."""
    fitting = processes * max(2, _LARGEST_PX // options.window_px**2)
    size = max(1, min(options.batch_size, fitting, windows))
    return options.model_copy(update={"batch_size": size, "accumulate": 1})


@contextmanager
def _rehearsing(
    build: Callable[[], nn.Module],
    options: TrainOptions,
    scaling: Scaling,
    *,
    device: Device,
    parallel: Parallel,
) -> Iterator[Trainer]:
    """Yield a trainer of a new network, and restore torch's generators afterwards."""
    device = replace(device, compiler=None)
    with torch.random.fork_rng(accelerators(device)):
        yield new_trainer(build(), options, scaling=scaling, device=device, parallel=parallel)


def _pace(
    trainer: Trainer,
    epochs: Iterable[Iterable[Sequence[Batch]]],
    checks: Iterable[Iterable[Batch]],
    options: TrainOptions,
    parallel: Parallel,
    *,
    in_all: float = math.inf,
) -> Pace:
    """Time steps of some epochs and batches of validations; the training has `in_all` steps."""
    numbers = itertools.count(1)

    def learn(batches: Sequence[Batch]) -> None:
        trainer.step(batches, number=next(numbers), rate=options.learning_rate)
        trainer.synchronize()

    def check(batch: Batch) -> None:
        trainer.evaluate(batch)
        trainer.synchronize()

    step_s = _seconds_of_one(learn, itertools.chain.from_iterable(epochs), parallel, in_all=in_all)
    check_s = _seconds_of_one(check, itertools.chain.from_iterable(checks), parallel, in_all=in_all)
    # All processes have to plan the same.
    times = parallel.sum(torch.tensor([step_s, check_s], dtype=torch.float64)) / parallel.size
    window_s, held_out_s = (times / options.batch_size).tolist()
    return Pace(window_s, held_out_s)


def _seconds_of_one(
    work: Callable[[Any], None],
    batches: Iterable[Any],
    parallel: Parallel,
    *,
    in_all: float = math.inf,
) -> float:
    """Measure the seconds of the work on a batch, once warm and with no batches read ahead.

    It takes the time of a share of `in_all` batches at most, but for one that warms up and one
    that is timed.
    """
    left = iter(batches)
    first_s = _work_for(0, work, itertools.islice(left, 1), parallel)
    # Half of the share is for what warms up, half for what is timed.
    most_s = _SHARE / 2 * in_all * first_s if math.isfinite(in_all) else math.inf
    warm_s = min(_WARM_S, most_s) - first_s
    if parallel.any(warm_s > 0):
        _work_for(warm_s, work, itertools.islice(left, _WARM - 1), parallel)
    return _work_for(min(_MEASURED_S, most_s), work, itertools.islice(left, _MEASURED), parallel)


def _work_for(
    seconds: float, work: Callable[[Any], None], batches: Iterable[Any], parallel: Parallel
) -> float:
    """Process at least one batch until the time has passed; return the median time of a batch.

    So what else the machine does for a moment does not count. Without any batch it is 0.
    """
    spent_s: list[float] = []
    for batch in batches:
        begun = time.perf_counter()
        work(batch)
        spent_s.append(time.perf_counter() - begun)
        if not parallel.any(sum(spent_s) < seconds):
            break
    return statistics.median(spent_s) if spent_s else 0.0
