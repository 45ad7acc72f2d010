"""Pooling: measures of several comparisons that add up, shares of them, and means over folds."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Self


@dataclass(frozen=True)
class Pooled:
    """A base of dataclasses whose fields add up, such as counts and lengths."""

    def __add__(self, other: Self) -> Self:
        """Pool two comparisons."""
        names = [each.name for each in fields(self)]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


def share(part: float, whole: float, *, other_side: float) -> float:
    """Return what share a part has of a whole.

    A share of nothing (0 / 0) is 1 if there is nothing on the other side either, else 0.
    """
    return min(part / whole, 1.0) if whole else float(other_side == 0)


def harmonic_mean(one: float, other: float) -> float:
    """Return the harmonic mean of two shares; 0 if both are 0."""
    return 2 * one * other / (one + other) if one + other else 0.0


@dataclass(frozen=True)
class Spread:
    """Mean and spread of a metric.

    Attributes:
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
