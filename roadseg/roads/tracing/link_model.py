"""LinkModel: the probability that a link across a gap is a road, from features along its way."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from roadseg.arrays import Bools, Floats, Lines
from roadseg.roads.logistic import LogisticModel, log_odds, read_packaged

_LEAST_M = 0.1  # Metres; shorter lengths count as this, so that their logarithm is finite.


@dataclass(frozen=True)
class LinkFeatures:
    """Features of candidate links, one row for each.

    Attributes:
        line: shape (k,), LineStrings in metres.
        length_m: shape (k,), along the line.
        straight_m: shape (k,), from end to end.
        turn: shape (k,), angle in radians between the heading of the dead end and the link.
        turn_facing: shape (k,), the same at the other dead end; 0 at the side of a road.
        is_facing: shape (k,), whether the link joins two dead ends.
        own_m: shape (k,), length of the edge that it continues.
        is_lone: shape (k,), whether that edge has two dead ends.
        mean: shape (k,), mean probability of road along the line, 0 to 1.
        quarter: shape (k,), lower quartile of that probability.
        lowest_5m: shape (k,), lowest mean over 5 m of the line.
        lowest: shape (k,), lowest probability.
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
            "log odds of the mean": log_odds(self.mean),
            "log odds of the lower quarter": log_odds(self.quarter),
            "log odds of the lowest 5 m": log_odds(self.lowest_5m),
            "log odds of the lowest": log_odds(self.lowest),
        }


class LinkModel(LogisticModel):
    """A logistic regression on `LinkFeatures`."""

    def predict(self, links: LinkFeatures) -> Floats:
        """Return the probability that each link is a road, shape (k,), 0 to 1."""
        return self.probability(links.columns())


@cache
def general_link_model() -> LinkModel:
    """Return the model that comes with the package; `scripts/fit_links.py` fits it."""
    model = read_packaged("link_model.json")
    return LinkModel(model.intercept, model.coefficients)
