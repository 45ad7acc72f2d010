"""Training: from chips to checkpoints; it can be interrupted and resumed at every step."""

import hashlib
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from roadseg.learn.hardware.devices import Device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.hardware.interrupts import postponed
from roadseg.learn.hardware.launchers import is_bound
from roadseg.learn.network.checkpoint_facts import Facts
from roadseg.learn.network.checkpoints import read_tensors
from roadseg.learn.network.installed_weights import first_weights
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.network.pretrained import log_first_weights, new_network
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.epochs import LOSS, Epochs, seed_step
from roadseg.learn.training.history import Row, has_ended, read_last
from roadseg.learn.training.samples import Chip, HeldOutBatches, TrainingBatches
from roadseg.learn.training.timetable import TrainingClock
from roadseg.learn.training.trainer import Trainer
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import remove_partial
from roadseg.system.machine import read_machine

_log = logging.getLogger(__name__)

# Processes that read windows for an accelerator at least: an H200 waits for fewer.
_READERS = 4


@dataclass(frozen=True)
class TrainingJob:
    """Everything that determines the final weights of a training.

    Attributes:
        training: chips to learn, of one scaling.
        validation: held-out chips; without any, all epochs are trained without validation.
        facts: JSON values to add to the checkpoint (bands, GSD, ...).
    """

    training: Sequence[Chip]
    validation: Sequence[Chip]
    options: TrainOptions
    facts: Mapping[str, Any]
    bins: SpeedBins
    device: Device

    def batches(
        self, parallel: Parallel, workers: int
    ) -> tuple[TrainingBatches, HeldOutBatches | None]:
        """Return the batches to train and to validate on; None if nothing is held out.

        Args:
            workers: processes that read and augment windows; 0 does so in this process. For an
                accelerator there are at least 4, if there are as many cores.

        Raises:
            ConfigError: if an epoch has too few windows for a step, or a batch for all processes.
        """
        options, pin = self.options, self.device.pin_memory
        if workers and self.device.name != "cpu":
            cores = read_machine().usable_cores
            if not is_bound():
                cores //= parallel.local_size
            workers = max(workers, min(_READERS, cores))
        training = TrainingBatches(
            self.training, options, parallel=parallel, workers=workers, pin_memory=pin
        )
        if not self.validation:
            return training, None
        held_out = HeldOutBatches(
            self.validation, options, parallel=parallel, workers=workers, pin_memory=pin
        )
        return training, held_out

    @cached_property
    def settings(self) -> Facts:
        """Settings that must stay the same when `train` resumes."""
        options = self.options
        set_weights = {chip.set: chip.weight for chip in self.training if chip.set}
        scaling = self.training[0].scaling
        return {
            **self.facts,
            **fixed_options(options),
            "in_channels": len(scaling.mean),
            "classes": self.bins.count + 1,
            "bin_edges": self.bins.edges,
            "bin_unit": self.bins.unit,
            "scaling": asdict(scaling),
            **{f"first_{name}": weights for name, weights in first_weights(options).items()},
            **({"set_weights": set_weights} if set_weights else {}),
            "training_chips": _digest(self.training),
            "validation_chips": _digest(self.validation),
            "precision": self.device.precision,
            "backend": self.device.backend,
        }


def train(
    job: TrainingJob,
    folder: Path,
    *,
    parallel: Parallel,
    workers: int,
    force: bool = False,
    started: Callable[[], None] = lambda: None,
    after_epoch: Callable[[list[Row]], None] = lambda _: None,
    tick: Callable[[], float] = time.monotonic,
) -> list[Row]:
    """Train a network, or resume the training in `folder`.

    `last.safetensors` contains all that the next step needs; it is written after every epoch, every
    few minutes, and when the process is asked to stop (SIGINT, SIGTERM). Every finished epoch also
    updates `metrics.csv` and, if its validation loss is the lowest, `best.safetensors`. Called
    again with the same job, `train` resumes after the last saved step. On a CPU the final weights
    are the same, bit for bit, as without the interruption. There is no random state to restore:
    every window with its augmentation, and every step, has its own generator, seeded by the seed
    and its number.

    With `options.minutes`, the clock ends every epoch, and the learning rate follows the time; it
    is that of all sessions together. So the weights depend on how fast the machine was.

    Args:
        job: data and options; a training resumes only with the same job.
        workers: processes that read and augment windows; 0 does so in this process.
        force: whether to start from the beginning; the folder is emptied once all inputs have been
            checked.
        started: called before the first file is written or removed, when nothing can be refused any
            more.
        after_epoch: called with the rows of all epochs so far, by the processes that write files.
        tick: seconds of a clock that never goes back.

    Returns:
        One row per epoch, as in metrics.csv.

    Raises:
        ConfigError: if the settings cannot be combined, or the folder contains a training with
            other settings.
        DataError: if a chip cannot be read, or no validation pixel has data.
        RoadsegError: if the loss is NaN or infinite.
    """
    options, device = job.options, job.device
    settings = job.settings
    last = None if force else read_last(folder, settings)
    parallel.wait()  # All processes have read it then.

    def begin() -> None:
        if parallel.first:
            if force:
                shutil.rmtree(folder, ignore_errors=True)
            started()
            remove_partial(folder)
        parallel.wait()

    if last and has_ended(last["history"], options):
        begin()
        return list(last["history"])
    batches, held_out = job.batches(parallel, workers)
    before = last or {}
    history, step = list(before.get("history", [])), before.get("step", 0)
    if last:
        _log.info("%s: resuming after epoch %d, step %d", folder, len(history), step)
    loss = read_tensors(folder, "last", LOSS)[""] if last else torch.zeros(())
    with torch.random.fork_rng(accelerators(device)):
        trainer, origin = _trainer(job, folder, last, parallel=parallel)
        begin()
        with postponed() as stop:
            clock = TrainingClock(  # It begins to count here.
                options,
                history,
                parallel,
                since_s=before.get("seconds", 0.0),
                check_s=before.get("check_s", 0.0),
                step_s=before.get("step_s", 0.0),
                tick=tick,
            )
            return Epochs(
                trainer=trainer,
                batches=batches,
                validation_batches=held_out,
                folder=folder,
                settings=settings | {"began_with": origin},
                loss=loss.to(device.type),
                steps_before=before.get("steps_before", 0),
                step=step,
                clock=clock,
                stop=stop,
                after_epoch=after_epoch,
            ).run()


def fixed_options(options: TrainOptions) -> dict[str, Any]:
    """Return as JSON values the options that must stay the same when a training is resumed.

    `epochs` may grow with the schedule "step", whose learning rate does not depend on them.
    """
    fields = options.model_dump()
    fields["init"] = options.init and str(options.init)
    if options.schedule == "step" and options.minutes is None:
        del fields["epochs"]
    return fields


def _trainer(
    job: TrainingJob, folder: Path, last: Facts | None, *, parallel: Parallel
) -> tuple[Trainer, str]:
    """Return a trainer, new or resumed from the folder, and the origin of its first weights."""
    options, bands = job.options, len(job.training[0].scaling.mean)
    seed_step(options.seed, 0, 0)
    if last is None:
        model, origin = new_network(options, bands=bands, bins=job.bins)
        log_first_weights(options, origin)
    else:
        model = build_model(NetworkSpec.for_training(options, bands=bands, bins=job.bins.count))
        origin = last["began_with"]
    state = None if last is None else (read_tensors(folder, "last"), last)
    trainer = Trainer(
        model,
        options,
        scaling=job.training[0].scaling,
        device=job.device,
        parallel=parallel,
        state=state,
    )
    return trainer, origin


def accelerators(device: Device) -> list[int]:
    """Return the devices whose random generators have to be restored after a training."""
    return [torch.cuda.current_device()] if device.type == "cuda" else []


def _digest(chips: Sequence[Chip]) -> str:
    """Return a digest of a list of chips, which does not depend on where their folder is."""
    text = repr([(chip.scene.path.name, tuple(chip.window)) for chip in chips])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
