"""LinkModel: how probable it is that a link across a gap is a road, by what lies along its way."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from roadseg.arrays import Bools, Floats, Lines

_LEAST_M = 0.1  # Metres below which lengths are not told apart.
_SOFT = 0.01  # Keeps log odds of probabilities finite.


@dataclass(frozen=True)
class LinkFeatures:
    """What is known of links that may be, one row for each.

    Attributes:
        line: shape (k,), LineStrings in metres.
        length_m: shape (k,), along the line.
        straight_m: shape (k,), from end to end.
        turn: shape (k,), angle in radians between the dead end and its link.
        turn_facing: shape (k,), the same at the other dead end; 0 at the side of a road.
        is_facing: shape (k,), whether it joins two dead ends.
        own_m: shape (k,), length of the edge that it continues.
        is_lone: shape (k,), whether that edge has two dead ends.
        mean: shape (k,), mean probability of road along the line, 0 to 1.
        quarter: shape (k,), probability that a quarter of the line does not reach.
        lowest_5m: shape (k,), lowest mean over 5 m of it.
        lowest: shape (k,), lowest of all.
    """

    line: Lines
    length_m: Floats
    straight_m: Floats
    turn: Floats
    turn_facing: Floats
    is_facing: Bools
    own_m: Floats
    is_lone: Bools
    mean: Floats
    quarter: Floats
    lowest_5m: Floats
    lowest: Floats

    def columns(self) -> dict[str, Floats]:
        """Return the terms of the model, each of shape (k,), by name."""
        length_m = np.maximum(self.length_m, _LEAST_M)
        return {
            "log length": np.log(length_m),
            "length": length_m,
            "log winding": np.log(length_m / np.maximum(self.straight_m, _LEAST_M)),
            "turn": self.turn,
            "turn at the other dead end": self.turn_facing,
            "joins two dead ends": self.is_facing.astype(np.float64),
            "log length of its edge": np.log(np.maximum(self.own_m, _LEAST_M)),
            "edge has two dead ends": self.is_lone.astype(np.float64),
            "log odds of the mean": _log_odds(self.mean),
            "log odds of the lower quarter": _log_odds(self.quarter),
            "log odds of the lowest 5 m": _log_odds(self.lowest_5m),
            "log odds of the lowest": _log_odds(self.lowest),
        }


@dataclass(frozen=True)
class LinkModel:
    """A logistic regression.

    Attributes:
        intercept: log odds where all terms are 0.
        coefficients: log odds for each unit of a term, by the names of `LinkFeatures.columns`.
    """

    intercept: float
    coefficients: Mapping[str, float]

    def probability(self, links: LinkFeatures) -> Floats:
        """Return how probable it is that each link is a road, shape (k,), 0 to 1."""
        columns = links.columns()
        log_odds = self.intercept + sum(
            weight * columns[name] for name, weight in self.coefficients.items()
        )
        return np.asarray(1 / (1 + np.exp(-log_odds)))


@cache
def general_model() -> LinkModel:
    """Return the model that comes with the package; `scripts/fit_links.py` fits it."""
    path = files("roadseg").joinpath("roads", "tracing", "link_model.json")
    stored = json.loads(path.read_text(encoding="utf-8"))
    return LinkModel(stored["intercept"], stored["coefficients"])


def _log_odds(probability: Floats) -> Floats:
    soft = np.asarray((1 - 2 * _SOFT) * probability + _SOFT)
    return np.asarray(np.log(soft / (1 - soft)))
