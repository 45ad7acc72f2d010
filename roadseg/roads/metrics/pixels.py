"""Count the pixels that masks share or not: IoU, precision, recall, F1, the threshold."""

from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Bools, Ints
from roadseg.raster.windows import CERTAIN
from roadseg.roads.metrics.pooling import Pooled, share

LEVELS = CERTAIN + 1  # Values of a probability in a byte.
_BYTES = np.arange(LEVELS)
_CHOICES = [number / 100 for number in range(10, 91)]


@dataclass(frozen=True)
class Counts(Pooled):
    """Pixels of a comparison; add the counts of all chips to pool them: `sum(chips, Counts())`.

    A ratio without anything to count (0 / 0) is 1 when no road is in either mask, so that finding
    nothing where nothing is counts as right, and 0 otherwise.

    Attributes:
        true_positive: pixels that are road in both masks.
        false_positive: pixels that are road in the predicted mask only.
        false_negative: pixels that are road in the reference mask only.
    """

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0

    @property
    def iou(self) -> float:
        """Intersection over union, TP / (TP + FP + FN); 1 when both masks are empty."""
        wrong = self.false_positive + self.false_negative
        return share(self.true_positive, self.true_positive + wrong, other_side=0)

    @property
    def precision(self) -> float:
        """TP / (TP + FP); with nothing predicted 1 if the reference is empty too, else 0."""
        predicted = self.true_positive + self.false_positive
        return share(self.true_positive, predicted, other_side=self.false_negative)

    @property
    def recall(self) -> float:
        """TP / (TP + FN); with an empty reference 1 if nothing is predicted either, else 0."""
        reference = self.true_positive + self.false_negative
        return share(self.true_positive, reference, other_side=self.false_positive)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 2 IoU / (1 + IoU); 1 when both are empty."""
        return 2 * self.iou / (1 + self.iou)


@dataclass(frozen=True, eq=False)
class Histogram(Pooled):
    """Pixels by their probability of any road; add those of several sets to pool them.

    Attributes:
        background: how many pixels without road have each probability, shape (256,), that of
            certain road last, as bytes of a raster have them.
        roads: alike, of the pixels with road.
    """

    background: Ints
    roads: Ints

    def at(self, threshold: float) -> Counts:
        """Compare pixels of at least this probability, 0 to 1, with those that have road."""
        is_road = threshold * CERTAIN <= _BYTES
        found, wrong = (int(side[is_road].sum()) for side in (self.roads, self.background))
        return Counts(found, wrong, int(self.roads.sum()) - found)

    @property
    def best_threshold(self) -> float:
        """The hundredth from 0.1 to 0.9 with the highest IoU, the one in the middle of equals."""
        scores = [self.at(threshold).iou for threshold in _CHOICES]
        equals = [t for t, score in zip(_CHOICES, scores, strict=True) if score == max(scores)]
        return equals[(len(equals) - 1) // 2]


def count_pixels(reference: Bools, predicted: Bools, valid: Bools) -> Counts:
    """Count the pixels that two road masks share and those that only one of them has.

    Args:
        reference: shape (row, col), true where the labels show road.
        predicted: same shape, true where road was predicted.
        valid: same shape, false where a pixel is not to be counted (no data, ignored label).

    Returns:
        The counts over the valid pixels.
    """
    return Counts(
        true_positive=int(np.count_nonzero(reference & predicted & valid)),
        false_positive=int(np.count_nonzero(~reference & predicted & valid)),
        false_negative=int(np.count_nonzero(reference & ~predicted & valid)),
    )
