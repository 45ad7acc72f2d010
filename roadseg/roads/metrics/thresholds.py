"""Thresholds: the probability from which on calling pixels road is right most often."""

from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Ints
from roadseg.raster.windows import CERTAIN
from roadseg.roads.metrics.pixels import Counts

LEVELS = CERTAIN + 1  # Values of a probability in a byte.
_BYTES = np.arange(LEVELS)
_CHOICES = [number / 100 for number in range(10, 91)]


@dataclass(frozen=True, eq=False)
class Histogram:
    """Pixels by their probability of any road; add those of several sets to pool them.

    Attributes:
        background: how many pixels without road have each probability, shape (256,), that of
            certain road last, as bytes of a raster have them.
        roads: alike, of the pixels with road.
    """

    background: Ints
    roads: Ints

    def __add__(self, other: "Histogram") -> "Histogram":
        """Pool two of them."""
        return Histogram(self.background + other.background, self.roads + other.roads)

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
