"""Epochs: steps, validation and saving, until the training ends."""

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from roadseg.errors import RoadsegError
from roadseg.learn.hardware.interrupts import Stop
from roadseg.learn.network.checkpoint_facts import MODEL, Facts
from roadseg.learn.network.checkpoints import named, save_checkpoint
from roadseg.learn.training.history import Row, best_row, has_ended, seconds_of
from roadseg.learn.training.samples import HeldOutBatches, TrainingBatches
from roadseg.learn.training.timetable import TrainingClock
from roadseg.learn.training.trainer import Batch, Trainer, learning_rate
from roadseg.learn.training.validation import thresholds_in, validate
from roadseg.system.progress import Progress, counted
from roadseg.system.records import versions, write_csv

_log = logging.getLogger(__name__)
_LOOK_EVERY = 20  # Steps between looks at the loss, each of which waits for the device.
SAVE_S = 300.0  # Seconds between two checkpoints `last` within an epoch.

LOSS = "progress.loss"  # Tensor in `last`: sum of the losses of the current epoch.


class _AskedToStopError(Exception):
    """This process or a partner was asked to stop; all are between two steps."""


@dataclass
class Epochs:
    """Epochs of a training: steps, validation and checkpoints.

    Attributes:
        validation_batches: batches to validate on; None if nothing is held out.
        settings: facts to keep in checkpoints.
        loss: sum of the losses of the current epoch, on the device.
        steps_before: steps of the finished epochs.
        step: finished steps of the current epoch.
        clock: the time of the training, which may be limited, and the rows of finished epochs.
        stop: whether a signal to stop has come.
        after_epoch: called after every epoch with the rows of all epochs, by the processes that
            write files.
    """

    trainer: Trainer
    batches: TrainingBatches
    validation_batches: HeldOutBatches | None
    folder: Path
    settings: Facts
    loss: Tensor
    steps_before: int
    step: int
    clock: TrainingClock
    stop: Stop
    after_epoch: Callable[[list[Row]], None] = lambda _: None
    _saved_s: float = field(init=False)

    @property
    def taken(self) -> int:
        """Finished steps of the whole training."""
        return self.steps_before + self.step

    def run(self) -> list[Row]:
        """Train until the last epoch; if asked to stop, write `last` and exit."""
        history, total = self.clock.history, self.trainer.options.epochs
        self._saved_s = self.clock.now_s
        # The optimizer's state includes the rate of the previous step, and may be saved first.
        self.trainer.set_rate(self._rate(max(self.taken, 1)))
        steps = self.batches.after(self.taken)
        try:
            with Progress("train", total=total, unit="epochs", done=self._done()) as shown:
                while not self._has_ended():
                    self._epoch(steps, shown)
        except _AskedToStopError:
            self._save_last()
            _log.info("stopped in epoch %d, step %d", len(history) + 1, self.step)
            self.stop.leave()
        except RuntimeError:
            if self.stop.requested:  # A compiler or partner that got the signal too has failed.
                self.stop.leave()
            raise
        return history

    def _has_ended(self) -> bool:
        """Return whether no epoch follows; the first one, and one that has begun, are finished."""
        history = self.clock.history
        is_between = bool(history) and not self.step
        return has_ended(history, self.trainer.options) or (is_between and self.clock.is_over)

    def _epoch(self, steps: Iterator[Batch], shown: Progress) -> None:
        """Finish the current epoch, validate, and save the result."""
        before, clock, history = self.step, self.clock, self.clock.history
        number, begun_s = len(history) + 1, clock.now_s
        self._steps(number, steps, shown)
        rate, stepped_s = self._rate(self.taken), clock.now_s
        trained_s = stepped_s - begun_s
        losses = float(self.trainer.parallel.sum(self.loss)) / self.trainer.parallel.size
        held_out = self.validation_batches
        columns = {} if held_out is None else self._validate(held_out)
        clock.read()
        windows = (self.step - before) * self.trainer.options.batch_size
        row = {
            "epoch": number,
            "train_loss": _finite(losses) / self.step,
            **columns,
            "learning_rate": rate,
            "seconds": round(clock.now_s - seconds_of(history), 3),
            "windows_per_s": round(windows / trained_s, 3) if trained_s else 0.0,
        }
        history.append(row)
        self.steps_before, self.step = self.taken, 0
        self.loss.zero_()
        self._keep(row, columns)
        clock.read()  # All processes wait for the first one here.
        clock.check_s = clock.now_s - stepped_s
        shown.reach(self._done())

    def _steps(self, epoch: int, steps: Iterator[Batch], shown: Progress) -> None:
        """Take the remaining steps of an epoch: all, or as many as its time allows."""
        clock = self.clock
        if clock.used is None:
            total, done = self.batches.steps, self.step
            steps = islice(steps, total - done)
            steps = counted(steps, f"epoch {epoch}", total=total, unit="steps", done=done)
        elif self.step and clock.epoch_is_over:  # What was resumed has no time for more.
            return
        for batch in steps:
            number = self.taken + 1
            seed_step(self.trainer.options.seed, number, self.trainer.parallel.rank)
            self.loss += self.trainer.step(batch, rate=self._rate(number))
            self.step += 1
            shown.reach(self._done())
            if self.step % _LOOK_EVERY == 0:
                _finite(float(self.loss))
            if self._ends_epoch():
                return

    def _ends_epoch(self) -> bool:
        """Heed clock and signals after a step; return whether it was the last of its epoch."""
        if self.clock.read(stop=self.stop.requested):
            raise _AskedToStopError
        if self.clock.now_s - self._saved_s >= SAVE_S:
            self._save_last()
        is_complete = self.clock.used is None and self.step == self.batches.steps
        return is_complete or self.clock.epoch_is_over

    def _validate(self, held_out: HeldOutBatches) -> Row:
        def after_batch() -> None:
            if self.trainer.parallel.any(self.stop.requested):
                raise _AskedToStopError

        scores = validate(self.trainer, held_out, after_batch=after_batch)
        _finite(scores.loss)
        return scores.columns()

    def _keep(self, row: Row, columns: Row) -> None:
        """Save a finished epoch; `last` comes last, so that it implies all other files.

        Args:
            columns: those of the validation; none if nothing is held out.
        """
        if not self.trainer.parallel.first:
            return
        history, folder = self.clock.history, self.folder
        best = best_row(history)
        write_csv(folder / "metrics.csv", history)
        self.after_epoch(history)
        if best is row:
            weights = named(MODEL, self.trainer.model.state_dict())
            save_checkpoint(folder, "best", weights, self._facts() | {"score": columns})
        self._save_last()
        held_out = ""
        if columns:
            held_out = "validation loss {val_loss:.4f}, IoU {val_iou:.3f}, ".format_map(columns)
        _log.info(
            "epoch %d of %d: training loss %.4f, %s%.1f windows/s",
            *(len(history), self.trainer.options.epochs, row["train_loss"], held_out),
            row["windows_per_s"],
        )

    def _save_last(self) -> None:
        """Write `last`: all that the next step needs."""
        if not self.trainer.parallel.first:
            return
        tensors, values = self.trainer.state()
        facts = self._facts() | {
            "history": self.clock.history,
            "steps_before": self.steps_before,
            "step": self.step,
            **self.clock.state(),
        }
        save_checkpoint(self.folder, "last", tensors | {LOSS: self.loss}, facts | values)
        self._saved_s = self.clock.now_s

    def _rate(self, number: int) -> float:
        """Return the learning rate of a step, counted from 1 over the whole training.

        If the time is limited, it is that of the step to which the share of the time would lead,
        if all epochs had as many steps as planned.
        """
        steps, used = self.batches.steps, self.clock.used
        step = number - 1 if used is None else used * self.trainer.options.epochs * steps
        return learning_rate(step, self.trainer.options, steps_per_epoch=steps)

    def _done(self) -> float:
        """Return how many epochs are done, with steps or time as parts of an epoch."""
        finished, used = len(self.clock.history), self.clock.used
        if used is None:
            return finished + self.step / self.batches.steps
        return max(finished, used * self.trainer.options.epochs)

    def _facts(self) -> Facts:
        history = self.clock.history
        thresholds = thresholds_in(history[-1]) if history else {}
        return {**self.settings, "epoch": len(history), **thresholds, "versions": versions()}


def seed_step(seed: int, number: int, rank: int) -> None:
    """Seed torch's generators (dropout) for one step; step 0 draws the first weights."""
    torch.manual_seed(int(np.random.SeedSequence((seed, number, rank)).generate_state(1)[0]))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise RoadsegError(
            "the loss is NaN or infinite; lower train.learning_rate, or use precision fp32"
        )
    return value
