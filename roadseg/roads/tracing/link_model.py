"""LinkModel: the probability that a link across a gap is a road, from features along its path."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats
from roadseg.roads.logistic import LogisticModel, log_odds, read_packaged
from roadseg.roads.tracing.link_paths import TracedLinks

_LEAST_M = 0.1  # Metres; shorter lengths count as this, so that their logarithm is finite.


@dataclass(frozen=True)
class LinkFeatures:
    """Features of candidate links, one row for each.

    Attributes:
        paths: shape (k,), through the raster.
        straight_m: shape (k,), from end to end.
        turn: shape (k,), angle in radians between the heading of the dead end and the link.
        turn_facing: shape (k,), the same at the other dead end; 0 at the side of a road.
        is_facing: shape (k,), whether the link joins two dead ends.
        own_m: shape (k,), length of the edge that it continues.
        is_lone: shape (k,), whether that edge has two dead ends.
    """

    paths: TracedLinks
    straight_m: Floats
    turn: Floats
    turn_facing: Floats
    is_facing: Bools
    own_m: Floats
    is_lone: Bools

    def columns(self) -> dict[str, Floats]:
        """Return the terms of the model, each of shape (k,), by name."""
        paths = self.paths
        length_m = np.maximum(shapely.length(paths.lines), _LEAST_M)
        return {
            "log length": np.log(length_m),
            "length": length_m,
            "log winding": np.log(length_m / np.maximum(self.straight_m, _LEAST_M)),
            "turn": self.turn,
            "turn at the other dead end": self.turn_facing,
            "joins two dead ends": self.is_facing.astype(np.float64),
            "log length of its edge": np.log(np.maximum(self.own_m, _LEAST_M)),
            "edge has two dead ends": self.is_lone.astype(np.float64),
            "log odds of the mean": log_odds(paths.probability),
            "log odds of the lower quarter": log_odds(paths.quarter),
            "log odds of the lowest 5 m": log_odds(paths.lowest_5m),
            "log odds of the lowest": log_odds(paths.lowest),
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
