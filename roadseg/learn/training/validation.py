"""Validation: loss, IoU, F1 and threshold of a network on held-out windows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from roadseg.errors import DataError
from roadseg.learn.network.checkpoint_facts import Facts
from roadseg.learn.network.losses import loss_of
from roadseg.learn.training.samples import HeldOutBatches
from roadseg.learn.training.trainer import Trainer
from roadseg.raster.windows import CERTAIN
from roadseg.roads.masks.burning import BACKGROUND, IGNORE
from roadseg.roads.metrics.pixels import LEVELS, Histogram
from roadseg.system.progress import counted

IOU_OF = "val_iou_"  # Prefix of the column of a set in the table of epochs.
THRESHOLD = "threshold"  # Column of the best threshold; the name of a set may follow.
_EVEN = 0.5  # Probability from which a pixel counts as road in IoU and F1.


@dataclass(frozen=True)
class Scores:
    """Scores of a network on the held-out windows.

    Attributes:
        loss: loss over all valid pixels together.
        pixels: histogram of valid pixels by their probability of any road.
        by_set: histogram of each set by name; empty without sets.
    """

    loss: float
    pixels: Histogram
    by_set: Mapping[str, Histogram] = field(default_factory=dict)

    def columns(self) -> dict[str, float]:
        """Return the columns of the table of epochs."""
        roads = self.pixels.at(_EVEN)
        columns = {"val_loss": self.loss, "val_iou": roads.iou, "val_f1": roads.f1}
        columns |= {f"{IOU_OF}{name}": side.at(_EVEN).iou for name, side in self.by_set.items()}
        threshold = self.pixels.best_threshold
        columns |= {"val_best_iou": self.pixels.at(threshold).iou, THRESHOLD: threshold}
        best = {name: side.best_threshold for name, side in self.by_set.items()}
        return columns | {f"{THRESHOLD}_{name}": value for name, value in best.items()}


def thresholds_in(columns: Mapping[str, float]) -> Facts:
    """Return the thresholds in a row of the table of epochs as facts of a checkpoint.

    Trainings without held-out chips have none.
    """
    if THRESHOLD not in columns:
        return {}
    prefix = f"{THRESHOLD}_"
    by_set = {
        name.removeprefix(prefix): best for name, best in columns.items() if name.startswith(prefix)
    }
    return {"threshold": columns[THRESHOLD]} | ({"thresholds": by_set} if by_set else {})


def validate(
    trainer: Trainer, held_out: HeldOutBatches, *, after_batch: Callable[[], None]
) -> Scores:
    """Measure the model of a trainer on all valid pixels of all processes.

    Raises:
        DataError: if no pixel is valid.
    """
    batches = counted(held_out, "validate", total=len(held_out), unit="batches")
    sums, counts = torch.zeros(()), torch.zeros((len(held_out.sets), 2, LEVELS), dtype=torch.int64)
    for batch, numbers in zip(batches, held_out.set_numbers, strict=True):
        logits, batch_sums = trainer.evaluate(batch)
        sums = sums.to(logits.device) + batch_sums
        window_counts = count(logits, batch[1].to(logits.device))
        window_sets = torch.tensor(numbers, device=logits.device).expand(len(window_counts))
        counts = counts.to(logits.device).index_add(0, window_sets, window_counts)
        after_batch()
    pixels = trainer.parallel.sum(counts).cpu().numpy()
    if not pixels.any():
        raise DataError("the held-out chips contain no pixel with data; change the split")
    loss = float(loss_of(trainer.parallel.sum(sums), weights=trainer.options.loss))
    every = Histogram(*pixels.sum(axis=0))
    by_set = {
        name: Histogram(*sides)
        for name, sides in zip(held_out.sets, pixels, strict=True)
        if name and sides[1].any()  # A set without roads has no best threshold.
    }
    return Scores(loss, every, by_set)


def count(logits: Tensor, masks: Tensor) -> Tensor:
    """Count the valid pixels of each window by their probability of any road.

    Returns:
        Shape (window, 2, 256): pixels labelled as background and as road, by the probability as a
        byte.
    """
    windows = torch.arange(len(masks), device=masks.device)[:, None, None]
    level = (logits[:, -1].float().sigmoid().nan_to_num() * CERTAIN).round().long()
    cell = (2 * windows + (masks != BACKGROUND)) * LEVELS + level
    pixels = torch.bincount(cell[masks != IGNORE], minlength=2 * LEVELS * len(masks))
    return pixels.view(-1, 2, LEVELS)
