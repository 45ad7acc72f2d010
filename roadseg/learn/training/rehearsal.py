"""Rehearsal: measure the speed of a training on this machine by some of its steps."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.pretrained import new_network
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.samples import TrainingWindows
from roadseg.learn.training.timetable import Pace
from roadseg.learn.training.train import TrainingJob, accelerators
from roadseg.learn.training.trainer import Batch, Trainer

_LARGEST_PX = 2**18  # Pixels of a batch; in larger batches the time per window is about the same.
_WARM, _WARM_S = 5, 3.0  # Most warm-up batches, and seconds after which fewer are enough.
_MEASURED, _MEASURED_S = 8, 6.0  # Most timed batches, and seconds after which fewer are enough.
_SHARE = 0.01  # Largest share of a training that is rehearsed, besides two batches.


def measure_pace(job: TrainingJob, *, parallel: Parallel, workers: int) -> Pace:
    """Take some steps of a training with its first weights, and validate some batches.

    Windows are read and augmented as in the training itself. Random states are restored, and
    nothing is written. A CPU measures large windows in smaller batches. At most a hundredth of the
    time is rehearsed for each of both, and two batches more: the clock corrects a plan that is
    somewhat off. Compilers are not used: the first step of a compiled training takes longer than
    this, and the others are faster.

    Args:
        job: a training whose time is limited.
        parallel: the processes that train together; all of them call this.

    Raises:
        ConfigError: if the network cannot be built, or does not accept such batches.
        CheckpointError, RoadsegError: if its first weights cannot be read or downloaded.
        DataError: if a chip cannot be read.
    """
    windows = TrainingWindows(job.training, job.options)
    options = _small(job.options, len(windows), processes=parallel.size, device=job.device)
    batches, held_out = replace(job, options=options).batches(parallel, workers)
    checks = itertools.repeat(held_out) if held_out is not None else ()
    scaling, device = job.training[0].scaling, replace(job.device, compiler=None)
    most_s = _SHARE * (options.limit_s or 0.0)
    with torch.random.fork_rng(accelerators(device)):
        network, _ = new_network(job.options, bands=len(scaling.mean), bins=job.bins)
        trainer = Trainer(network, job.options, scaling=scaling, device=device, parallel=parallel)

        def learn(batch: Batch) -> None:
            trainer.step(batch, rate=options.learning_rate)
            device.synchronize()

        def check(batch: Batch) -> None:
            trainer.evaluate(batch)
            device.synchronize()

        step_s = _seconds_of_one(learn, batches.after(0), parallel, most_s=most_s)
        every = itertools.chain.from_iterable(checks)
        check_s = _seconds_of_one(check, every, parallel, most_s=most_s)
    # The mean over all processes, which have to make the same plan.
    times = parallel.sum(torch.tensor([step_s, check_s], dtype=torch.float64)) / parallel.size
    window_s, held_out_s = (times / options.batch_size).tolist()
    return Pace(window_s, held_out_s)


def _small(options: TrainOptions, windows: int, *, processes: int, device: Device) -> TrainOptions:
    """Return the options with batches of few pixels, but of at least two windows if possible.

    Only a CPU has smaller batches than the training: to a GPU, few windows take as long as many,
    and it needs seconds to prepare for another size, which the training would lose.
    """
    size = min(options.batch_size, windows)
    if device.name == "cpu":
        size = min(size, processes * max(2, _LARGEST_PX // options.window_px**2))
    size = max(1, size)
    return options.model_copy(update={"batch_size": size})


def _seconds_of_one(
    work: Callable[[Any], None], batches: Iterable[Any], parallel: Parallel, *, most_s: float
) -> float:
    """Measure the seconds per batch, after a warm-up that also uses up the batches read ahead.

    It takes at most `most_s`, half of it for the warm-up, and two batches more: one warm-up batch
    and one timed batch.
    """
    left = iter(batches)
    first = list(itertools.islice(left, 1))  # Meanwhile the processes start that read windows.
    first_s = _work_for(0, work, first, parallel)
    warm_s = min(_WARM_S, most_s / 2) - first_s
    if parallel.any(warm_s > 0):
        _work_for(warm_s, work, itertools.islice(left, _WARM - 1), parallel)
    timed = itertools.islice(left, _MEASURED)
    return _work_for(min(_MEASURED_S, most_s / 2), work, timed, parallel)


def _work_for(
    seconds: float, work: Callable[[Any], None], batches: Iterable[Any], parallel: Parallel
) -> float:
    """Process batches until the time has passed, at least one; return their median time.

    That includes waiting for windows that are still being read. The median ignores short
    disturbances by other programs. Without batches it is 0.
    """
    spent_s: list[float] = []
    begun = time.perf_counter()
    for batch in batches:
        work(batch)
        done = time.perf_counter()
        spent_s.append(done - begun)
        begun = done
        if not parallel.any(sum(spent_s) < seconds):
            break
    return statistics.median(spent_s) if spent_s else 0.0
