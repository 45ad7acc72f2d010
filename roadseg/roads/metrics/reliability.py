"""Reliability: whether what is said with a confidence is right as often as that."""

from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Floats

BINS = 10  # Ranges of confidence, each a tenth wide.


@dataclass(frozen=True)
class Bin:
    """Edges whose confidence lies in one range.

    Attributes:
        confidence: mean over their length, 0 to 1.
        share: of their length that is real, 0 to 1.
    """

    confidence: float
    share: float
    km: float


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram in figures.

    Attributes:
        bins: one for each range of confidence that has edges, the least sure first.
    """

    bins: tuple[Bin, ...] = ()

    @property
    def km(self) -> float:
        """Length of all edges."""
        return sum(each.km for each in self.bins)

    @property
    def error(self) -> float:
        """Expected calibration error: how far confidence and share lie apart, by length; 0 to 1.

        Source: M. Pakdaman Naeini, G. Cooper, M. Hauskrecht, "Obtaining well calibrated
        probabilities using Bayesian binning", AAAI 2015, with ten bins of equal width; metres of
        road take the place of samples.
        """
        apart = sum(abs(each.confidence - each.share) * each.km for each in self.bins)
        return apart / self.km if self.km else 0.0


def measure_reliability(confidence: Floats, share: Floats, length_m: Floats) -> Reliability:
    """Return the reliability diagram of edges.

    Args:
        confidence: shape (k,), 0 to 1; an edge at the border of two ranges is in the higher one.
        share: shape (k,), how much of each edge is real, 0 to 1.
        length_m: shape (k,), metres.
    """
    number = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    metres, sure, real = (
        np.bincount(number, weights=length_m * values, minlength=BINS)
        for values in (np.ones(len(length_m)), confidence, share)
    )
    return Reliability(
        tuple(
            Bin(float(sure[row] / metres[row]), float(real[row] / metres[row]), metres[row] / 1000)
            for row in np.flatnonzero(metres > 0).tolist()
        )
    )
