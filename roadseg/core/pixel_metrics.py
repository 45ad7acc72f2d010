"""Count the pixels that two masks share or not: IoU, precision, recall and F1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Counts:
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

    def __add__(self, other: "Counts") -> "Counts":
        """Pool two comparisons."""
        return Counts(
            self.true_positive + other.true_positive,
            self.false_positive + other.false_positive,
            self.false_negative + other.false_negative,
        )

    @property
    def iou(self) -> float:
        """Intersection over union, TP / (TP + FP + FN); 1 when both masks are empty."""
        return self._ratio(self.true_positive + self.false_positive + self.false_negative)

    @property
    def precision(self) -> float:
        """TP / (TP + FP); with nothing predicted 1 if the reference is empty too, else 0."""
        return self._ratio(self.true_positive + self.false_positive)

    @property
    def recall(self) -> float:
        """TP / (TP + FN); with an empty reference 1 if nothing is predicted either, else 0."""
        return self._ratio(self.true_positive + self.false_negative)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, 2 IoU / (1 + IoU); 1 when both are empty."""
        return 2 * self.iou / (1 + self.iou)

    def _ratio(self, whole: int) -> float:
        """Share of the true positives in `whole`, by the rule for 0 / 0 above."""
        if whole:
            return self.true_positive / whole
        return float(self.false_positive == 0 and self.false_negative == 0)


def count_pixels(reference: Mask, predicted: Mask, valid: Mask) -> Counts:
    """Count the pixels that two road masks share and those that only one of them has.

    Args:
        reference: shape (row, col), true where the labels show road.
        predicted: same shape, true where road was predicted.
        valid: same shape, false where a pixel is not to be counted (no data, ignored label).

    Returns:
        The counts over the valid pixels.

    Raises:
        ValueError: the shapes differ, or a mask is not boolean.
    """
    masks = {"reference": reference, "predicted": predicted, "valid": valid}
    for name, mask in masks.items():
        if mask.dtype != np.bool_:
            raise ValueError(f"the {name} mask is {mask.dtype}, expected bool")
        if mask.shape != reference.shape:
            raise ValueError(f"the {name} mask is {mask.shape}, the reference {reference.shape}")
    return Counts(
        true_positive=int(np.count_nonzero(reference & predicted & valid)),
        false_positive=int(np.count_nonzero(~reference & predicted & valid)),
        false_negative=int(np.count_nonzero(reference & ~predicted & valid)),
    )
