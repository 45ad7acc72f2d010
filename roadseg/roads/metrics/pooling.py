"""Pooling: measures of several comparisons that add up, and the shares that follow from them."""

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
