"""Validation: loss, IoU, F1 and threshold of a network on held-out windows."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from roadseg.errors import DataError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoint_facts import Facts
from roadseg.learn.network.losses import loss_of
from roadseg.learn.options import LossOptions
from roadseg.learn.training.trainer import Batch, Trainer
from roadseg.raster.windows import CERTAIN
from roadseg.roads.masks.burning import BACKGROUND, IGNORE
from roadseg.roads.metrics.pixels import LEVELS, Counts, Histogram

IOU_OF = "val_iou_"  # The column of a set in the table of epochs begins so.
THRESHOLD = "threshold"  # The column of the best one; those of sets have their name behind it.
_EVEN = 0.5  # Probability from which on a pixel is more likely road than not.
_ALMOST_NONE = 0.02  # Predicted pixels per pixel of the labels, below which a network is blind.


@dataclass(frozen=True)
class Scores:
    """Scores of a network on the held-out windows.

    Attributes:
        loss: over all valid pixels together.
        pixels: valid ones by their probability of any road.
        by_set: the pixels of each set by its name; empty without sets.
    """

    loss: float
    pixels: Histogram
    by_set: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def roads(self) -> Counts:
        """Valid pixels of any road that are right, wrong and missed at probability 0.5."""
        return self.pixels.at(_EVEN)

    def columns(self) -> dict[str, float]:
        """Return what goes into the table of epochs."""
        columns = {"val_loss": self.loss, "val_iou": self.roads.iou, "val_f1": self.roads.f1}
        columns |= {f"{IOU_OF}{name}": side.at(_EVEN).iou for name, side in self.by_set.items()}
        threshold = self.pixels.best_threshold
        columns |= {"val_best_iou": self.pixels.at(threshold).iou, THRESHOLD: threshold}
        of_sets = {name: side.best_threshold for name, side in self.by_set.items()}
        return columns | {f"{THRESHOLD}_{name}": best for name, best in of_sets.items()}

    @property
    def is_almost_blind(self) -> bool:
        """Whether there are roads, but hardly any was predicted."""
        right = self.roads.true_positive
        predicted, reference = right + self.roads.false_positive, right + self.roads.false_negative
        return predicted < _ALMOST_NONE * reference


def thresholds_in(columns: Mapping[str, float]) -> Facts:
    """Return what a checkpoint says of the thresholds in a row of the table of epochs.

    It is nothing where a training began before they were measured.
    """
    if THRESHOLD not in columns:
        return {}
    begins = f"{THRESHOLD}_"
    of_sets = {
        name.removeprefix(begins): best for name, best in columns.items() if name.startswith(begins)
    }
    return {"threshold": columns[THRESHOLD]} | ({"thresholds": of_sets} if of_sets else {})


def validate(
    trainer: Trainer,
    batches: Iterable[Batch],
    *,
    weights: LossOptions,
    parallel: Parallel,
    after_batch: Callable[[Batch, Tensor], None],
    sets: Sequence[str] = ("",),
    set_numbers: Iterable[Sequence[int]] = itertools.repeat((0,)),
) -> Scores:
    """Measure the model that a trainer keeps over all valid pixels, of all processes together.

    Args:
        trainer: whose model is measured.
        batches: all of one size; pixels of empty windows are ignored in the masks.
        weights: of the terms of the loss.
        parallel: processes that share the windows.
        after_batch: called with every batch and its logits.
        sets: names of the sets of scenes, an empty one where there are none.
        set_numbers: for every batch, which of them each of its windows belongs to.

    Raises:
        DataError: if no pixel is valid.
    """
    sums, counts = torch.zeros(()), torch.zeros((len(sets), 2, LEVELS), dtype=torch.int64)
    for batch, numbers in zip(batches, set_numbers, strict=False):
        logits, batch_sums = trainer.evaluate(batch)
        sums = sums.to(logits.device) + batch_sums
        of_windows = count(logits, batch[1].to(logits.device))
        of_set = torch.tensor(numbers, device=logits.device).expand(len(of_windows))
        counts = counts.to(logits.device).index_add(0, of_set, of_windows)
        after_batch(batch, logits)
    pixels = parallel.sum(counts).cpu().numpy()
    if not pixels.any():
        raise DataError("the held-out chips contain no pixel with data; change the split")
    loss = float(loss_of(parallel.sum(sums), weights=weights))
    every = Histogram(*pixels.sum(axis=0))
    by_set = {
        name: Histogram(*sides)
        for name, sides in zip(sets, pixels, strict=True)
        if name and sides[1].any()  # A set without roads says nothing of a threshold.
    }
    return Scores(loss, every, by_set)


def count(logits: Tensor, masks: Tensor) -> Tensor:
    """Count the valid pixels of each window by their probability of any road.

    Returns:
        Shape (window, 2, 256): those without and those with road, by the byte that the
        probability has in a raster.
    """
    windows = torch.arange(len(masks), device=masks.device)[:, None, None]
    level = (logits[:, -1].float().sigmoid().nan_to_num() * CERTAIN).round().long()
    cell = (2 * windows + (masks != BACKGROUND)) * LEVELS + level
    pixels = torch.bincount(cell[masks != IGNORE], minlength=2 * LEVELS * len(masks))
    return pixels.view(-1, 2, LEVELS)
