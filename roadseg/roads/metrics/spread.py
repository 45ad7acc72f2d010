"""Spread: the mean of a metric over folds, and by how much it differs between them."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """Mean and spread of a metric.

    Attributes:
        mean: of its values.
        std: sample standard deviation (divided by their number less one); None of a single value.
    """

    mean: float
    std: float | None

    def times(self, factor: float) -> "Spread":
        """Return the spread in other units."""
        return Spread(self.mean * factor, None if self.std is None else self.std * factor)

    def __str__(self) -> str:
        """Return both, such as 0.712 +- 0.031."""
        return f"{self.mean:.3f}" + ("" if self.std is None else f" +- {self.std:.3f}")


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Return the spread of those values that were measured and are finite; None without any."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)
