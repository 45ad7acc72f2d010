"""Validation: loss, IoU, F1 and perhaps clDice of a network on the windows held out."""

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass

import torch
from torch import Tensor

from roadseg.errors import DataError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.losses import loss_of
from roadseg.learn.options import LossOptions
from roadseg.learn.training.trainer import Batch, Trainer
from roadseg.roads.masks.burning import BACKGROUND, IGNORE, road_pixels
from roadseg.roads.metrics.pixels import CentrelineCounts, Counts, count_centrelines

_ALMOST_NONE = 0.02  # predicted pixels for one of the reference, below which a network is blind


@dataclass(frozen=True)
class Scores:
    """Scores of a network on the windows held out.

    Attributes:
        loss: over all valid pixels together.
        roads: valid pixels of any road that are right, wrong and missed at probability 0.5.
        centrelines: those of the skeletons, likewise; None if they were not asked for.
    """

    loss: float
    roads: Counts
    centrelines: CentrelineCounts | None = None

    def columns(self) -> dict[str, float]:
        """Return what goes into the table of epochs."""
        columns = {"val_loss": self.loss, "val_iou": self.roads.iou, "val_f1": self.roads.f1}
        return columns | ({"val_cldice": self.centrelines.cldice} if self.centrelines else {})

    @property
    def is_almost_blind(self) -> bool:
        """Whether there are roads, but hardly any was predicted."""
        right = self.roads.true_positive
        predicted, reference = right + self.roads.false_positive, right + self.roads.false_negative
        return predicted < _ALMOST_NONE * reference


def validate(
    trainer: Trainer,
    batches: Iterable[Batch],
    *,
    weights: LossOptions,
    centrelines: bool,
    parallel: Parallel,
    after_batch: Callable[[Batch, Tensor], None],
) -> Scores:
    """Measure the model that a trainer keeps over all valid pixels, of all processes together.

    Args:
        trainer: whose model is measured.
        batches: all of one size; pixels of empty windows are ignored in the masks.
        weights: of the terms of the loss.
        centrelines: whether to thin the roads of every window, on the CPU, and count that too.
        parallel: processes that share the windows.
        after_batch: called with every batch and its logits.

    Raises:
        DataError: if no pixel is valid.
    """
    sums, counts = torch.zeros(()), torch.zeros((), dtype=torch.int64)
    lines = torch.zeros(4, dtype=torch.int64)
    for batch in batches:
        logits, batch_sums = trainer.evaluate(batch)
        sums = sums.to(logits.device) + batch_sums
        counts = counts.to(logits.device) + count(logits, batch[1].to(logits.device))
        if centrelines:
            lines += count_lines(logits, batch[1])
        after_batch(batch, logits)
    valid, *roads = parallel.sum(counts).tolist()
    if valid == 0:
        raise DataError(
            "the validation chips hold no pixel with data; split the chips in another way"
        )
    loss = float(loss_of(parallel.sum(sums), weights=weights))
    pixels = Counts(*(int(number) for number in roads))
    if not centrelines:
        return Scores(loss, pixels)
    return Scores(loss, pixels, CentrelineCounts(*parallel.sum(lines.to(sums.device)).tolist()))


def count(logits: Tensor, masks: Tensor) -> Tensor:
    """Count valid pixels, and true positives, false positives and false negatives among them."""
    valid = masks != IGNORE
    reference = valid & (masks != BACKGROUND)
    predicted = valid & (logits[:, -1] > 0)
    right = reference & predicted
    return torch.stack([m.sum() for m in (valid, right, predicted & ~right, reference & ~right)])


def count_lines(logits: Tensor, masks: Tensor) -> Tensor:
    """Count centreline pixels: of the prediction, of these on labelled road, and the other way.

    Each window is thinned by itself: roads end at its border. Pixels that are not valid count for
    nothing.

    Returns:
        Shape (4,), the fields of `CentrelineCounts`.
    """
    labels, roads = masks.cpu().numpy(), (logits[:, -1] > 0).cpu().numpy()
    windows = [
        astuple(count_centrelines(road_pixels(mask), road, mask != IGNORE))
        for mask, road in zip(labels, roads, strict=True)
    ]
    return torch.tensor(windows).sum(dim=0)
